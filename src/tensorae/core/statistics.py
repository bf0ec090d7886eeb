"""Sums over the members of clusters, kept up to date by the rows that move.

Shapes: k clusters, d features, r starts, m rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from tensorae.data.rows import LARGE_WIDTH, Chunk, Rows
from tensorae.exceptions import InvalidInputError

__all__ = ["Accumulator", "MemberMoments", "Moments", "SubspaceMoments", "positive"]

# Rows wait until so many of them or so many numbers have gathered, then go into the sums together:
# not too many, because a product sums all of them in the precision of the rows.
PENDING_ROWS, PENDING_ENTRIES = 1 << 15, 1 << 22
# Products that take as long as adding the rows of one cluster takes at least.
CLUSTER_WORK = 10_000_000
# Members of a cluster up to which their products with each other are decomposed, and the share of
# the largest eigenvalue below which one of these is rounding.
FEW_MEMBERS, RANK_DIGITS = 1024, 1e-12
# Bytes of d x d sums beyond which a fit would not end well.
LARGEST_SUMS = 8_000_000_000
# Numbers in the scatters of all clusters up to which they are kept as they are after a fit.
KEPT_NUMBERS = 1 << 24


@dataclass
class Moments:
    """Sums over the members of every cluster, about a reference point of that cluster.

    The reference keeps the second moments small, so that single precision is enough for rows.
    """

    references: Tensor  # (r, k, d)
    counts: Tensor  # (r, k), sum of the weights
    sums: Tensor  # (r, k, d)
    # (r, k), sum of the squared norms: the trace of ``seconds``, always in the accurate precision
    squares: Tensor
    seconds: Tensor  # (r, k, d, d), sum of x xᵀ; in the precision of the rows where it is large
    # (r, k, L), how often each level of the categorical columns occurs, which rows (d + L,) show by
    # indicators after their d numbers
    levels: Tensor
    _means: Tensor | None = field(default=None, init=False, repr=False)
    # Whether few rows may be added to all clusters by one product.
    one_product: ClassVar[bool] = True

    @classmethod
    def zeros(cls, references: Tensor, rows_dtype: torch.dtype, n_levels: int = 0) -> Moments:
        """Empty sums about ``references`` (r, k, d)."""
        r, k, d = references.shape
        size = r * k * d * d * references.element_size()
        if size > LARGEST_SUMS:
            raise _too_large(d, r * k, size)
        new = references.new_zeros
        kind = rows_dtype if d >= LARGE_WIDTH else references.dtype
        return cls(
            references,
            counts=new(r, k),
            sums=new(r, k, d),
            squares=new(r, k),
            seconds=new(r, k, d, d, dtype=kind),
            levels=new(r, k, n_levels),
        )

    @classmethod
    def about_means(
        cls, counts: Tensor, means: Tensor, scatters: Tensor, levels: Tensor | None = None
    ) -> Moments:
        """Moments of clusters whose scatters (r, k, d, d) about their means are known."""
        squares = scatters.diagonal(dim1=-2, dim2=-1).sum(-1)
        levels = counts.new_zeros(*counts.shape, 0) if levels is None else levels
        return cls(means, counts, torch.zeros_like(means), squares, scatters, levels)

    @classmethod
    def of_arrays(cls, kept: Mapping[str, NDArray[Any]], device: torch.device) -> Moments:
        """Moments of one start about the clusters' means, from what ``arrays`` gave."""
        names = [name for name in ("counts", "centers", "scatters", "levels") if name in kept]
        tensors = (
            torch.as_tensor(kept[name], dtype=torch.float64, device=device) for name in names
        )
        return cls.about_means(*(tensor[None] for tensor in tensors))

    def arrays(
        self, kind: DTypeLike, shift: Tensor | float = 0.0, factor: float = 1.0
    ) -> dict[str, NDArray[Any]]:
        """All that there is to keep of one start: counts, centers, scatters, and levels if any.

        Scatters, the bulk, are of precision ``kind``; centres are moved by ``shift`` (d,), and
        rows count ``factor`` times.
        """
        scatters = self.scaled_scatters(factor)[0].cpu().numpy()
        kept = {
            "counts": factor * self.counts[0].cpu().numpy(),
            "centers": (self.centers()[0] + shift).cpu().numpy(),
            "scatters": scatters.astype(kind, copy=False),
        }
        if self.levels.shape[-1]:
            kept["levels"] = factor * self.levels[0].cpu().numpy()
        return kept

    def __getitem__(self, starts: Tensor) -> Moments:
        return Moments(*(part[starts] for part in (self.references, *self.tensors())))

    def with_prior(self, scatter: Tensor, trace: float | Tensor, *, common: bool) -> Moments:
        """Moments with a scatter (d, d) or (r, 1, d, d) more in every cluster.

        If ``common``, with that and the scatters of all clusters together.
        """
        more = scatter.to(self.seconds.dtype)
        if not common:
            return replace(self, squares=self.squares + trace, seconds=self.seconds + more)
        pooled = (self.scatters().sum(1, keepdim=True) + more).expand_as(self.seconds)
        about = Moments.about_means(self.counts, self.centers(), pooled.contiguous(), self.levels)
        squares = self.traces().sum(1, keepdim=True) + trace
        return replace(about, squares=squares.expand_as(self.counts).contiguous())

    def largest_first(self) -> Tensor:
        """Order (k,) of the clusters of one start: falling weight, equal ones by their centres."""
        counts, centers = self.counts[0].cpu().numpy(), self.centers()[0].cpu().numpy()
        order = np.lexsort((*centers.T[::-1], -counts))
        return torch.as_tensor(order, device=self.counts.device)

    def reordered(self, order: Tensor) -> Moments:
        """Number the clusters anew, in all starts: cluster ``order[j]`` becomes j."""
        return Moments(
            *(part.index_select(1, order) for part in (self.references, *self.tensors()))
        )

    def tensors(self) -> list[Tensor]:
        """The sums."""
        return [self.counts, self.sums, self.squares, self.seconds, self.levels]

    def plus(self, other: Moments) -> Moments:
        """Add sums about the same references, in place."""
        self.forget_means()
        for own, more in zip(self.tensors(), other.tensors(), strict=True):
            own += more
        return self

    def forget_means(self) -> None:
        """The sums have changed."""
        self._means = None

    def means(self) -> Tensor:
        """Mean of each cluster (r, k, d) relative to its reference; zero if it is empty."""
        # Asked for several times per pass, and the bulk of a pass over small data.
        if self._means is None:
            self._means = self.sums / positive(self.counts).unsqueeze(-1)
        return self._means

    def centers(self) -> Tensor:
        """Mean of each cluster (r, k, d)."""
        return self.references + self.means()

    def traces(self) -> Tensor:
        """Trace of each scatter matrix (r, k)."""
        return (self.squares - (self.sums * self.means()).sum(-1)).clamp(min=0)

    def scatters(self) -> Tensor:
        """Σ̂_j, the scatter matrices (r, k, d, d) about the means, not normalised."""
        return self.seconds - self.sums.unsqueeze(-1) * self.means().unsqueeze(-2)

    def pooled(self) -> Tensor:
        """Sum of the scatter matrices of one start (d, d)."""
        return self.scatters()[0].sum(0)

    def scatters_inside(self, basis: Tensor) -> Tensor:
        """``basisᵀ Σ̂_j basis`` (k, q, q) of one start for a basis (d, q)."""
        return basis.mT @ self.scatters()[0] @ basis

    @property
    def n_numbers(self) -> int:
        """Numbers in the second moments."""
        return self.counts.numel() * self.sums.shape[-1] ** 2

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the second moments."""
        return self.seconds.dtype

    def scaled_scatters(self, factor: float) -> Tensor:
        """``factor * Σ̂_j`` in the precision in which the second moments are kept."""
        r, k, d = self.sums.shape
        outer = [
            part.reshape(r * k, *part.shape[2:])
            for part in (self.sums.unsqueeze(-1), self.means().unsqueeze(-2))
        ]
        seconds = self.seconds.view(r * k, d, d)
        left, right = (part.to(seconds.dtype) for part in outer)
        return torch.baddbmm(seconds, left, right, beta=factor, alpha=-factor).view(r, k, d, d)

    def scatter_times(self, basis: Tensor) -> Tensor:
        """``Σ̂_j @ basis`` (r, k, d, b) without forming Σ̂_j."""
        image = (self.seconds @ basis.to(self.seconds.dtype)).to(basis.dtype)
        return image - self.sums.unsqueeze(-1) * (self.means().unsqueeze(-2) @ basis)

    def add(self, group: tuple[int, int], x: Tensor, weights: Tensor) -> None:
        """Add rows (m, d) to cluster ``group`` = (start, j); negative weights take away."""
        self.forget_means()
        shifted = x - self.references[group].to(x.dtype)
        weighted = shifted * weights.unsqueeze(1)
        self.counts[group] += weights.sum(dtype=self.counts.dtype)
        self.sums[group] += weights @ shifted
        seconds = self.seconds[group]
        if seconds.dtype == x.dtype:
            self.squares[group] += (weighted * shifted).sum()
            seconds.addmm_(weighted.mT, shifted)
        else:
            products = weighted.mT @ shifted
            self.squares[group] += products.diagonal().sum(dtype=self.squares.dtype)
            seconds.add_(products)

    def add_to(
        self, clusters: slice, counts: Tensor, sums: Tensor, seconds: Tensor, levels: Tensor
    ) -> None:
        """Add to some clusters, counted through all starts: (J,), (J, d), (J, d, d), (J, L)."""
        self.forget_means()
        squares = seconds.diagonal(dim1=-2, dim2=-1).sum(-1, dtype=self.squares.dtype)
        self.counts.view(-1)[clusters] += counts
        self.sums.flatten(0, 1)[clusters] += sums
        self.squares.view(-1)[clusters] += squares
        self.seconds.flatten(0, 1)[clusters] += seconds
        self.levels.flatten(0, 1)[clusters] += levels


class SubspaceMoments(Moments):
    """Sums of one start over wide rows: Σ̂_j times a basis (1, k, d, b), k d b numbers, not k d².

    What else there is to know of Σ̂_j takes one more pass over the rows: ``again`` adds all rows,
    with the same weights in clusters, to other sums.
    """

    one_product = False

    def __init__(
        self,
        references: Tensor,
        basis: Tensor,
        n_levels: int,
        again: Callable[[Moments], Moments] | None = None,
    ) -> None:
        k, new = references.shape[1], references.new_zeros
        self.references, self.basis, self.again, self._means = references, basis, again, None
        self.counts, self.squares, self.sums = new(1, k), new(1, k), torch.zeros_like(references)
        self.levels, self.images = new(1, k, n_levels), torch.zeros_like(basis)
        self.prior: Tensor | None = None
        self.common = False

    @property
    def seconds(self) -> Tensor:  # type: ignore[override]
        """Sum of x xᵀ (1, k, d, d), by another pass."""
        return self._again(Moments.zeros(self.references, self.dtype)).seconds

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the second moments."""
        return self.references.dtype

    def tensors(self) -> list[Tensor]:
        """The sums."""
        return [self.counts, self.sums, self.squares, self.images, self.levels]

    def __getitem__(self, starts: Tensor) -> Moments:
        return self

    def reordered(self, order: Tensor) -> Moments:
        """Number the clusters anew: cluster ``order[j]`` becomes j."""
        places, new = order.argsort(), copy(self)
        for name in ("references", "basis", "counts", "squares", "sums", "levels", "images"):
            setattr(new, name, getattr(self, name).index_select(1, order))
        new.again = lambda sums: self._again(sums.reordered(places)).reordered(order)
        new.forget_means()
        return new

    def with_prior(self, scatter: Tensor, trace: float | Tensor, *, common: bool) -> Moments:
        """Moments with a scatter (d, d) more in every cluster, or in all of them together."""
        new = copy(self)
        new.prior, new.common = scatter.to(self.basis), common
        if common:
            new.references, new.sums = self.centers(), torch.zeros_like(self.sums)
            new.squares = self.traces().sum(1, keepdim=True).expand_as(self.counts)
            within = self.images - self.sums.unsqueeze(-1) * (self._mean_rows() @ self.basis)
            new.images = within.sum(1, keepdim=True).expand_as(self.images)
            new.forget_means()
        new.squares = new.squares + trace
        return new

    def add(self, group: tuple[int, int], x: Tensor, weights: Tensor) -> None:
        """Add rows (m, d) to cluster ``group`` = (start, j); negative weights take away."""
        shifted = x - self.references[group].to(x.dtype)
        self.counts[group] += weights.sum(dtype=self.counts.dtype)
        self.sums[group] += weights @ shifted
        lengths = torch.linalg.vector_norm(shifted, dim=1).double()
        self.squares[group] += weights.double() @ lengths.square_()
        # Products of few rows with many columns are several times faster than of many with few.
        along = self.basis[group].mT.to(x.dtype) @ shifted.mT
        self.images[group] += (along.mul_(weights) @ shifted).mT

    def scatters(self) -> Tensor:
        """Σ̂_j (1, k, d, d), by another pass."""
        within = self._again(Moments.zeros(self.references, self.dtype)).scatters()
        if self.common:
            within = within.sum(1, keepdim=True).expand_as(within)
        return within if self.prior is None else within + self.prior

    def scatter_times(self, basis: Tensor) -> Tensor:
        """``Σ̂_j @ basis`` (1, k, d, b): of the basis of these sums, or by another pass."""
        if basis is self.basis:
            image = self.images - self.sums.unsqueeze(-1) * (self._mean_rows() @ basis)
        else:
            found = self._again(SubspaceMoments(self.references, basis.contiguous(), 0))
            assert isinstance(found, SubspaceMoments)  # as it was given
            image = found.scatter_times(found.basis)
            if self.common:
                image = image.sum(1, keepdim=True).expand_as(image)
        return image if self.prior is None else image + self.prior @ basis

    def scaled_scatters(self, factor: float) -> Tensor:
        """``factor * Σ̂_j``."""
        return factor * self.scatters()

    def pooled(self) -> Tensor:
        """Sum of the scatter matrices (d, d)."""
        return self._again(PooledMoments(self.references)).scatters()[0, 0]

    def scatters_inside(self, basis: Tensor) -> Tensor:
        """``basisᵀ Σ̂_j basis`` (k, q, q) for a basis (d, q)."""
        return basis.mT @ self.scatter_times(basis.expand(*self.counts.shape, -1, -1))[0]

    def _again(self, sums: Moments) -> Moments:
        assert self.again is not None  # of rows that have been summed
        return self.again(sums)

    def _mean_rows(self) -> Tensor:
        return self.means().unsqueeze(-2)


class PooledMoments(Moments):
    """Sums (1, k) of all clusters about ``references`` (1, k, d), with one d x d sum for all."""

    one_product = False

    def __init__(self, references: Tensor) -> None:
        k, d = references.shape[1:]
        new = references.new_zeros
        super().__init__(
            references, new(1, k), torch.zeros_like(references), new(1, k), new(1, 1, d, d),
            new(1, k, 0),
        )  # fmt: skip

    def reordered(self, order: Tensor) -> Moments:
        """The same: the order of the clusters does not matter for the sum over all."""
        new = copy(self)
        for name in ("references", "counts", "sums", "squares"):
            setattr(new, name, getattr(self, name).index_select(1, order))
        new.forget_means()
        return new

    def add(self, group: tuple[int, int], x: Tensor, weights: Tensor) -> None:
        """Add rows (m, d) of cluster ``group`` = (start, j)."""
        shifted = x - self.references[group].to(x.dtype)
        self.counts[group] += weights.sum(dtype=self.counts.dtype)
        self.sums[group] += weights @ shifted
        self.seconds[0, 0] += (shifted * weights.unsqueeze(1)).mT @ shifted

    def scatters(self) -> Tensor:
        """Their sum (1, 1, d, d) about the means."""
        return self.seconds - (self.sums.mT @ self.means()).unsqueeze(1)


class MemberMoments(Moments):
    """Sums of one start that keep the members; d x d sums are worked out on demand.

    For rows in memory with more features than members of a cluster: then products of a scatter
    with a basis cost less by way of the members than by way of the matrix, and take no memory.
    """

    def __init__(self, rows: Rows, labels: Tensor, k: int) -> None:
        self.rows, self.labels, self._means = rows, labels, None
        order = labels.long().argsort(stable=True)
        sizes = torch.bincount(labels.long(), minlength=k).tolist()
        self.members = order.split(sizes)
        weights = rows.weights.to(torch.float64)
        device, d = rows.device, rows.d
        counts = torch.zeros(k, dtype=torch.float64, device=device).index_add_(
            0, labels.long(), weights
        )
        centers = torch.zeros(k, d, dtype=torch.float64, device=device)
        squares = torch.zeros(k, dtype=torch.float64, device=device)
        for j, members in enumerate(self.members):
            if members.numel():
                x, share = rows.select(members), weights[members]
                centers[j] = (share.to(x.dtype) @ x).to(torch.float64) / positive(counts[j])
                apart = x - centers[j].to(x.dtype)
                squares[j] = share @ apart.square().sum(1).to(torch.float64)
        self.references, self.counts = centers[None], counts[None]
        self.sums, self.squares = torch.zeros_like(centers)[None], squares[None]
        self.levels = counts.new_zeros(1, k, 0)

    @property
    def seconds(self) -> Tensor:  # type: ignore[override]
        """Σ̂_j, all of them at once (1, k, d, d)."""
        size = self.n_numbers * torch.finfo(self.dtype).bits // 8
        if size > LARGEST_SUMS:
            raise _too_large(self.rows.d, len(self.members), size)
        return torch.stack([x.mT @ self._weighed(x, j) for j, x in self._apart()])[None]

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the second moments."""
        return self.rows.dtype

    def __getitem__(self, starts: Tensor) -> Moments:
        return self

    def reordered(self, order: Tensor) -> Moments:
        """Number the clusters anew: cluster ``order[j]`` becomes j."""
        places = order.argsort().to(self.labels.dtype)
        return MemberMoments(self.rows, places[self.labels.long()], len(self.members))

    def pooled(self) -> Tensor:
        """Sum of the scatter matrices (d, d)."""
        d = self.rows.d
        total = torch.zeros(d, d, dtype=torch.float64, device=self.rows.device)
        for j, x in self._apart():
            total += (x.mT @ self._weighed(x, j)).to(torch.float64)
        return total

    def scatters_inside(self, basis: Tensor) -> Tensor:
        """``basisᵀ Σ̂_j basis`` (k, q, q) for a basis (d, q)."""
        coordinates = ((j, x @ basis.to(x.dtype)) for j, x in self._apart())
        return torch.stack([z.mT @ self._weighed(z, j) for j, z in coordinates]).to(basis.dtype)

    def scatter_times(self, basis: Tensor) -> Tensor:
        """``Σ̂_j @ basis`` (1, k, d, b) without forming Σ̂_j."""
        images = torch.empty_like(basis)
        for j, x in self._apart():
            images[0, j] = x.mT @ self._weighed(x @ basis[0, j].to(x.dtype), j)
        return images

    @property
    def few(self) -> bool:
        """Whether every cluster has so few members that their products tell its directions."""
        return max(len(members) for members in self.members) <= FEW_MEMBERS

    def leading(self, h: int) -> tuple[Tensor, Tensor]:
        """First h eigenvectors (1, k, h, d) and eigenvalues (1, k, h) of every Σ̂_j.

        From the products of the members with each other; zero where there are fewer members.
        """
        k, d = self.references.shape[1:]
        components = self.references.new_zeros(1, k, h, d)
        variances = self.references.new_zeros(1, k, h)
        for j, x in self._apart():
            share = self.rows.weights[self.members[j]].to(torch.float64)
            y = x.to(torch.float64) * share.sqrt().unsqueeze(1)
            values, vectors = torch.linalg.eigh(y @ y.mT)
            found = values[-h:].flip(-1).clamp(min=0)
            kept = found > RANK_DIGITS * found[:1]
            scale = torch.where(kept, found, 1).rsqrt() * kept
            rows = (vectors[:, -h:].flip(-1) * scale).mT @ y
            components[0, j, : len(rows)], variances[0, j, : len(rows)] = rows, found * kept
        return components, variances

    def _apart(self) -> Iterator[tuple[int, Tensor]]:
        """Every cluster with its members (m, d) about their mean."""
        for j, members in enumerate(self.members):
            yield j, self.rows.select(members) - self.references[0, j].to(self.rows.dtype)

    def _weighed(self, x: Tensor, j: int) -> Tensor:
        return x * self.rows.weights[self.members[j]].to(x.dtype).unsqueeze(1)


class Accumulator:
    """Rows with their weights in clusters, gathered until it pays to sum them cluster by cluster.

    Rows that leave a cluster have negative weights there. ``tensors`` are the sums of all of them,
    which is what ``Rows.reduce`` asks for at the end.
    """

    def __init__(self, moments: Moments) -> None:
        self.moments = moments
        self.noted: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        self.size = self.n_pairs = self.entries = 0

    def note(self, clusters: Tensor, places: Tensor, weights: Tensor, x: Tensor) -> None:
        """Note the rows at ``places`` (m,) of x (b, d + L), in clusters (m,) of all starts."""
        if not len(clusters):
            return
        if 2 * len(places) < len(x):  # do not keep rows that nobody needs
            x, places = x.index_select(0, places), torch.arange(len(places), device=x.device)
        self.noted.append((clusters, places + self.size, weights, x))
        self.size += len(x)
        self.entries += x.numel()
        self.n_pairs += len(clusters)
        if self.entries > PENDING_ENTRIES or self.n_pairs >= PENDING_ROWS:
            self.settle()

    def note_labels(self, chunk: Chunk, labels: Tensor, first: int = 0) -> None:
        """Note all rows of a chunk in the clusters (r, m) of starts from ``first`` on."""
        r, m = labels.shape
        starts = torch.arange(first, first + r, device=labels.device)
        clusters = labels + starts[:, None] * self.moments.counts.shape[1]
        columns = torch.arange(m, device=labels.device).repeat(r)
        self.note(clusters.flatten(), columns, chunk.weight[columns], chunk.x)

    def note_moves(
        self, chunk: Chunk, starts: Tensor | int, columns: Tensor, old: Tensor, new: Tensor
    ) -> None:
        """Note the rows ``columns`` of a chunk that leave clusters for others, all (m,)."""
        first, weights = starts * self.moments.counts.shape[1], chunk.weight[columns]
        self.note(first + old, columns, -weights, chunk.x)
        self.note(first + new, columns, weights, chunk.x)

    def note_shares(self, chunk: Chunk, shares: Tensor, negligible: float) -> None:
        """Note all rows of a chunk by their shares (r, m, k), but for negligible ones."""
        k = shares.shape[-1]
        clusters, columns = (shares > negligible).movedim(1, 2).flatten(0, 1).nonzero().mT
        weights = shares[clusters // k, columns, clusters % k] * chunk.weight[columns]
        self.note(clusters, columns, weights, chunk.x)

    def tensors(self) -> list[Tensor]:
        """The sums, up to date."""
        self.settle()
        return self.moments.tensors()

    def settle(self) -> None:
        """Bring the sums up to date with all rows noted so far."""
        if not self.noted:
            return
        clusters, places, weights, x = (
            parts[0] if len(parts) == 1 else torch.cat(parts)
            for parts in zip(*self.noted, strict=True)
        )
        self.noted, self.size, self.n_pairs, self.entries = [], 0, 0, 0
        d, k = self.moments.sums.shape[-1], self.moments.counts.shape[1]
        n_clusters = self.moments.counts.numel()
        products = len(clusters) * d**2
        if (
            self.moments.one_product
            and products * (n_clusters + 8) <= CLUSTER_WORK * min(n_clusters, len(clusters))
            and (products <= PENDING_ENTRIES)
        ):
            self._add_together(clusters, weights, x.index_select(0, places))
            return
        # Short keys sort several times faster.
        keys = clusters.to(torch.int16) if n_clusters <= 32767 else clusters
        order = keys.argsort(stable=True)
        sizes = torch.bincount(clusters, minlength=n_clusters).tolist()
        places, weights, done = places[order], weights[order], 0
        for cluster, size in enumerate(sizes):
            if size:
                members, share = places[done : done + size], weights[done : done + size]
                values, group = x.index_select(0, members), divmod(cluster, k)
                self.moments.add(group, values[:, :d], share)
                if values.shape[1] > d:
                    self.moments.levels[group] += share @ values[:, d:]
                done += size

    def _add_together(self, clusters: Tensor, weights: Tensor, values: Tensor) -> None:
        """Add rows (m, d + L) to all their clusters by one product: a loop would take longer."""
        d = self.moments.sums.shape[-1]
        references = self.moments.references.flatten(0, 1).index_select(0, clusters)
        x = values[:, :d] - references.to(values.dtype)
        members = x.new_zeros(self.moments.counts.numel(), len(clusters))
        members[clusters, torch.arange(len(clusters), device=x.device)] = weights
        products = (members @ (x.unsqueeze(2) * x.unsqueeze(1)).flatten(1)).view(len(members), d, d)
        sums = (members.sum(1), members @ x, products, members @ values[:, d:])
        self.moments.add_to(slice(None), *sums)


def _too_large(d: int, k: int, size: int) -> InvalidInputError:
    return InvalidInputError(
        f"X has {d} features, for which the sums of {k} clusters take {size / 1e9:.0f} GB; reduce "
        "it first, for example with PCA(200)."
    )


def positive(counts: Tensor) -> Tensor:
    """Counts that can be divided by: one in place of zero."""
    divisors: Tensor = torch.where(counts > 0, counts, 1.0)
    return divisors
