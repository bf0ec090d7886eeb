"""Pictures of clusters with their own spreads, and of round ones."""

import numpy as np
import pytest

from tensorae import LinearTAE, plot

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def uneven():
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.randn(60, 4) * size + place for size, place in ((1, 0), (2, 9))])
    X[:60, 0] *= 6
    return X


@pytest.fixture(
    scope="module",
    params=[{"spread": "own"}, {"latent_dim": 0, "spread": "own"},
            {"latent_dim": 0, "spread": "shared"}, {"latent_dim": 3, "spread": "own"}],
    ids=["own", "round", "k-means", "full"],
)  # fmt: skip
def model(request, uneven):
    return LinearTAE(2, random_state=0, **request.param).fit(uneven)


@pytest.mark.parametrize(
    "draw",
    ["plot_clusters", "plot_cluster_pairs", "plot_loadings", "plot_embedding", "plot_confidence",
     "plot_costs"],
)  # fmt: skip
def test_everything_can_be_drawn(model, uneven, draw):
    getattr(plot, draw)(model, uneven)
    plt.gcf().canvas.draw()


def test_a_model_can_be_drawn_as_a_whole(model, uneven):
    for figure in (model.plot(uneven), model.plot()):
        figure.canvas.draw()
    assert (", own spreads" in figure.get_suptitle()) == (model.spread_ == "own")


def test_codes_without_numbers_are_drawn_as_distances(uneven):
    model = LinearTAE(2, 0, random_state=0).fit(uneven)
    ax = plot.plot_embedding(model, uneven)
    assert "distance from the centre" in ax.get_xlabel()
    off = np.linalg.norm(uneven - model.cluster_centers_[model.labels_], axis=1)
    assert ax.patches[0].get_data().edges[-1] == pytest.approx(off.max())
    assert model.plot(uneven).subfigs[1].get_suptitle() == "Distances"


def test_round_clusters_have_no_loadings_and_it_is_said(uneven):
    model = LinearTAE(2, 0, random_state=0).fit(uneven)
    ax = plot.plot_loadings(model)
    assert ax.texts[0].get_text() == "No loadings: all clusters are round."


def test_costs_of_own_spreads_say_what_they_are(uneven):
    model = LinearTAE(2, spread="own", random_state=0).fit(uneven)
    ax = plot.plot_costs(model, uneven)
    assert ax.images[0].colorbar.ax.get_ylabel().startswith("-2 log (weight x density)")
    assert ax.images[0].get_array().min() == 0
