"""Samples in their clusters: each prediction is made once, moments are exact."""

from collections import Counter

import numpy as np
import pytest

from tensorae import LinearTAE
from tensorae.inspect.samples import ClusteredSamples, evenly_spaced, moments

ONLY = ["predict", "predict_proba", "score_samples", "transform", "reconstruct"]


@pytest.fixture(scope="module")
def linear(penguins):
    return LinearTAE(3, latent_dim=1, random_state=0).fit(penguins[0])


@pytest.fixture
def calls(monkeypatch):
    """How often each method of a LinearTAE is called from outside."""
    counts, inside = Counter(), []

    def counted(name, method):
        def call(*args, **kwargs):
            counts[name] += not inside
            inside.append(name)
            try:
                return method(*args, **kwargs)
            finally:
                inside.pop()

        return call

    for name in ONLY:
        monkeypatch.setattr(LinearTAE, name, counted(name, getattr(LinearTAE, name)))
    return counts


def test_a_figure_of_many_panels_predicts_once(linear, penguins, calls):
    plt = pytest.importorskip("matplotlib.pyplot")
    linear.plot(penguins[0])
    plt.close("all")
    assert max(calls.values()) == 1


def test_a_page_predicts_once(linear, penguins, tmp_path, calls):
    pytest.importorskip("jinja2")
    linear.report(penguins[0], tmp_path / "page.html")
    assert calls == dict.fromkeys(ONLY, 1)


def test_samples_that_are_sorted_are_not_sorted_again(linear, penguins):
    samples = ClusteredSamples.of(linear, penguins[0])
    assert ClusteredSamples.of(linear, samples) is samples
    np.testing.assert_array_equal(samples.labels, linear.labels_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_are_those_of_numpy(dtype, rng):
    values = (rng.normal(size=(20_000, 3)) + np.array([0, 50, -3])).astype(dtype)
    mean, spread, largest = moments(values)
    np.testing.assert_allclose(mean, values.mean(0, dtype=float), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(spread, values.std(0, dtype=float), rtol=1e-9)
    np.testing.assert_array_equal(largest, np.abs(values).max(0))


def test_rounding_is_no_spread_and_large_numbers_do_not_overflow():
    third = np.full(1000, 1 / 3)
    huge = np.where(np.arange(1000) % 2, 1e300, -1e300)
    _, spread, _ = moments(np.column_stack([third, np.zeros(1000), huge]))
    np.testing.assert_allclose(spread, [0, 0, 1e300])


def test_rows_are_thinned_at_even_distances():
    np.testing.assert_array_equal(evenly_spaced(5, 9), range(5))
    rows = evenly_spaced(1000, 10)
    assert (rows[0], rows[-1], len(rows)) == (0, 999, 10)
    assert set(np.diff(rows)) == {111}
