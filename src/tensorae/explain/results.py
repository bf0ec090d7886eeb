"""What ``describe`` found, readable and as a table.

Shapes: k clusters, d features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorae._optional import import_optional

__all__ = ["ClusterSummary", "Component", "Description", "Loading"]


class Loading(NamedTuple):
    """A feature and its part in something."""

    feature: str
    value: float

    def __str__(self) -> str:
        return f"{self.feature} {self.value:+.2f}"


@dataclass(frozen=True, eq=False)
class Component:
    """One direction in which a cluster varies.

    Attributes
    ----------
    variance : float
        Of the cluster's members along it.
    share : float
        The same as a share of the cluster's whole variance.
    loadings : tuple of Loading
        Its main features, largest first.
    direction : ndarray of shape (d,)
        The loadings of all features; their squares sum to one.
    """

    variance: float
    share: float
    loadings: tuple[Loading, ...]
    direction: NDArray[Any] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, fit for JSON."""
        return {
            "variance": self.variance,
            "share": self.share,
            "loadings": [loading._asdict() for loading in self.loadings],
        }


@dataclass(frozen=True, eq=False)
class ClusterSummary:
    """One cluster: how large, where, along which features it varies, and what sets it apart.

    Attributes
    ----------
    label : int
    size : int
        Samples in it.
    share : float
        Of all samples.
    center : ndarray of shape (d,)
    explained : float
        Share of the cluster's variance that its autoencoder keeps.
    components : tuple of Component
        Largest variance first.
    defining : tuple of Loading
        The features in which the centre differs most from the samples of the other clusters, in
        standard deviations of the feature over all samples; empty where there is one cluster.
    typical : tuple of int
        Rows with the lowest costs, lowest first; empty without samples.
    worst : tuple of int
        Rows with the highest costs, highest first.
    """

    label: int
    size: int
    share: float
    center: NDArray[Any]
    explained: float
    components: tuple[Component, ...]
    defining: tuple[Loading, ...]
    typical: tuple[int, ...]
    worst: tuple[int, ...]

    def __str__(self) -> str:
        members = "member" if self.size == 1 else "members"
        lines = [
            f"cluster {self.label}: {self.size} {members} ({100 * self.share:.1f} %), "
            f"{100 * self.explained:.1f} % of its variance kept"
        ]
        if self.defining:
            lines.append(f"  unlike the rest  {_listed(self.defining)}")
        for place, component in enumerate(self.components):
            head = f"component {place}".ljust(15)
            share = f"({100 * component.share:.1f} %)"
            lines.append(f"  {head}  {_listed(component.loadings)}  {share}")
        if self.typical:
            lines.append(f"  typical rows     {', '.join(map(str, self.typical))}")
            lines.append(f"  worst rows       {', '.join(map(str, self.worst))}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists, fit for JSON."""
        return {
            "label": self.label,
            "size": self.size,
            "share": self.share,
            "center": np.asarray(self.center, float).tolist(),
            "explained": self.explained,
            "components": [component.to_dict() for component in self.components],
            "defining": [loading._asdict() for loading in self.defining],
            "typical": list(self.typical),
            "worst": list(self.worst),
        }


@dataclass(frozen=True, repr=False, eq=False)
class Description:
    """A fitted model in words and numbers; iterate over it or take a cluster by its label.

    Attributes
    ----------
    clusters : tuple of ClusterSummary
        In the order of their labels.
    feature_names : tuple of str
    n_samples : int
        Behind the sizes.
    model : str
        Name of the estimator.
    """

    clusters: tuple[ClusterSummary, ...]
    feature_names: tuple[str, ...]
    n_samples: int
    model: str

    def __len__(self) -> int:
        return len(self.clusters)

    def __iter__(self) -> Iterator[ClusterSummary]:
        return iter(self.clusters)

    def __getitem__(self, label: int) -> ClusterSummary:
        return self.clusters[label]

    def __repr__(self) -> str:
        k = len(self.clusters)
        head = (
            f"{self.model}: {self.n_samples} samples, {len(self.feature_names)} features, "
            f"{k} cluster{'s' * (k > 1)}"
        )
        return "\n\n".join([head, *map(str, self.clusters)])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists, fit for JSON."""
        return {
            "model": self.model,
            "n_samples": self.n_samples,
            "feature_names": list(self.feature_names),
            "clusters": [cluster.to_dict() for cluster in self.clusters],
        }

    def to_frame(self) -> Any:
        """One row for each cluster: size, share, variance kept, what sets it apart, its centre.

        Returns
        -------
        pandas.DataFrame
            Indexed by the label; a column ``center_…`` for each feature.
        """
        pandas = import_optional("pandas", extra="datasets")
        rows = [
            {
                "size": cluster.size,
                "share": cluster.share,
                "explained": cluster.explained,
                "defining": _listed(cluster.defining),
            }
            for cluster in self.clusters
        ]
        index = pandas.Index([cluster.label for cluster in self.clusters], name="cluster")
        centers = pandas.DataFrame(
            np.stack([cluster.center for cluster in self.clusters]),
            columns=[f"center_{name}" for name in self.feature_names],
            index=index,
        )
        return pandas.concat([pandas.DataFrame(rows, index=index), centers], axis=1)


def _listed(loadings: tuple[Loading, ...]) -> str:
    return ", ".join(map(str, loadings))
