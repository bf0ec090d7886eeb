"""Clusters are drawn where the samples are, with the axes that the model has."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from tensorae import LinearTAE
from tensorae.inspect import describe
from tensorae.plot import cluster_colors, plot_cluster_pairs, plot_clusters, plot_loadings


def by_label(ax):
    return {line.get_label(): line for line in ax.lines}


def own_lines(ax):
    return [line for line in ax.lines if line.get_label() != "overall axis"]


def test_points_are_the_members_in_the_colours_of_their_clusters(linear, penguins, names):
    X = penguins[0]
    ax = plot_clusters(linear, X, ("bill_depth_mm", 3), feature_names=names)
    assert len(ax.collections) == 3
    for label, dots in enumerate(ax.collections):
        np.testing.assert_array_equal(dots.get_offsets(), X[linear.labels_ == label][:, [1, 3]])
        assert to_hex(dots.get_facecolor()[0]).upper() == cluster_colors(3)[label]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("bill_depth_mm", "body_mass_g")


def test_axes_are_the_components_two_standard_deviations_long(planar, penguins):
    ax = plot_clusters(planar, penguins[0], (0, 2))
    lines = own_lines(ax)
    assert len(lines) == 6
    for label in range(3):
        for place in range(2):
            line = lines[2 * label + place]
            reach = 2 * np.sqrt(planar.explained_variance_[label, place])
            step = reach * planar.components_[label, place]
            ends = planar.cluster_centers_[label] + np.outer([-1, 1], step)
            np.testing.assert_allclose(line.get_xydata(), ends[:, [0, 2]], rtol=1e-9)
            assert line.get_color() == cluster_colors(3)[label]


def test_the_overall_axis_is_the_first_principal_direction_of_all(linear, penguins):
    X = penguins[0]
    line = by_label(plot_clusters(linear, X))["overall axis"].get_xydata()
    one = LinearTAE(1, latent_dim=1).fit(X)
    step = 2 * np.sqrt(one.explained_variance_[0, 0]) * one.components_[0, 0]
    ends = X.mean(0) + np.outer([-1, 1], step)
    np.testing.assert_allclose(line, ends[:, :2], rtol=1e-6)
    assert "overall axis" not in by_label(plot_clusters(linear, X, overall=False))


def test_a_decoder_draws_its_curve(curved, penguins):
    X = penguins[0]
    lines = own_lines(plot_clusters(curved, X, (1, 3)))
    codes = curved.transform(X)[:, 0]
    assert len(lines) == 3
    for label, line in enumerate(lines):
        own = codes[curved.labels_ == label]
        ends = curved.inverse_transform([[own.min()], [own.max()]], [label, label])
        np.testing.assert_allclose(line.get_xydata()[[0, -1]], ends[:, [1, 3]], rtol=1e-5)


def test_one_feature_is_drawn_as_strips(penguins, names):
    X = penguins[0][:, :1]
    model = LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(X)
    ax = plot_clusters(model, X, feature_names=names[:1])
    assert ax.get_xlabel() == names[0]
    for label, dots in enumerate(ax.collections):
        x, y = np.asarray(dots.get_offsets()).T
        np.testing.assert_array_equal(x, X[model.labels_ == label, 0])
        assert (np.abs(y - label) < 0.5).all()
    means = [line.get_xdata()[0] for line in ax.lines[:3]]
    np.testing.assert_allclose(means, model.cluster_centers_[:, 0], rtol=1e-6)


def test_few_clusters_are_named_beside_the_axes(linear, penguins):
    ax = plot_clusters(linear, penguins[0])
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["cluster 0", "cluster 1", "cluster 2", "overall axis"]
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1
    assert plot_clusters(linear, penguins[0], legend=False).get_legend() is None


@pytest.mark.parametrize("k", [12, 50])
def test_many_clusters_are_named_at_their_centres(crowd, k):
    model, X = crowd[k]
    ax = plot_clusters(model, X)
    assert len(ax.collections) == k
    assert sum(len(dots.get_offsets()) for dots in ax.collections) == len(X)
    assert all(dots.get_rasterized() for dots in ax.collections)
    assert [text.get_text() for text in ax.texts] == [str(label) for label in range(k)]
    np.testing.assert_allclose([text.xy for text in ax.texts], model.cluster_centers_[:, :2])


def test_of_very_many_points_a_part_is_drawn(linear, penguins):
    many = np.resize(penguins[0], (50_000, 4))
    ax = plot_clusters(linear, many)
    drawn = sum(len(dots.get_offsets()) for dots in ax.collections)
    assert drawn == 20_000
    faint, full = ax.collections[0], plot_clusters(linear, penguins[0]).collections[0]
    assert faint.get_alpha() < full.get_alpha()


def test_pairs_fill_the_lower_triangle(linear, penguins, names):
    grid = plot_cluster_pairs(linear, penguins[0], feature_names=names)
    assert grid.shape == (4, 4)
    for i in range(4):
        for j in range(i):
            ax = grid[i, j]
            offsets = np.concatenate([dots.get_offsets() for dots in ax.collections])
            order = np.argsort(linear.labels_, kind="stable")
            np.testing.assert_array_equal(offsets, penguins[0][order][:, [j, i]])
            assert len(own_lines(ax)) == 3
        assert len(grid[i, i].patches) == 3
    assert [ax.get_xlabel() for ax in grid[3]] == list(names)
    assert [ax.get_ylabel() for ax in grid[1:, 0]] == list(names[1:])
    assert not grid[0, 2].get_visible()
    assert grid[0, 1].get_legend().get_texts()[0].get_text() == "cluster 0"


def test_pairs_choose_features_that_tell_clusters_apart(rng):
    X = rng.normal(size=(90, 7))
    X[:, [1, 6]] += 20 * (np.arange(90) % 3)[:, None]
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(X)
    grid = plot_cluster_pairs(model, X)
    assert grid.shape == (4, 4)
    assert {"x1", "x6"} <= {ax.get_xlabel() for ax in grid[-1]}
    assert plot_cluster_pairs(model, X, ["x6", 0, "x2"]).shape == (3, 3)
    assert plot_cluster_pairs(model, X, [3]).shape == (1, 1)


def test_given_axes_are_used_and_keep_their_style(linear, penguins):
    figure, ax = plt.subplots()
    assert plot_clusters(linear, penguins[0], ax=ax) is ax
    assert ax.spines["top"].get_visible()
    assert plt.get_fignums() == [figure.number]
    other = plt.figure()
    grid = plot_cluster_pairs(linear, penguins[0], [0, 1], axes=other)
    assert {entry.figure for entry in grid.flat} == {other}
    _, given = plt.subplots(2, 2)
    grid = plot_cluster_pairs(linear, penguins[0], [0, 1], axes=given)
    assert (grid == given).all()


# Loadings ----------------------------------------------------------------------------------------


def test_loadings_are_the_components(planar, names):
    ax = plot_loadings(planar, feature_names=names)
    np.testing.assert_array_equal(ax.images[0].get_array(), planar.components_.reshape(6, 4))
    assert [text.get_text() for text in ax.get_xticklabels()] == list(names)
    assert [text.get_text() for text in ax.get_yticklabels()][:3] == ["0 · 0", "0 · 1", "1 · 0"]
    assert [text.get_text() for text in ax.texts] == [
        f"{value:.2f}" for value in planar.components_.ravel()
    ]
    assert ax.images[0].get_clim() == (-1, 1)


def test_loadings_of_a_tae_are_those_of_its_description(curved, penguins):
    table = plot_loadings(curved, penguins[0]).images[0].get_array()
    expected = [cluster.components[0].direction for cluster in describe(curved, penguins[0])]
    np.testing.assert_allclose(table, expected)


def test_of_many_features_the_largest_loadings_are_shown(rng):
    X = rng.normal(size=(200, 50))
    X[:, [7, 31]] *= 20
    model = LinearTAE(2, latent_dim=1, random_state=0).fit(X)
    ax = plot_loadings(model, n_features=6)
    shown = [text.get_text() for text in ax.get_xticklabels()]
    assert len(shown) == 6
    assert {"x7", "x31"} <= set(shown)
    columns = [int(name[1:]) for name in shown]
    np.testing.assert_array_equal(ax.images[0].get_array(), model.components_[:, 0, columns])
    assert ax.get_xlabel() == "6 of 50 features: the largest loadings"
