"""Epoch -> buffer -> step: all autoencoders, each on batches of its own cluster.

An epoch goes over buffers of rows: data in memory is one buffer, a stream fills several. Many
processes take every step together: each brings the gradients of its own rows, which may be none,
and all take the step of their sum. How many steps a buffer gives, and how many rows each has,
follows from counts over all processes, so that none waits for a step that another does not take.

Where layers are shared, a step takes a batch of every cluster, each with its share of the rows: the
common layers follow the mean over all of them, at the price of one pass over the data.

Shapes: n rows of this process, k clusters, d features, m rows of a buffer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from tensorae.deep.assign import Assigner, Assignments, Members, TrainingData
from tensorae.deep.cross_fit import Copies
from tensorae.deep.schedule import TrainingOptions, n_batches
from tensorae.rows import Rows

__all__ = ["DivergedError", "Steps", "buffers"]

# Steps over which the learning rate rises: the first ones of Adam are as long for weights that do
# not matter as for those that do, and would undo the start.
WARM_UP = 8
# Noise on the inputs while labels are learned, in units of the spread inside clusters; for curves
# at most the second times the square root of d/h: where codes are nearly as long as rows, noise
# hides curves.
INPUT_NOISE, NOISE_PER_WIDTH = 0.5, 0.14
# Numbers in networks that train side by side.
GROUP_NUMBERS = 1 << 16
# Random numbers that are drawn for the noise of an epoch.
NOISE_ENTRIES = 1 << 20
# Numbers in a buffer of streamed rows, and batches per cluster that it should hold at least.
BUFFER_ENTRIES = 1 << 24
BUFFER_BATCHES = 16


class _Noise:
    """Normal numbers for one epoch; drawing new ones for every step would take as long as it."""

    def __init__(self, bank: Tensor, position: int = 0) -> None:
        self.bank, self.position = bank, position

    def like(self, x: Tensor) -> Tensor:
        """Return the next numbers, in the shape of ``x``; from the first again at the end."""
        end = self.position + x.numel()
        if end > self.bank.numel():
            self.position, end = 0, x.numel()
        taken = self.bank[self.position : end].view_as(x)
        self.position = end
        return taken


@dataclass
class _Batches:
    """Random batches of one network in a buffer.

    ``parts`` are rows of the buffer. ``sizes`` are what their losses are divided by: their lengths
    over all processes, or their weights; with shared layers those of all clusters.
    """

    members: Members
    parts: tuple[Tensor, ...]
    shares: tuple[Tensor, ...] | None  # weights of the rows, None where all are one
    sizes: list[Any]


class DivergedError(Exception):
    """The loss of a cluster, which is the argument, is no longer a number."""


class Steps:
    """Epochs of gradient steps; ``copies`` are all networks that there will be.

    ``batch_size`` counts the rows of a step over all processes.
    """

    def __init__(
        self,
        copies: Copies,
        data: TrainingData,
        options: TrainingOptions,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        self.data, self.noise, self.batch_size = data, options.noise, batch_size
        self.latent_dim, self.curved = options.latent_dim, options.curved
        self.generator = generator
        self.groups = _groups(copies)
        self.together = bool(copies.modules[0].shared)
        self.optimizers = [_optimizer(list(group.values()), options.lr) for group in self.groups]
        wanted = max(
            BUFFER_ENTRIES // data.rows.d, BUFFER_BATCHES * options.n_clusters * batch_size
        )
        self.buffer_rows = max(1, min(wanted, data.rows.n))
        # The noise of learning is drawn once, and gone through from another place in each epoch.
        self._bank: Tensor | None = None
        self._seed = generator.initial_seed()
        # Rows in memory have the same members until the next refresh.
        self._trained_on: tuple[Assignments | None, list[Members]] = (None, [])

    def epoch(self, assigner: Assigner, assignments: Assignments, lr: float) -> float:
        """One step per batch of each network; the mean cost in units of the data."""
        copies = assigner.copies
        for module in copies.modules:
            module.train()
        noise = self._noise_for_epoch(copies)
        device = self.data.rows.device
        totals = {
            network: torch.zeros((), dtype=torch.float64, device=device)
            for group in self.groups
            for network in group
        }
        weight = 0.0
        for place, x in buffers(self.data.rows, self.buffer_rows):
            if self.data.rows.streamed or self._trained_on[0] is not assignments:
                self._trained_on = assignments, assigner.members(assignments, place)
            members = self._trained_on[1]
            weight += sum(
                len(one.rows) if one.weights is None else float(one.weights.sum())
                for one in members
            )
            self._train_on(copies, x, members, noise, totals, lr)
        # One look at all losses: reading each would wait for the device every time.
        losses = torch.stack([*totals.values(), torch.tensor(weight, device=device).double()])
        self.data.rows.add_up(losses)
        finite = torch.isfinite(losses)
        if not bool(finite.all()):
            raise DivergedError(list(totals)[int((~finite).nonzero()[0])][1])
        unit = (float(copies.modules[0].scale) * self.data.unit) ** 2
        return unit * float(losses[:-1].sum() / losses[-1])

    def forget(self, parameters: list[nn.Parameter]) -> None:
        """Let a network that starts again do so without the momentum of its old weights."""
        for optimizer in self.optimizers:
            for parameter in parameters:
                optimizer.state.pop(parameter, None)

    def merge_moments(
        self, first: list[nn.Parameter], second: list[nn.Parameter], share: float
    ) -> None:
        """Give parameters the momentum of others, as to a share between none and all of it."""
        states = [optimizer.state for optimizer in self.optimizers]
        for one, other in zip(first, second, strict=True):
            here = next((state for state in states if one in state), None)
            there = next((state for state in states if other in state), None)
            if here is None or there is None:  # one of them has not trained since it began
                self.forget([one])
                continue
            for name, moment in there[other].items():
                here[one][name] = here[one][name].lerp(moment, share)

    def _train_on(
        self,
        copies: Copies,
        x: Tensor,
        members: list[Members],
        noise: _Noise | None,
        totals: dict[tuple[int, int], Tensor],
        lr: float,
    ) -> None:
        """Gradient steps on one buffer x (m, d), a few networks side by side.

        Their losses have nothing in common but shared layers, so one backward pass and one step of
        the optimizer serve all; a network that has no batch left is not touched.
        """
        by_network = {(one.which, one.cluster): one for one in members}
        for group, optimizer in zip(self.groups, self.optimizers, strict=True):
            batches = self._batches({network: by_network.get(network) for network in group})
            sums: dict[tuple[int, int], list[Tensor]] = {network: [] for network in group}
            done = _steps_done(optimizer)
            for step in range(max((len(one.parts) for one in batches), default=0)):
                active = [one for one in batches if step < len(one.parts)]
                losses = []
                for one in active:
                    if len(one.parts[step]):
                        mean, total = self._loss(copies, x, one, step, noise)
                        losses.append(mean)
                        sums[one.members.which, one.members.cluster].append(total)
                optimizer.zero_grad(set_to_none=True)
                torch.autograd.backward(losses)
                if self.data.rows.shared:
                    self._add_gradients(
                        [group[one.members.which, one.members.cluster] for one in active]
                    )
                optimizer.param_groups[0]["lr"] = lr * min(1.0, (done + step + 1) / WARM_UP)
                optimizer.step()
            for network, found in sums.items():
                if found:
                    totals[network] += torch.stack(found).sum(dtype=torch.float64)

    def _loss(
        self, copies: Copies, x: Tensor, batches: _Batches, step: int, noise: _Noise | None
    ) -> tuple[Tensor, Tensor]:
        """Mean loss of a batch, by weight, and its sum without gradient."""
        members, rows = batches.members, batches.parts[step]
        n = len(rows)
        if n == 1:  # batch norm cannot take a single sample
            rows = rows.repeat(2)
        module, j = copies.modules[members.which], members.cluster
        u = _seen(x, rows, copies.flat_centers()[j], module.scale)
        t = u
        if self.data.target is not None:
            t = _seen(self.data.target, rows, copies.flat_centers()[j], module.scale)
        if noise is not None:
            u = u + noise.like(u)
        u, t, penalty = module.shaped(u), module.shaped(t), float(module.latent_penalty)
        if batches.shares is None:
            mean = module.mean_objective(j, u, t, penalty)
            share = n / batches.sizes[step]  # of the batch of all processes
            return (mean if share == 1 else mean * share), mean.detach() * n
        weighted = (batches.shares[step] * module.objective(j, u, t, penalty)).sum()
        repeats = len(rows) / n
        return weighted / (batches.sizes[step] * repeats), weighted.detach() / repeats

    def _batches(self, members: dict[tuple[int, int], Members | None]) -> list[_Batches]:
        """Random batches, even in size: a small rest would make a noisy step.

        A network without rows here takes part where another process has some.
        """
        device = self.data.rows.device
        none = torch.empty(0, dtype=torch.long, device=device)
        here = {network: one or Members(*network, none, None) for network, one in members.items()}
        counts = self._over_processes([len(one.rows) for one in here.values()])
        steps = [n_batches(count, self.batch_size) for count in counts]
        if self.together:
            clusters = max(1, sum(count > 0 for count in counts))
            steps = [n_batches(sum(counts) / clusters, self.batch_size)] * len(counts)
        found = []
        for one, count, n_steps in zip(here.values(), counts, steps, strict=True):
            if count:
                order = torch.randperm(len(one.rows), generator=self.generator, device=device)
                parts, shares = one.rows[order].tensor_split(n_steps), None
                if one.weights is not None:
                    shares = one.weights[order].tensor_split(n_steps)
                found.append(_Batches(one, parts, shares, self._sizes(one, parts)))
        if self.together:
            totals = [sum(sizes) for sizes in zip(*(one.sizes for one in found), strict=True)]
            found = [replace(one, sizes=totals) for one in found]
        return found

    def _sizes(self, members: Members, parts: tuple[Tensor, ...]) -> list[Any]:
        """What the losses of batches are divided by, so that all batches of an epoch are alike."""
        if members.weights is not None:
            mean = members.weights.mean()
            return [mean * len(part) for part in parts]
        return self._over_processes([len(part) for part in parts])

    def _over_processes(self, counts: list[int]) -> list[int]:
        if not self.data.rows.shared:
            return counts
        sums = torch.tensor(counts, device=self.data.rows.device)
        self.data.rows.add_up(sums)
        return sums.tolist()

    def _add_gradients(self, networks: list[nn.Module]) -> None:
        """Sum the gradients of networks over all processes; where there is none, it is zero."""
        parameters = _trained(networks)
        gradients = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in parameters]
        self.data.rows.add_up(*gradients)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient

    def _noise_for_epoch(self, copies: Copies) -> _Noise | None:
        level = self.noise / (float(copies.modules[0].scale) * self.data.unit)
        if level:
            return _Noise(self._normal(self.generator).mul_(level))
        # Variational ones have noise in their codes; more would keep them from learning a curve.
        plain = self.data.target is None and not copies.modules[0].variational
        if not plain or len(copies.modules) == 1:
            return None
        level = INPUT_NOISE
        if self.curved:
            level = min(level, NOISE_PER_WIDTH * math.sqrt(self.data.rows.d / self.latent_dim))
        if self._bank is None:
            # Of a seed of its own, so that a training that goes on has the same.
            own = torch.Generator(self.data.rows.device).manual_seed(self._seed)
            self._bank = self._normal(own).mul_(level)
        begin = torch.randint(
            len(self._bank), (), generator=self.generator, device=self._bank.device
        )
        return _Noise(self._bank, int(begin))

    def _normal(self, generator: torch.Generator) -> Tensor:
        """Normal numbers, enough for two batches at least."""
        rows = self.data.rows
        # Even batches are up to half as long again as asked for.
        size = max(min(rows.n * rows.d, NOISE_ENTRIES), 2 * self.batch_size * rows.d)
        bank = torch.empty(size, dtype=torch.float32, device=rows.device)
        return bank.normal_(generator=generator)


def buffers(rows: Rows, size: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield (slice, rows (m, d)): all rows in memory at once, streamed ones ``size`` at a time.

    Every process gives as many buffers as the one with most; the last ones may be empty.
    """
    if not rows.streamed:
        yield from rows.chunks()
        return
    most = int(rows.processes.of_each(math.ceil(rows.n / size), rows.device).max())
    waiting: list[Tensor] = []
    start = held = done = 0
    for _, chunk in rows.chunks():
        x = chunk.float()
        while len(x):
            part, x = x[: size - held], x[size - held :]
            waiting.append(part)
            held += len(part)
            if held == size or start + held == rows.n:
                yield slice(start, start + held), torch.cat(waiting)
                start, held, done, waiting = start + held, 0, done + 1, []
    for _ in range(done, most):
        yield slice(start, start), torch.empty(0, rows.d, dtype=torch.float32, device=rows.device)


def _seen(x: Tensor, rows: Tensor, center: Tensor, scale: Tensor) -> Tensor:
    """Rows of x (m, d) as a network sees them; memory traffic is a good part of a step."""
    taken = x.index_select(0, rows)
    return torch.addcmul(-center / scale, taken, 1 / scale, out=taken)


def _groups(copies: Copies) -> list[dict[tuple[int, int], nn.Module]]:
    """Networks (copy, cluster) that train side by side: small ones, to share the overhead.

    Large ones go one after the other, because each then stays in the cache for all its steps.
    """
    groups: list[dict[tuple[int, int], nn.Module]] = []
    room = 0
    for which, module in enumerate(copies.modules):
        if module.shared:  # one optimizer for what they have in common
            groups.append({(which, j): net for j, net in enumerate(module.autoencoders)})
            continue
        for cluster, network in enumerate(module.autoencoders):
            size = sum(parameter.numel() for parameter in network.parameters())
            if size > room or not groups:
                groups.append({})
                room = GROUP_NUMBERS
            groups[-1][which, cluster] = network
            room -= size
    return groups


def _trained(networks: list[nn.Module]) -> list[nn.Parameter]:
    """Parameters that are trained, shared ones once."""
    every = (p for network in networks for p in network.parameters() if p.requires_grad)
    return list(dict.fromkeys(every))


def _optimizer(networks: list[nn.Module], lr: float) -> torch.optim.Optimizer:
    parameters = _trained(networks)
    # One kernel for all parameters, where torch has it.
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
    return torch.optim.Adam(parameters, lr=lr, fused=fused)


def _steps_done(optimizer: torch.optim.Optimizer) -> int:
    """Steps that an optimizer has taken with any of its parameters, as far as they matter."""
    done = 0
    for moments in optimizer.state.values():
        done = max(done, int(moments["step"]))
        if done >= WARM_UP:
            break
    return done
