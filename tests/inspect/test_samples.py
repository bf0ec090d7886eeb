"""A fitted model is known by what it offers, and is asked for each thing once."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from tensorae import TAE, LinearTAE, plot
from tensorae.inspect import describe
from tensorae.inspect.samples import ClusteredSamples, FittedModel, evenly_spaced, moments
from tensorae.report import write_report

ONLY = ["predict", "predict_proba", "score_samples", "transform", "reconstruct"]


@pytest.fixture(scope="module")
def linear(penguins):
    return LinearTAE(3, latent_dim=1, random_state=0).fit(penguins[0])


class Stranger:
    """A model of another family, which has what is asked for and nothing else."""

    def __init__(self, model):
        for name in FittedModel.__annotations__:
            setattr(self, name, getattr(model, name))


class Asked:
    """A model that counts the questions."""

    def __init__(self):
        self.counts = Counter()

    def __getattr__(self, name):
        if name == "model":
            raise AttributeError(name)
        self.counts[name] += 1
        return getattr(self.model, name)


def asked(model):
    asked = Asked()
    asked.model = model
    return asked


def test_nothing_that_explains_or_shows_loads_an_estimator():
    program = (
        "import sys, tensorae.inspect, tensorae.plot, tensorae.report; "
        "names = ('torch', 'sklearn', 'matplotlib', 'jinja2'); "
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_any_model_that_offers_enough_is_described_and_drawn(penguins):
    pytest.importorskip("matplotlib")
    X = penguins[0]
    model = TAE(3, latent_dim=2, max_epochs=2, random_state=0).fit(X)
    stranger = Stranger(model)
    expected = str(describe(model, X)).replace("TAE", "Stranger")
    assert str(describe(stranger, X)) == expected
    for draw in (
        plot.plot_clusters,
        plot.plot_cluster_pairs,
        plot.plot_loadings,
        plot.plot_embedding,
        plot.plot_confidence,
        plot.plot_costs,
    ):
        draw(stranger, X)
    plot.plot_sizes(stranger)
    from matplotlib import pyplot as plt

    plt.close("all")


def test_a_figure_of_many_panels_asks_once(linear, penguins):
    plt = pytest.importorskip("matplotlib.pyplot")
    model = asked(linear)
    plot.plot_overview(model, penguins[0])
    plt.close("all")
    assert max(model.counts[name] for name in ONLY) == 1


def test_a_page_asks_once(linear, penguins, tmp_path):
    pytest.importorskip("jinja2")
    model = asked(linear)
    write_report(model, penguins[0], tmp_path / "page.html")
    assert {name: model.counts[name] for name in ONLY} == dict.fromkeys(ONLY, 1)


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
