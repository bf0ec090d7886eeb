"""The linear model of section 2, solved exactly: model -> passes -> solver."""
