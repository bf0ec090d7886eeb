"""Data to try tensorae on: the paper's planted sets, real sets, and noise to add to either."""

from tensorae.datasets.planted import (
    add_noise,
    lines_3d,
    orthogonal_lines,
    parallel_lines,
    triangle,
)
from tensorae.datasets.real import load_fashion_mnist, load_mnist, load_penguins

__all__ = [
    "parallel_lines",
    "orthogonal_lines",
    "triangle",
    "lines_3d",
    "add_noise",
    "load_penguins",
    "load_mnist",
    "load_fashion_mnist",
]
