"""Colours tell clusters apart, for colour-blind readers too."""

import re

import numpy as np
import pytest

from tensorae.exceptions import InvalidParameterError
from tensorae.plot import cluster_colors
from tensorae.plot.style import (
    DARK_PANEL,
    OKABE_ITO,
    _contrast,
    _looks,
    _rgb,
    cluster_markers,
    cluster_styles,
)


def test_the_first_eight_are_okabe_and_ito():
    assert cluster_colors(8) == list(OKABE_ITO)
    assert len(set(OKABE_ITO)) == 8


def test_a_cluster_keeps_its_colour_whatever_their_number():
    fifty = cluster_colors(50)
    for k in (0, 1, 8, 9, 20, 49):
        assert cluster_colors(k) == fifty[:k]


@pytest.mark.parametrize(("k", "least"), [(8, 0.07), (12, 0.07), (20, 0.07), (50, 0.04)])
def test_colours_differ_in_every_kind_of_vision(k, least):
    """In OKLab 0.02 is just seen; black and white are 1 apart."""
    colors = cluster_colors(k)
    assert all(re.fullmatch("#[0-9A-F]{6}", color) for color in colors)
    for looks in _looks(np.array([_rgb(color) for color in [*colors, "#FFFFFF"]])):
        apart = np.linalg.norm(looks[:, None] - looks[None], axis=-1)
        assert apart[~np.eye(k + 1, dtype=bool)].min() > least


def test_vision_is_modelled_as_it_is():
    """Red and green of one lightness: far apart, but not without red or green cones."""
    looks = _looks(np.array([_rgb("#C00000"), _rgb("#4A7A00")]))
    normal, no_red, no_green = np.linalg.norm(looks[:, 0] - looks[:, 1], axis=-1)
    assert normal > 2 * no_green
    assert normal > 1.4 * no_red
    black, white = _looks(np.array([[0, 0, 0], [255, 255, 255]]))[0]
    np.testing.assert_allclose(black, 0, atol=1e-3)
    np.testing.assert_allclose(white, [1, 0, 0], atol=1e-3)


def test_colour_and_marker_together_are_unique():
    pairs = list(zip(cluster_colors(50), cluster_markers(50), strict=True))
    assert len(set(pairs)) == 50
    assert len(set(cluster_markers(8))) == 1


def test_colours_are_seen_on_dark_ground():
    for style in cluster_styles(50):
        assert _contrast(_rgb(style.dark), _rgb(DARK_PANEL)) >= 3


@pytest.mark.parametrize("k", [-1, 2.5, "three"])
def test_a_number_of_clusters_is_asked_for(k):
    with pytest.raises(InvalidParameterError, match="n_clusters must be an integer"):
        cluster_colors(k)
