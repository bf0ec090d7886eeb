"""Assignments S, and what follows from them: centres, units of codes, λ.

An autoencoder that scores its own training rows keeps them for ever. So each cluster has two copies
of its autoencoder, each trained on one fold of the members, and a row is scored by the copy trained
on the other fold (``Copies``). Streamed rows have one copy: no network memorises them.

A refresh is one pass over all rows: score, assign, revive clusters without members, move centres.
Rows in memory are one chunk; streamed rows are many, possibly of several processes.

Shapes: n rows of this process, k clusters, d features, m candidates, c copies.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from tensorae._torch import FitRNG
from tensorae.assignment import AssignmentContext
from tensorae.data.rows import Rows
from tensorae.deep.module import TensorizedAutoencoder, costs_from_parts
from tensorae.deep.pca import principal_directions
from tensorae.deep.schedule import TrainingOptions
from tensorae.deep.vae import MIN_NOISE

# Clusters that a row is scored by at a refresh: the nearest of the start.
CANDIDATES = 3
# Weights of S below this share of the mean weight train nothing.
NEGLIGIBLE = 1e-4
# First step of Options 1 and 2 in units of one over the mean cost, and its growth per refresh.
FIRST_STEP, STEP_GROWTH, MAX_GROWTH_STEPS = 0.5, 2.0, 60
# Share of the first soft S that is spread over all clusters; more blurs networks at the start.
SOFTNESS = 0.01
# Most revivals of clusters without members, in units of k.
REVIVALS = 2
# Numbers of a stream that decide where to split a cluster.
SPLIT_ENTRIES = 1 << 22
# Numbers of input at a time, and per network on a CPU, so that its layers stay in the cache.
CHUNK_ENTRIES, CACHED_ENTRIES = 1 << 21, 1 << 18
CHUNK_ROWS = (64, 4096)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows to train on, standardised."""

    rows: Rows  # centred, in units of ``unit``; in memory they are one chunk, ``data``
    weights: Tensor | None = None  # (n,), None for streamed rows
    target: Tensor | None = None  # (n, d) clean versions of the rows
    held_out: Tensor | None = None  # (n,) True for rows that are not trained on
    unit: float = 1.0  # of the original data; losses are reported in it
    places: Tensor | None = None  # (n,) rows of the original data

    @cached_property
    def training_weights(self) -> Tensor | None:
        """Weights (n,), zero for rows that are held out."""
        if self.weights is None or self.held_out is None:
            return self.weights
        return self.weights * ~self.held_out

    @cached_property
    def total(self) -> float:
        """Weight of all training rows of all processes."""
        weights = self.training_weights
        return float(self.rows.count) if weights is None else float(weights.sum())

    def weights_of(self, place: slice, x: Tensor) -> Tensor:
        """Weights (m,) of rows x (m, d) at a place."""
        weights = self.training_weights
        return x.new_ones(len(x)) if weights is None else weights[place]


@dataclass(frozen=True, eq=False)
class Members:
    """Rows of a buffer that one network trains on."""

    which: int  # of the copies
    cluster: int
    rows: Tensor  # (m,) indices into the buffer
    weights: Tensor | None  # (m,), None where all are one

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(len(self.rows) if self.weights is None else self.weights.sum())


@dataclass(frozen=True, eq=False)
class Assignments:
    """S; tensors are never changed in place."""

    labels: Tensor  # (n,)
    soft: Tensor | None = None  # (n, k), where S is soft
    candidates: Tensor | None = None  # (n, m) clusters that score a row; None for all
    changed: float = 0.0  # share of the labels that the last refresh changed
    refreshes: int = 0
    revivals: int = 0


@dataclass(frozen=True)
class CostParts:
    """Terms (n, m) of the costs, in the units of the autoencoders."""

    errors: Tensor  # |r-u|²
    codes: Tensor  # |z|²
    outputs: Tensor  # |r|²


@dataclass(frozen=True, eq=False)
class Copies:
    """One or two copies of the k autoencoders."""

    modules: tuple[TensorizedAutoencoder, ...]
    folds: Tensor | None = None  # (n,) which copy trains on a row; None where there is one only
    noise_known: bool = False  # whether noise was measured on unseen rows by former copies

    @classmethod
    def of(cls, module: TensorizedAutoencoder, n: int, generator: torch.Generator) -> Copies:
        """Two copies and folds of equal size."""
        order = torch.randperm(n, generator=generator, device=generator.device)
        folds = torch.empty_like(order)
        folds[order] = torch.arange(n, device=order.device) % 2
        return cls((module, copy.deepcopy(module)), folds)

    def first(self) -> Copies:
        """The first copy alone."""
        return Copies(self.modules[:1], noise_known=self.folds is not None or self.noise_known)

    @property
    def fit_rng(self) -> FitRNG | None:
        """Random numbers of the fit."""
        return self.modules[0].fit_rng

    def flat_centers(self) -> Tensor:
        """Centres (k, d), the same in all copies."""
        return self.modules[0].centers.flatten(1)

    def trained_on(self, which: int, rows: Tensor) -> Tensor:
        """Those of ``rows`` in the fold of a copy; all of them if there are none."""
        if self.folds is None:
            return rows
        own = rows[self.folds[rows] == which]
        return own if own.numel() else rows

    def parts(self, x: Tensor, candidates: Tensor) -> CostParts:
        """Score rows (n, d) by the autoencoders of their candidates (n, m)."""
        n, m = candidates.shape
        table = x.new_empty(3, n * m)
        size = scored_rows(x.shape[1], x.device)
        with torch.no_grad():
            for module in self.modules:
                module.eval()
            for which, j, places in self._groups(candidates):
                for part in places.split(size):
                    module = self.modules[which]
                    table[:, part] = torch.stack(module.parts_of(j, x[part // m]))
        return CostParts(*table.view(3, n, m))

    def costs(self, parts: CostParts, candidates: Tensor) -> Tensor:
        """Costs (n, m) from their parts, with the current scales and λ."""
        first, chosen = self.modules[0], (self._scorers(len(candidates))[:, None], candidates)
        weights, offsets = (
            torch.stack(by_copy)[chosen]
            for by_copy in zip(*(module.penalties() for module in self.modules), strict=True)
        )
        penalised = parts.codes
        if first.by_spread:
            penalised = torch.maximum(parts.outputs, first.spreads[candidates])
        return costs_from_parts(parts.errors, penalised, first.scale, weights, offsets)

    def own_sums(
        self, parts: CostParts, candidates: Tensor, labels: Tensor, weights: Tensor
    ) -> Tensor:
        """Sums (4, c, k) over rows by their own autoencoders: errors, codes, outputs, weights."""
        k = len(self.modules[0].autoencoders)
        size = len(self.modules) * k
        own = candidates == labels[:, None]
        keys = (self._scorers(len(labels))[:, None] * k + candidates)[own]
        sums = [
            torch.zeros(size, dtype=torch.float64, device=labels.device).index_add(
                0, keys, (weights[:, None] * squares)[own].double()
            )
            for squares in (parts.errors, parts.codes, parts.outputs, torch.ones_like(parts.errors))
        ]
        return torch.stack(sums).view(4, -1, k)

    def measure(self, own_sums: Tensor, options: TrainingOptions) -> None:
        """Set the unit of codes of each cluster, and λ if it is estimated.

        Codes become as long as their decodings. λ is the variance along a direction outside of
        the code over that along one inside. Variational autoencoders have the unit of their prior;
        their noise variance is estimated instead.
        """
        errors, codes, outputs, counts = own_sums
        variational = self.modules[0].variational
        if not self.noise_known:
            self.set_noise(float(errors.sum()), float(counts.sum()) * self.flat_centers().shape[1])
        for module, length, code in zip(self.modules, outputs, codes, strict=True):
            if variational:
                break
            scales = module.scale * (length / code).sqrt().to(module.scale.dtype)
            known = (length > 0) & (code > 0)
            module.code_scales = torch.where(known, scales, module.code_scales)
        if self.modules[0].by_spread and outputs.sum() > 0:
            # One more member has the mean spread, because a single member has none.
            mean = outputs.sum() / counts.sum()
            self.share("spreads", (outputs.sum(0) + mean) / (counts.sum(0) + 1))
        if options.latent_penalty is None:
            h, d = options.latent_dim, self.flat_centers().shape[1]
            latent = float(outputs.sum()) / h
            residual = float(errors.sum()) / max(d - h, 1)
            estimate = min(1.0, residual / latent) if latent > 0 and d > h else 1.0
            self.share("latent_penalty", torch.tensor(estimate))

    def set_noise(self, squares: float, weight: float) -> None:
        """Set the noise variance of variational autoencoders."""
        if self.modules[0].variational and weight:
            self.share("noise_variance", torch.tensor(max(MIN_NOISE, squares / weight)))

    def noise_or(self, other: Tensor) -> Tensor:
        """Noise variance of variational autoencoders in units of the data, else the other one."""
        module = self.modules[0]
        return module.scale.square() * module.noise_variance if module.variational else other

    def place(self, center_sums: Tensor) -> None:
        """Set centres by sums and counts (k, d + 1); those without rows stay."""
        sums, counts = center_sums[:, :-1], center_sums[:, -1:]
        present = self.flat_centers()
        means = sums / counts.clamp(min=torch.finfo(present.dtype).tiny)
        self.share("centers", torch.where(counts > 0, means.to(present), present))

    def share(self, name: str, value: Tensor) -> None:
        """Set a buffer of all copies."""
        for module in self.modules:
            if name == "centers":
                module.set_centers(value)
            else:
                setattr(module, name, value.to(getattr(module, name)))

    def _scorers(self, n: int) -> Tensor:
        """Copy (n,) that scores each row: the one that does not train on it."""
        if self.folds is None:
            return torch.zeros(n, dtype=torch.long, device=self.modules[0].scale.device)
        return 1 - self.folds

    def _groups(self, candidates: Tensor) -> Iterator[tuple[int, int, Tensor]]:
        """Yield (copy, cluster, places in the flattened table) to score."""
        k = len(self.modules[0].autoencoders)
        keys = (self._scorers(len(candidates))[:, None] * k + candidates).flatten()
        counts = torch.bincount(keys, minlength=k * len(self.modules)).tolist()
        for key, places in enumerate(keys.argsort(stable=True).split(counts)):
            if places.numel():
                yield key // k, key % k, places


@dataclass(frozen=True)
class Refresh:
    """Result of a refresh."""

    assignments: Assignments
    loss: float  # mean cost, cross-fitted where there are two copies
    revived: list[tuple[int, int]]  # clusters, and those whose networks they take


@dataclass(frozen=True, eq=False)
class Assigner:
    """Updates of S under the current networks, whose centres and units follow."""

    data: TrainingData
    copies: Copies
    options: TrainingOptions

    def first(self, labels: Tensor, costs: Tensor) -> Assignments:
        """First assignments from labels (n,) and costs (n, k); centres, scale and λ follow."""
        k, penalty = self.options.n_clusters, self.options.latent_penalty
        nearest = costs.topk(min(CANDIDATES, k), dim=1, largest=False)
        soft = None if self.options.rule.hard else _softened(labels, k)
        assignments = Assignments(labels, soft, nearest.indices)
        self.place_centers(assignments)
        centers = self.copies.flat_centers()
        squares = torch.cat(
            [
                (chunk.x.float() - centers[labels[chunk.index]]).double().square().sum(1)
                for chunk in self.data.rows.chunks()
            ]
        )
        spread = math.sqrt(self.mean(squares) / self.data.rows.d) or 1.0
        self.copies.share("scale", torch.tensor(spread))
        if penalty is not None:
            self.copies.share("latent_penalty", torch.tensor(penalty))
        return assignments

    def refresh(
        self, now: Assignments, *, settling: bool = False, everyone: bool = False
    ) -> Refresh:
        """One pass: score, assign, revive, move centres.

        With ``settling`` labels are those of the cheapest autoencoders, whatever the rule, and
        clusters without members stay empty. With ``everyone`` all clusters score all rows.
        """
        after, costs = self._reassigned(now, settling=settling, everyone=everyone)
        revived: list[tuple[int, int]] = []
        if not settling:
            after, revived = self._revived(replace(after, refreshes=now.refreshes + 1), costs)
        changed = self._all_reduced((after.labels != now.labels).sum())
        after = replace(after, changed=int(changed) / self.data.rows.count)
        return Refresh(after, self.mean(costs) * self.data.unit**2, revived)

    def _reassigned(
        self, now: Assignments, *, settling: bool, everyone: bool
    ) -> tuple[Assignments, Tensor]:
        """New S and costs (n,); units of codes and centres follow."""
        rows, copies = self.data.rows, self.copies
        labels, soft = torch.empty_like(now.labels), now.soft
        lowest = torch.empty(rows.n, dtype=torch.float32, device=rows.device)
        centers, own = self._no_sums()
        for chunk in rows.chunks():
            place, x = chunk.index, chunk.x.float()
            weights = self.data.weights_of(place, x)
            candidates = self._candidates(now, place, everyone=everyone)
            parts = copies.parts(x, candidates)
            # To score a stream in the current units of its codes it would have to be read twice.
            if not rows.streamed:
                sums = copies.own_sums(parts, candidates, now.labels, weights)
                copies.measure(sums, self.options)
            costs = copies.costs(parts, candidates)
            new, lowest[place], soft = self._assign(now, costs, candidates, settling=settling)
            labels[place] = new
            centers += _center_sums(x, new if soft is None else soft, weights, len(centers))
            if rows.streamed:
                own += copies.own_sums(parts, candidates, new, weights)
        if rows.streamed:
            rows.add_up(centers, own)
            copies.measure(own, self.options)
        copies.place(centers)
        return replace(now, labels=labels, soft=soft), lowest

    def _assign(
        self, now: Assignments, costs: Tensor, candidates: Tensor, *, settling: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Labels and costs (m,) from the costs of candidates, and S if it is soft (in memory)."""
        best = costs.min(1)
        labels = candidates.gather(1, best.indices[:, None])[:, 0]
        if now.soft is None:
            return labels, best.values, None
        soft = self.options.rule.function(costs, now.soft, self._context(now, now.soft, costs))
        if settling:
            return labels, best.values, soft
        return soft.argmax(1), (soft * costs).sum(1), soft

    def measure(self, now: Assignments) -> None:
        """Set the units of codes, and λ if it is estimated, by one pass."""
        _, own = self._no_sums()
        for chunk in self.data.rows.chunks():
            place, x = chunk.index, chunk.x.float()
            candidates = self._candidates(now, place, everyone=True)
            parts = self.copies.parts(x, candidates)
            weights = self.data.weights_of(place, x)
            own += self.copies.own_sums(parts, candidates, now.labels[place], weights)
        self.data.rows.add_up(own)
        self.copies.measure(own, self.options)

    def own_loss(self, now: Assignments) -> tuple[float, float]:
        """Mean cost of rows in memory as assigned, and the share for which that is cheapest."""
        x, place = self.data.rows.data, slice(0, self.data.rows.n)
        weights = self.data.weights_of(place, x)
        candidates = self._candidates(now, place, everyone=False)
        parts = self.copies.parts(x, candidates)
        self.copies.measure(
            self.copies.own_sums(parts, candidates, now.labels, weights), self.options
        )
        costs, own = self.copies.costs(parts, candidates), candidates == now.labels[:, None]
        cheapest = costs.min(1)
        agrees = own.gather(1, cheapest.indices[:, None])[:, 0].float()
        loss = self.mean((costs * own).sum(1)) * self.data.unit**2
        return loss, self.mean(agrees)

    def hardened(self, now: Assignments) -> Assignments:
        """Harden soft assignments whose optimum is hard (Theorem 2.2, i)."""
        if now.soft is None or self.options.rule.probabilistic:
            return now
        hard = replace(now, labels=now.soft.argmax(1), soft=None)
        self.place_centers(hard)
        return hard

    def place_centers(self, now: Assignments) -> None:
        """Set centres to the weighted means of their members; those without members stay."""
        centers, _ = self._no_sums()
        for chunk in self.data.rows.chunks():
            place, x = chunk.index, chunk.x.float()
            weights = self.data.weights_of(place, x)
            shares = now.labels[place].long() if now.soft is None else now.soft
            centers += _center_sums(x, shares, weights, len(centers))
        self.data.rows.add_up(centers)
        self.copies.place(centers)

    def members(self, now: Assignments, place: slice) -> list[Members]:
        """Training rows of each network among those at a place; those without any are left out."""
        weights = self.data.training_weights
        found = []
        for j in range(self.options.n_clusters):
            shares = weights
            if now.soft is not None and weights is not None:
                shares = now.soft[:, j] * weights
                rows = (shares > NEGLIGIBLE * weights.mean()).nonzero()[:, 0]
            else:
                rows = (now.labels[place] == j).nonzero()[:, 0]
                if weights is not None:
                    rows = rows[weights[rows] > 0]
                    shares = None if bool((weights[rows] == 1).all()) else weights
            for which in range(len(self.copies.modules)):
                own = self.copies.trained_on(which, rows)
                if own.numel():
                    share = None if shares is None else shares[own]
                    found.append(Members(which, j, own, share))
        return found

    def held_out_loss(self) -> float:
        """Mean cost of the held-out rows under their cheapest autoencoders."""
        held, weights = self.data.held_out, self.data.weights
        assert held is not None
        assert weights is not None
        x, first = self.data.rows.data[held], Copies(self.copies.modules[:1])
        everyone = torch.arange(self.options.n_clusters, device=x.device).expand(len(x), -1)
        costs = first.costs(first.parts(x, everyone), everyone).amin(1)
        return float(weights[held] @ costs) / float(weights[held].sum()) * self.data.unit**2

    def sizes(self, labels: Tensor, *, weighted: bool = False) -> Tensor:
        """Members (k,) of each cluster in all processes, as number or weight."""
        weights = self.data.weights if weighted else None
        return self._all_reduced(torch.bincount(labels, weights, minlength=self.options.n_clusters))

    def _no_sums(self) -> tuple[Tensor, Tensor]:
        """Zeros for ``_center_sums`` and ``Copies.own_sums``."""
        k, rows = self.options.n_clusters, self.data.rows
        centers = torch.zeros(k, rows.d + 1, dtype=torch.float64, device=rows.device)
        return centers, centers.new_zeros(4, len(self.copies.modules), k)

    def _candidates(self, now: Assignments, place: slice, *, everyone: bool) -> Tensor:
        # Soft rules need all costs, labels the nearest clusters only.
        if everyone or now.soft is not None or now.candidates is None:
            clusters = torch.arange(self.options.n_clusters, device=self.data.rows.device)
            return clusters.expand(place.stop - place.start, -1)
        return now.candidates[place]

    def _context(self, now: Assignments, soft: Tensor, costs: Tensor) -> AssignmentContext:
        weights, total = self.data.training_weights, self.data.total
        assert weights is not None
        tiny = torch.finfo(costs.dtype).tiny
        mean_cost = (((soft * costs).sum(1) @ weights) / total).clamp(min=tiny)
        shares = (weights @ soft) / total
        growth = STEP_GROWTH ** min(now.refreshes, MAX_GROWTH_STEPS)
        return AssignmentContext(
            step_size=FIRST_STEP * growth / mean_cost,
            log_weights=shares.clamp(min=tiny).log(),
            noise_variance=self.copies.noise_or(mean_cost / self.data.rows.d),
        )

    def mean(self, costs: Tensor) -> float:
        """Weighted mean of the costs (n,) of all rows of all processes."""
        weights = self.data.weights_of(slice(None), costs)
        return float(self._all_reduced(weights.double() @ costs.double())) / self.data.total

    def _all_reduced(self, local: Tensor) -> Tensor:
        self.data.rows.add_up(local)
        return local

    # Clusters without members ---------------------------------------------------------------------

    def _revived(
        self, now: Assignments, costs: Tensor
    ) -> tuple[Assignments, list[tuple[int, int]]]:
        """Give each cluster without members half of the one with the highest cost."""
        k, revived = self.options.n_clusters, []
        sizes = self.sizes(now.labels)
        for j in range(k):
            if sizes[j] > 0 or now.revivals >= REVIVALS * k:
                continue
            weights = self.data.weights_of(slice(None), costs)
            totals = costs.new_zeros(k).index_add(0, now.labels, costs * weights)
            parent = int(self._all_reduced(totals).argmax())
            half = self._half_of(now.labels, parent)
            if self._all_reduced(torch.tensor(len(half), device=half.device)) > 0:
                now = self._with_cluster(now, j, half)
                revived.append((j, parent))
        if revived:
            self.place_centers(now)
        return now, revived

    def _half_of(self, labels: Tensor, parent: int) -> Tensor:
        """Rows of a cluster in this process beyond its median along its main direction."""
        rows = self.data.rows
        mean, direction, median = self._cut(labels, parent)
        halves = [labels.new_empty(0, dtype=torch.long)]
        for chunk in rows.chunks():
            members = (labels[chunk.index] == parent).nonzero()[:, 0]
            along = (chunk.x[members].float() - mean) @ direction
            halves.append(members[along > median] + chunk.index.start)
        return torch.cat(halves)

    def _cut(self, labels: Tensor, parent: int) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, main direction and median along it, from the process with most of the cluster."""
        rows = self.data.rows
        cut = torch.zeros(3, rows.d, dtype=torch.float32, device=rows.device)
        counts = rows.processes.of_each(int((labels == parent).sum()), rows.device)
        if rows.processes.rank == int(counts.argmax()) and counts.max() > 0:
            found: list[Tensor] = []
            for chunk in rows.chunks():
                found.append(chunk.x[labels[chunk.index] == parent].float())
                if sum(map(len, found)) * rows.d >= SPLIT_ENTRIES:
                    break
            x = torch.cat(found)
            cut[0] = x.mean(0)
            offsets = x - cut[0]
            cut[1] = principal_directions(offsets, 1, self.copies.fit_rng)[0]
            cut[2] = (offsets @ cut[1]).median()
        rows.add_up(cut)
        return cut[0], cut[1], cut[2, 0]

    def _with_cluster(self, now: Assignments, j: int, rows: Tensor) -> Assignments:
        """S with rows moved to cluster j."""
        labels, candidates, soft = now.labels.clone(), now.candidates, now.soft
        labels[rows] = j
        if candidates is not None:
            candidates = candidates.clone()
            listed = (candidates[rows] == j).any(1)
            candidates[rows, -1] = torch.where(listed, candidates[rows, -1], j)
        if soft is not None:
            soft = soft.clone()
            soft[rows] = _softened(labels[rows], self.options.n_clusters)
        return replace(
            now, labels=labels, candidates=candidates, soft=soft, revivals=now.revivals + 1
        )


def _center_sums(x: Tensor, assigned: Tensor, weights: Tensor, k: int) -> Tensor:
    """Sums of rows x (m, d) by cluster, and their counts (k, d + 1); labels (m,) or S (m, k)."""
    if assigned.ndim == 2:
        shares = assigned * weights[:, None]
        return torch.cat([shares.mT @ x, shares.sum(0)[:, None]], dim=1)
    counts = weights.new_zeros(k).index_add(0, assigned, weights)
    sums = x.new_zeros(k, x.shape[1]).index_add(0, assigned, x * weights[:, None])
    return torch.cat([sums, counts[:, None]], dim=1)


def _softened(labels: Tensor, k: int) -> Tensor:
    """First soft S (n, k): mostly the label, a little of all clusters."""
    sharp = nn.functional.one_hot(labels, k).float()
    return sharp * (1 - SOFTNESS) + SOFTNESS / k


def chunk_rows(n_features: int) -> int:
    """Rows to score at a time, so that memory stays bounded."""
    low, high = CHUNK_ROWS
    return min(high, max(low, CHUNK_ENTRIES // n_features))


def scored_rows(n_features: int, device: torch.device) -> int:
    """Rows to pass to one network at a time."""
    most = chunk_rows(n_features)
    if device.type != "cpu":
        return most
    return min(most, max(CHUNK_ROWS[0], CACHED_ENTRIES // n_features))
