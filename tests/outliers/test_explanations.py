"""Why a row is odd: against conditional Gaussians worked out by hand, and in units of X."""

import numpy as np
import pandas as pd
import pytest

from tensorae import LinearTAE, OutlierTAE
from tensorae.anomaly.residuals import conditional_residuals
from tensorae.exceptions import InvalidParameterError, NotFittedError
from tensorae.inspect import outliers


def correlated(n=600):
    """Size drives two features, the third is on its own; row 7 breaks the bond."""
    rng = np.random.RandomState(0)
    size = rng.randn(n)
    X = np.stack([170 + 10 * size, 70 + 8 * size + rng.randn(n), rng.randn(n)], axis=1)
    X[7, :2] = 185, 60
    return X


@pytest.fixture(scope="module")
def model():
    return OutlierTAE(n_clusters=1, n_estimators=4, random_state=0).fit(correlated())


@pytest.mark.parametrize("gaps", [False, True])
def test_residuals_are_those_of_conditional_gaussians(gaps):
    rng = np.random.RandomState(0)
    X = rng.randn(400, 4) @ rng.randn(4, 4)
    fitted = LinearTAE(1, 3, spread="own", random_state=0).fit(X)
    z = X[:5].copy()
    if gaps:
        z[0, 1] = z[2, 0] = z[2, 3] = np.nan
    expected, deviations = conditional_residuals(fitted, z, np.zeros(5, int))
    axes, along, noise = (
        fitted.components_[0],
        fitted.explained_variance_[0],
        fitted.noise_variance_[0],
    )
    covariance = noise * np.eye(4) + (axes.T * (along - noise)) @ axes
    for row, values in enumerate(z):
        for feature in range(4):
            if np.isnan(values[feature]):
                assert np.isnan(expected[row, feature])
                assert np.isnan(deviations[row, feature])
                continue
            others = [j for j in range(4) if j != feature and not np.isnan(values[j])]
            solved = np.linalg.solve(
                covariance[np.ix_(others, others)], covariance[others, feature]
            )
            center = fitted.cluster_centers_[0]
            mean = center[feature] + solved @ (values[others] - center[others])
            variance = covariance[feature, feature] - solved @ covariance[others, feature]
            assert expected[row, feature] == pytest.approx(mean, rel=1e-6, abs=1e-8)
            off = (values[feature] - mean) / variance**0.5
            assert deviations[row, feature] == pytest.approx(off, rel=1e-6, abs=1e-8)


def test_a_row_is_odd_by_a_combination_of_usual_values(model):
    worst = outliers(model, correlated(), n_rows=3)[0]
    assert worst.row == 7
    assert worst.outlier
    assert worst.probability > 0.99
    assert {feature.name for feature in worst.features[:2]} == {"x0", "x1"}
    weight = next(feature for feature in worst.features if feature.name == "x1")
    assert weight.value == 60
    assert weight.expected == pytest.approx(82, abs=1.5)  # 70 + 8 * 1.5
    assert weight.deviations < -10
    assert "x1 60, expected 8" in worst.because


@pytest.mark.parametrize("kind", ["marginal", "conditional"])
@pytest.mark.parametrize("seed", range(3))
def test_the_planted_feature_comes_first_in_nine_rows_of_ten(kind, seed):
    rng = np.random.RandomState(seed)
    labels = rng.randint(2, size=1000)
    factor = rng.randn(1000)
    loadings = rng.uniform(0.7, 1.3, (2, 6)) * rng.choice([-1, 1], (2, 6))
    X = 5 * labels[:, None] + factor[:, None] * loadings[labels] + 0.3 * rng.randn(1000, 6)
    rows = np.flatnonzero(np.abs(factor) > 1.2)[:40]
    planted = rng.randint(6, size=40)
    if kind == "marginal":
        X[rows, planted] += rng.choice([-12, 12], size=40)
    else:  # on the other side of its centre, where many values are
        X[rows, planted] = 10 * labels[rows] - X[rows, planted]
    model = OutlierTAE(random_state=seed).fit(X)
    found = {odd.row: odd.features[0].name for odd in outliers(model, X, n_rows=None)}
    hits = [found[row] == f"x{feature}" for row, feature in zip(rows, planted, strict=True)]
    assert np.mean(hits) >= 0.9


def test_the_table_has_all_rows_or_the_oddest_with_names_of_the_frame(model):
    frame = pd.DataFrame(correlated(), columns=["height", "weight", "luck"])
    named = OutlierTAE(n_clusters=1, n_estimators=4, random_state=0).fit(frame)
    found = outliers(named, frame, n_rows=5)
    table = pd.DataFrame(found.as_dict())
    assert list(table["score"]) == sorted(table["score"], reverse=True)
    assert "weight" in table["because"][0]
    assert str(found).count("\n") == 5
    assert len(outliers(model, correlated(), n_rows=None)) == 600


def test_a_gap_is_no_cause(model):
    X = correlated()
    X[7, 2] = np.nan
    causes = outliers(model, X, n_rows=1)[0].features
    assert {feature.name for feature in causes} == {"x0", "x1"}


def test_the_report_shows_odd_features_beside_what_was_expected(model, tmp_path):
    page = model.report(correlated(), tmp_path / "odd.html", n_outliers=4).read_text("utf-8")
    section = page[page.index('<section id="outliers">') : page.index('<section id="map">')]
    assert section.count('<tr><td class="number"') == 4
    assert 'data-row="7"' in section
    assert "expected" in section
    assert '<svg class="bar"' in section
    plain = model.reference_.report(correlated(), tmp_path / "plain.html").read_text("utf-8")
    assert 'id="outliers"' not in plain


def test_wrong_questions_get_one_sentence(model):
    with pytest.raises(NotFittedError):
        outliers(OutlierTAE(), correlated())
    with pytest.raises(InvalidParameterError, match="n_rows must be an integer"):
        outliers(model, correlated(), n_rows=0)
    with pytest.raises(InvalidParameterError, match="feature_names must have one name"):
        outliers(model, correlated(), feature_names=["a"])
