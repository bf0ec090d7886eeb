"""What scikit-learn's users build with LinearTAE alone."""

import logging

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold

from tensorae import LinearTAE


def test_a_grid_search_by_score_finds_that_round_clusters_are_round(X):
    """Every fold fits on the rest; the density does not reward a larger h or a smaller λ."""
    search = GridSearchCV(
        LinearTAE(3, random_state=0, n_init=2),
        {"latent_dim": [1, 2], "latent_penalty": [0.1, 0.5, 1.0]},
        cv=KFold(3, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(X)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    by_hand = {
        (p["latent_dim"], p["latent_penalty"]): score
        for p, score in zip(search.cv_results_["params"], scores, strict=True)
    }
    assert by_hand[2, 0.1] < by_hand[1, 0.1] < by_hand[1, 0.5] < by_hand[1, 1.0]
    assert search.best_params_["latent_penalty"] == 1
    assert search.best_estimator_.predict(X).shape == (90,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_components_and_variances_come_in_the_precision_of_the_data(X, dtype):
    fitted = LinearTAE(3, 2, random_state=0).fit(X.astype(dtype))
    for name in ("components_", "explained_variance_"):
        assert isinstance(getattr(fitted, name), np.ndarray)
        assert getattr(fitted, name).dtype == dtype, name


def test_verbose_logs_and_never_prints(X, caplog, capsys):
    with caplog.at_level(logging.INFO, logger="tensorae"):
        LinearTAE(3, 2, random_state=0).fit(X)
        assert caplog.text == ""
        LinearTAE(3, 2, random_state=0, verbose=1, latent_penalty=0.1).fit(X)
    assert "LinearTAE: loss" in caplog.text
    assert "best of 24 starts" in caplog.text
    assert "All settings were given." in caplog.text
    assert capsys.readouterr() == ("", "")
