"""scikit-learn estimators: validate -> solve -> publish."""
