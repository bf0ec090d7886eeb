"""Codes, confidence and costs of the members are drawn as the model has them."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from tensorae import LinearTAE
from tensorae.plot import plot_confidence, plot_costs, plot_embedding

# Codes ------------------------------------------------------------------------------------------


def test_codes_of_one_number_are_counted_for_each_cluster(linear, penguins):
    ax = plot_embedding(linear, penguins[0])
    assert len(ax.patches) == 3
    codes = linear.transform(penguins[0])[:, 0]
    for label, stairs in enumerate(ax.patches):
        values, edges, base = stairs.get_data()
        counts = np.histogram(codes[linear.labels_ == label], bins=edges)[0]
        heights = base - values
        np.testing.assert_allclose(heights / heights.max(), counts / counts.max())
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        f"{label} ({size})" for label, size in enumerate(np.bincount(linear.labels_))
    ]


def test_longer_codes_have_a_scatter_for_each_cluster(conv, digits):
    axes = plot_embedding(conv, digits[0], dims=(2, 0))
    codes = conv.transform(digits[0])
    assert len(axes) == 4
    for label, ax in enumerate(axes):
        own = codes[conv.labels_ == label]
        np.testing.assert_array_equal(ax.collections[0].get_offsets(), own[:, [2, 0]])
        assert ax.get_title() == f"cluster {label} ({len(own)})"
        assert (ax.get_xlim(), ax.get_ylim()) == (axes[0].get_xlim(), axes[0].get_ylim())
    assert axes[0].get_ylabel() == "code 0"
    assert axes[3].get_xlabel() == "code 2"


def test_codes_are_drawn_where_they_are_wanted(linear, planar, penguins):
    _, ax = plt.subplots()
    assert plot_embedding(linear, penguins[0], axes=ax) is ax
    _, three = plt.subplots(1, 3)
    assert (plot_embedding(planar, penguins[0], axes=three) == three).all()
    figure = plt.figure()
    assert {a.figure for a in plot_embedding(planar, penguins[0], axes=figure)} == {figure}


@pytest.mark.parametrize("k", [12, 50])
def test_fifty_clusters_are_still_named(crowd, k):
    model, X = crowd[k]
    ax = plot_embedding(model, X)
    assert len(ax.patches) == k
    assert len(ax.get_yticklabels()) >= min(k, 25)
    _, small = plt.subplots(figsize=(3, 2))
    assert len(plot_embedding(model, X, axes=small).get_yticklabels()) < 12


# Costs and confidence ---------------------------------------------------------------------------


def test_costs_are_sorted_by_cluster_and_size(linear, penguins):
    ax = plot_costs(linear, penguins[0])
    drawn = np.asarray(ax.images[0].get_array())
    costs = linear.costs(penguins[0])
    np.testing.assert_array_equal(np.sort(drawn, axis=0), np.sort(costs, axis=0))
    labels = drawn.argmin(1)
    assert (np.diff(labels) >= 0).all()
    for label in range(3):
        assert (np.diff(drawn[labels == label, label]) >= 0).all()
    ends = [line.get_ydata()[0] + 0.5 for line in ax.lines]
    np.testing.assert_array_equal(ends, np.cumsum(np.bincount(linear.labels_))[:-1])


def test_costs_of_zero_have_a_colour():
    X = np.repeat(np.eye(3) * 5, 10, axis=0)
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(X)
    ax = plot_costs(model, X)
    colors = ax.images[0].to_rgba(ax.images[0].get_array())
    assert (colors[..., 3] == 1).all()
    ax.figure.canvas.draw()


def test_of_many_samples_a_part_has_its_costs_drawn(linear, penguins):
    drawn = plot_costs(linear, np.resize(penguins[0], (9000, 4))).images[0].get_array()
    assert drawn.shape == (4000, 3)


def test_confidence_is_the_probability_of_the_cluster_that_predict_names(linear, penguins):
    X = penguins[0]
    ax = plot_confidence(linear, X, threshold=0.8)
    proba = linear.predict_proba(X)
    for label, dots in enumerate(ax.collections):
        own = proba[linear.labels_ == label, label]
        np.testing.assert_array_equal(np.asarray(dots.get_offsets())[:, 0], own)
        assert ax.texts[label].get_text() == f"{100 * (own < 0.8).mean():.0f} % below 0.8"
    assert 0.8 in [line.get_xdata()[0] for line in ax.lines]
