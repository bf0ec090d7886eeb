"""One epoch: batches and gradient steps, and the record of it that callbacks get.

Each autoencoder trains on batches of its own cluster. An epoch goes over buffers of rows: data in
memory is one buffer, a stream fills several. Several processes take every step together: each
contributes the gradients of its own rows, which may be none. The number of steps and the sizes of
batches follow from counts over all processes, so that no process waits for another.

Where layers are shared, a step takes a batch of every cluster, each with its share of the rows: the
shared layers follow the mean over all of them, at the cost of one pass over the data.

Shapes: n rows of this process, k clusters, d features, m rows of a buffer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tensorae._torch import callers_threads
from tensorae.data.rows import Rows
from tensorae.deep.assign import Assigner, Assignments, Copies, Members, TrainingData
from tensorae.deep.schedule import TrainingOptions, n_batches

if TYPE_CHECKING:
    from tensorae.deep.train import State

# Steps over which the learning rate rises: the first steps of Adam are as long for weights that do
# not matter as for those that do, and would undo the start (mean cost of MNIST after one epoch 18.1
# in place of 23.3, from 18.4; final loss 1.017 of that of naive training in place of 1.071).
WARM_UP = 8
# Noise on the inputs while labels are learned, in units of the spread inside clusters. For curved
# starts it is at most the second number times sqrt(d/h): where codes are nearly as long as rows,
# noise hides curves.
INPUT_NOISE, NOISE_PER_WIDTH = 0.5, 0.14
# Parameters of the networks that train side by side.
GROUP_NUMBERS = 1 << 16
# Random numbers drawn for the noise of an epoch.
NOISE_ENTRIES = 1 << 20
# Numbers in a buffer of streamed rows, and batches per cluster that it holds at least.
BUFFER_ENTRIES, BUFFER_BATCHES = 1 << 24, 16

Network = tuple[int, int]  # copy and cluster


class DivergedError(Exception):
    """The loss of a cluster, the argument, is not finite."""


class _Noise:
    """Normal numbers for one epoch; to draw new ones takes as long as a step."""

    def __init__(self, bank: Tensor, position: int = 0) -> None:
        self.bank, self.position = bank, position

    def like(self, x: Tensor) -> Tensor:
        """Return the next numbers in the shape of ``x``, cyclically."""
        end = self.position + x.numel()
        if end > self.bank.numel():
            self.position, end = 0, x.numel()
        taken = self.bank[self.position : end].view_as(x)
        self.position = end
        return taken


@dataclass
class _Batches:
    """Random batches of one network in a buffer."""

    members: Members
    parts: tuple[Tensor, ...]  # rows of the buffer
    shares: tuple[Tensor, ...] | None  # weights of the rows, None where all are one
    sizes: list[Any]  # divisors of the losses: rows or weights, of all processes


class Trainer:
    """Epochs of gradient steps for all networks of ``copies``.

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
        # The noise of learning is drawn once; each epoch begins at another place of it.
        self._bank: Tensor | None = None
        self._seed = generator.initial_seed()
        # Members of rows in memory stay the same until the next refresh.
        self._trained_on: tuple[Assignments | None, list[Members]] = (None, [])

    def run_epoch(self, assigner: Assigner, assignments: Assignments, lr: float) -> float:
        """One step per batch of each network; returns the mean cost in units of the data."""
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
            weight += sum(one.weight for one in members)
            self._train_on(copies, x, members, noise, totals, lr)
        # Read all losses at once, because each read waits for the device.
        losses = torch.stack([*totals.values(), torch.tensor(weight, device=device).double()])
        self.data.rows.add_up(losses)
        finite = torch.isfinite(losses)
        if not bool(finite.all()):
            raise DivergedError(list(totals)[int((~finite).nonzero()[0])][1])
        unit = (float(copies.modules[0].scale) * self.data.unit) ** 2
        return unit * float(losses[:-1].sum() / losses[-1])

    def forget(self, parameters: list[nn.Parameter]) -> None:
        """Remove the optimizer state of parameters."""
        for optimizer in self.optimizers:
            for parameter in parameters:
                optimizer.state.pop(parameter, None)

    def merge_moments(
        self, first: list[nn.Parameter], second: list[nn.Parameter], share: float
    ) -> None:
        """Interpolate the optimizer state of parameters towards that of others, by a share."""
        states = [optimizer.state for optimizer in self.optimizers]
        for one, other in zip(first, second, strict=True):
            here = next((state for state in states if one in state), None)
            there = next((state for state in states if other in state), None)
            if here is None or there is None:  # one of them has not been trained
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
        totals: dict[Network, Tensor],
        lr: float,
    ) -> None:
        """Train on one buffer x (m, d), a few networks side by side.

        Their losses share nothing but layers, so one backward pass and one optimizer step serve
        all; a network without batches left is not changed.
        """
        by_network = {(one.which, one.cluster): one for one in members}
        for group, optimizer in zip(self.groups, self.optimizers, strict=True):
            batches = self._batches({network: by_network.get(network) for network in group})
            sums: dict[Network, list[Tensor]] = {network: [] for network in group}
            done = _steps_done(optimizer)
            for step in range(max((len(one.parts) for one in batches), default=0)):
                active = [one for one in batches if step < len(one.parts)]
                rate = lr * min(1.0, (done + step + 1) / WARM_UP)
                for network, total in self.train_step(
                    copies, x, active, step, noise, group, optimizer, rate
                ):
                    sums[network].append(total)
            for network, found in sums.items():
                if found:
                    totals[network] += torch.stack(found).sum(dtype=torch.float64)

    def train_step(
        self,
        copies: Copies,
        x: Tensor,
        active: list[_Batches],
        step: int,
        noise: _Noise | None,
        group: dict[Network, nn.Module],
        optimizer: torch.optim.Optimizer,
        lr: float,
    ) -> list[tuple[Network, Tensor]]:
        """One step of the optimizer on a batch of each active network; returns sums of losses."""
        losses, sums = [], []
        for one in active:
            if len(one.parts[step]):
                mean, total = self._loss(copies, x, one, step, noise)
                losses.append(mean)
                sums.append(((one.members.which, one.members.cluster), total))
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(losses)
        if not self.data.rows.processes.alone:
            parameters = _trained([group[one.members.which, one.members.cluster] for one in active])
            gradients = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in parameters]
            self.data.rows.add_up(*gradients)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
        return sums

    def _loss(
        self, copies: Copies, x: Tensor, batches: _Batches, step: int, noise: _Noise | None
    ) -> tuple[Tensor, Tensor]:
        """Weighted mean loss of a batch, and its sum without gradient."""
        members, rows = batches.members, batches.parts[step]
        n = len(rows)
        if n == 1:  # batch norm needs two samples
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

    def _batches(self, members: dict[Network, Members | None]) -> list[_Batches]:
        """Random batches of equal size, because a small rest would make a noisy step.

        A network without rows in this process takes part if another process has some.
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
        """Divisors of the losses, so that all batches of an epoch count alike."""
        if members.weights is not None:
            mean = members.weights.mean()
            return [mean * len(part) for part in parts]
        return self._over_processes([len(part) for part in parts])

    def _over_processes(self, counts: list[int]) -> list[int]:
        if self.data.rows.processes.alone:
            return counts
        sums = torch.tensor(counts, device=self.data.rows.device)
        self.data.rows.add_up(sums)
        return sums.tolist()

    def _noise_for_epoch(self, copies: Copies) -> _Noise | None:
        level = self.noise / (float(copies.modules[0].scale) * self.data.unit)
        if level:
            return _Noise(self._normal(self.generator).mul_(level))
        # Variational codes are noisy already, and more noise hides curves (moons: ARI .53 for .71).
        plain = self.data.target is None and not copies.modules[0].variational
        if not plain or len(copies.modules) == 1:
            return None
        level = INPUT_NOISE
        if self.curved:
            level = min(level, NOISE_PER_WIDTH * math.sqrt(self.data.rows.d / self.latent_dim))
        if self._bank is None:
            # With a seed of its own, so that a resumed training has the same.
            own = torch.Generator(self.data.rows.device).manual_seed(self._seed)
            self._bank = self._normal(own).mul_(level)
        begin = torch.randint(
            len(self._bank), (), generator=self.generator, device=self._bank.device
        )
        return _Noise(self._bank, int(begin))

    def _normal(self, generator: torch.Generator) -> Tensor:
        """Normal numbers for at least two batches."""
        rows = self.data.rows
        # Batches of equal size are up to half as large again as asked for.
        size = max(min(rows.n * rows.d, NOISE_ENTRIES), 2 * self.batch_size * rows.d)
        bank = torch.empty(size, dtype=torch.float32, device=rows.device)
        return bank.normal_(generator=generator)


def buffers(rows: Rows, size: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield (slice, rows (m, d)): all rows in memory at once, streamed ones ``size`` at a time.

    Every process gives as many buffers as the one with most; the last ones may be empty.
    """
    if not rows.streamed:
        yield from ((chunk.index, chunk.x) for chunk in rows.chunks())
        return
    most = int(rows.processes.of_each(math.ceil(rows.n / size), rows.device).max())
    waiting: list[Tensor] = []
    start = held = done = 0
    for chunk in rows.chunks():
        x = chunk.x.float()
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
    """Rows of x (m, d), centred and scaled in place: memory traffic is a good part of a step."""
    taken = x.index_select(0, rows)
    return torch.addcmul(-center / scale, taken, 1 / scale, out=taken)


def _groups(copies: Copies) -> list[dict[Network, nn.Module]]:
    """Networks that train side by side: small ones, to share the overhead.

    Large ones train one after the other, because each then stays in the cache for all its steps.
    """
    groups: list[dict[Network, nn.Module]] = []
    room = 0
    for which, module in enumerate(copies.modules):
        if module.shared:  # one optimizer for the shared layers
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
    """Trainable parameters, shared ones once."""
    every = (p for network in networks for p in network.parameters() if p.requires_grad)
    return list(dict.fromkeys(every))


def _optimizer(networks: list[nn.Module], lr: float) -> torch.optim.Optimizer:
    parameters = _trained(networks)
    # One kernel for all parameters, where torch supports it.
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
    return torch.optim.Adam(parameters, lr=lr, fused=fused)


def _steps_done(optimizer: torch.optim.Optimizer) -> int:
    """Steps that an optimizer has taken, counted up to ``WARM_UP``."""
    done = 0
    for moments in optimizer.state.values():
        done = max(done, int(moments["step"]))
        if done >= WARM_UP:
            break
    return done


# The record of an epoch, and who gets it --------------------------------------------------------


@dataclass(frozen=True)
class Epoch:
    """One epoch of training, as callbacks get it.

    Attributes
    ----------
    epoch : int
        Counted from one.
    n_epochs : int
        Maximum number of epochs.
    phase : {"learn", "close"}
        Whether assignments are learned, or fixed.
    loss : float
        Mean cost of a training sample during the epoch.
    held_out_loss : float
        Mean cost of samples under autoencoders that were not trained on them; NaN in epochs
        that do not measure it.
    changed : float
        Share of the samples whose label changed at the end of the epoch.
    sizes : tuple of int
        Members of each cluster.
    seconds : float
        Duration of the epoch.
    module : Module
        The autoencoders as they are now.
    """

    epoch: int
    n_epochs: int
    phase: str
    loss: float
    held_out_loss: float
    changed: float
    sizes: tuple[int, ...]
    seconds: float
    module: nn.Module = field(repr=False)


History = tuple[Epoch, ...]
Callback = Callable[[Epoch], Any]
COLUMNS = ("epoch", "phase", "loss", "held_out_loss", "changed", "sizes", "seconds")


def as_columns(history: Sequence[Epoch]) -> dict[str, list[Any]]:
    """Return the epochs as lists by column."""
    columns = {name: [getattr(epoch, name) for epoch in history] for name in COLUMNS}
    columns["sizes"] = [list(sizes) for sizes in columns["sizes"]]
    return columns


def from_columns(columns: Mapping[str, list[Any]], n_epochs: int, module: nn.Module) -> History:
    """Return the epochs of ``as_columns``."""
    epochs = []
    for values in zip(*(columns[name] for name in COLUMNS), strict=True):
        fields = dict(zip(COLUMNS, values, strict=True))
        fields["sizes"] = tuple(fields["sizes"])
        epochs.append(Epoch(n_epochs=n_epochs, module=module, **fields))
    return tuple(epochs)


class ProgressReporter:
    """Observer that calls callbacks after every epoch, and shows a progress line if verbose."""

    def __init__(self, callbacks: Sequence[Callback] = (), *, verbose: bool = False) -> None:
        self._callbacks, self._verbose = callbacks, verbose
        self._width = self._reported = 0

    def __call__(self, state: State) -> bool:
        """Report the last epoch, if it is new; True if a callback asks to stop."""
        if not state.history or state.history[-1].epoch == self._reported:
            return False
        epoch = state.history[-1]
        self._reported = epoch.epoch
        if self._verbose:
            self._show(epoch, sum(past.seconds for past in state.history))
        with callers_threads():
            answers = [callback(epoch) for callback in self._callbacks]
        return any(answer is True for answer in answers)

    def close(self) -> None:
        """End the progress line."""
        if self._verbose and self._width:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _show(self, epoch: Epoch, seconds: float) -> None:
        text = (
            f"epoch {epoch.epoch}/{epoch.n_epochs} ({epoch.phase})  loss {epoch.loss:.5g}  "
            f"changed {100 * epoch.changed:.1f} %  sizes {min(epoch.sizes)}-{max(epoch.sizes)}  "
            f"{seconds:.0f} s"
        )
        # A carriage return works in terminals and notebooks; blanks overwrite a longer line.
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)
