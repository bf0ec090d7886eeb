"""``model.plot`` shows what there is to show; mistakes get one clear sentence."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from matplotlib import pyplot as plt

from tensorae import TAE, LinearTAE, plot
from tensorae.exceptions import InvalidInputError, InvalidParameterError, TensoraeError


def titles(figure):
    return [part.get_suptitle() for part in figure.subfigs]


def test_a_table_shows_clusters_codes_confidence_and_loadings(linear, penguins, names):
    figure = linear.plot(penguins[0], feature_names=names)
    assert titles(figure) == ["Clusters", "Codes", "Confidence", "Loadings"]
    assert figure.get_suptitle() == "LinearTAE: 3 clusters, latent dimension 1"
    clusters = figure.subfigs[0].axes[0]
    # The strongest reversal of all pairs.
    assert {clusters.get_xlabel(), clusters.get_ylabel()} == {"bill_depth_mm", "flipper_length_mm"}
    figure.canvas.draw()


def test_features_can_be_chosen(linear, penguins, names):
    figure = linear.plot(penguins[0], feature_names=names, features=("body_mass_g", 0))
    ax = figure.subfigs[0].axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("body_mass_g", "bill_length_mm")


def test_without_a_reversal_the_features_that_differ_most_are_drawn(rng):
    X = rng.normal(size=(90, 5))
    X[:, [1, 3]] += 20 * np.array([[0, 0], [1, 0], [0, 1]])[np.arange(90) % 3]
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(X)
    ax = model.plot(X).subfigs[0].axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x1", "x3")


def test_images_show_reconstructions(conv, digits):
    figure = conv.plot(digits[0])
    assert titles(figure) == [
        "Samples and reconstructions", "Codes", "Confidence", "Loss",
    ]  # fmt: skip
    assert figure.subfigs[0].axes[0].images[0].get_array().shape == (8, 8)
    assert len(figure.subfigs[1].axes) == 4


def test_images_of_two_channels_are_drawn_by_their_pixels(rng):
    """They have no colours to be shown in."""
    images = rng.normal(size=(40, 2, 8, 8))
    model = TAE(2, latent_dim=2, max_epochs=1, random_state=0).fit(images)
    assert titles(model.plot(images))[0] == "Clusters"
    with pytest.raises(InvalidParameterError, match="1 or 3 channels"):
        plot.plot_reconstructions(model, images)


def test_rows_said_to_be_images_are_drawn_as_such(digits):
    X = digits[0].reshape(200, 64)
    model = LinearTAE(4, latent_dim=3, n_init=1, random_state=0).fit(X)
    assert titles(model.plot(X, shape=(8, 8)))[0] == "Samples and reconstructions"
    assert titles(model.plot(X))[0] == "Clusters"


def test_without_samples_the_fit_is_shown(linear, curved):
    assert titles(linear.plot()) == ["Loss", "Loadings"]
    assert titles(curved.plot()) == ["Loss", "Sizes"]


def test_one_cluster_has_no_confidence_to_show(penguins):
    figure = LinearTAE(1, latent_dim=1).fit(penguins[0]).plot(penguins[0])
    assert titles(figure) == ["Clusters", "Codes", "Loadings", "Loss"]


def test_one_feature_and_a_curve_are_drawn(curved, penguins):
    curved.plot(penguins[0]).canvas.draw()
    X = penguins[0][:, :1]
    LinearTAE(2, latent_dim=1, random_state=0).fit(X).plot(X).canvas.draw()


@pytest.mark.parametrize("k", [12, 50])
def test_many_clusters_are_drawn(crowd, k):
    model, X = crowd[k]
    figure = model.plot(X)
    figure.canvas.draw()
    assert titles(figure)[1] == "Codes"


def test_costs_stand_in_for_too_many_small_scatters(rng):
    X = rng.normal(size=(300, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearTAE(17, latent_dim=2, n_init=1, max_iter=3, random_state=0).fit(X)
    assert titles(model.plot(X))[1] == "Costs"


def test_a_given_figure_is_used(linear, penguins):
    figure = plt.figure()
    assert linear.plot(penguins[0], figure=figure) is figure
    assert plt.get_fignums() == [figure.number]


def test_tables_with_names_draw_without_warnings(penguins, names):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(penguins[0].copy(), columns=names)
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(table)
    labels = [text.get_text() for text in model.plot().subfigs[1].axes[0].get_xticklabels()]
    assert labels == list(names)
    model.plot(table)


# Own spreads and round clusters -------------------------------------------------------------------


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


# History -----------------------------------------------------------------------------------------


def test_iterations_show_the_loss_path(linear):
    ax = plot.plot_history(linear)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), linear.loss_path_)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("iteration", "loss")


def test_epochs_show_losses_and_changes_of_label(curved):
    ax = plot.plot_history(curved)
    history = curved.history_
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(lines["training"].get_xdata(), history["epoch"])
    np.testing.assert_array_equal(lines["training"].get_ydata(), history["loss"])
    seen = np.isfinite(history["held_out_loss"])
    np.testing.assert_array_equal(
        lines["held out"].get_ydata(), np.array(history["held_out_loss"])[seen]
    )
    beside = next(other for other in ax.figure.axes if other is not ax)
    heights = [bar.get_height() for bar in beside.patches]
    np.testing.assert_allclose(heights, 100 * np.array(history["changed"]))
    assert beside.get_ylabel() == "labels changed in %"
    named = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"training", "labels changed"} <= set(named)


def test_a_loss_that_falls_far_is_drawn_by_its_logarithm(linear, monkeypatch):
    monkeypatch.setattr(linear, "loss_path_", np.array([1e4, 30.0, 1.0]))
    assert plot.plot_history(linear).get_yscale() == "log"


def test_sizes_are_the_shares(linear):
    ax = plot.plot_sizes(linear)
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, 100 * linear.weights_)


@pytest.mark.parametrize("draw", [plot.plot_history, plot.plot_loadings, plot.plot_sizes])
@pytest.mark.parametrize("draw_samples", [plot.plot_confidence, plot.plot_costs])
def test_given_axes_are_used(linear, penguins, draw, draw_samples):
    _, (ax, other) = plt.subplots(2)
    assert draw(linear, ax=ax) is ax
    assert draw_samples(linear, penguins[0], ax=other) is other


# Mistakes ---------------------------------------------------------------------------------------

WITH_SAMPLES = [
    plot.plot_clusters,
    plot.plot_cluster_pairs,
    plot.plot_embedding,
    plot.plot_reconstructions,
    plot.plot_confidence,
    plot.plot_costs,
    plot.plot_overview,
]
WITHOUT = [
    plot.plot_history,
    plot.plot_loadings,
    plot.plot_sizes,
    plot.plot_overview,
]


@pytest.mark.parametrize("estimator", [LinearTAE(2), TAE(2)])
@pytest.mark.parametrize("draw", WITH_SAMPLES)
def test_an_unfitted_model_is_refused_with_samples(draw, estimator, penguins):
    with pytest.raises(TensoraeError, match="not fitted yet"):
        draw(estimator, penguins[0])
    assert plt.get_fignums() == []


@pytest.mark.parametrize("draw", WITHOUT)
def test_an_unfitted_model_is_refused_without_samples(draw):
    with pytest.raises(TensoraeError, match="not fitted yet"):
        draw(LinearTAE(2))
    assert plt.get_fignums() == []


@pytest.mark.parametrize("draw", WITH_SAMPLES)
def test_samples_of_another_width_are_refused(draw, linear, penguins):
    with pytest.raises(InvalidInputError, match="3 features, but LinearTAE is expecting 4"):
        draw(linear, penguins[0][:, :3])
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (("bill_length_mm", "body_mas_g"), "no feature is called 'body_mas_g'; did you mean"),
        (("bill_length_mm", "wing"), "choose from 'bill_length_mm', 'bill_depth_mm'"),
        ((0, 4), "feature 4 does not exist: there are 4"),
        ((0, 1.5), "a feature must be a name or a column number"),
        ((0, 1, 2), "plot_cluster_pairs draws more"),
    ],
)
def test_an_unknown_feature_is_refused(linear, penguins, names, features, message):
    with pytest.raises(InvalidParameterError, match=message):
        plot.plot_clusters(linear, penguins[0], features, feature_names=names)
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("draw", "change", "parameter"),
    [
        (plot.plot_costs, {"ax": [1]}, "ax"),
        (plot.plot_embedding, {"dims": (0, 2)}, "dims"),
        (plot.plot_loadings, {"feature_names": ("a", "b", "c")}, "feature_names"),
        (plot.plot_loadings, {"n_features": 0}, "n_features"),
    ],
)
def test_other_arguments_are_checked(planar, penguins, draw, change, parameter):
    with pytest.raises(InvalidParameterError, match=f"^{parameter} must"):
        draw(planar, penguins[0], **change)


# Around it --------------------------------------------------------------------------------------


def test_heavy_packages_load_on_first_use():
    program = (
        "import sys; from tensorae import plot, inspect, report; "
        "plot.cluster_colors(60); "
        "print([m for m in ('torch', 'matplotlib', 'plotly', 'jinja2') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_missing_matplotlib_is_named(linear, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(TensoraeError, match=r'pip install "tensorae\[plots\]"'):
        plot.plot_history(linear)
