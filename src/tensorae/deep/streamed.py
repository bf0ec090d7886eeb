"""Training on rows that are read pass by pass, by one process or by many.

A sample has trained the autoencoders first, as rows in memory do. Here they go on with all rows: a
buffer is filled, shuffled and split by cluster, and each autoencoder takes steps on batches of its
own. Labels are kept by row; in the first half of the passes a buffer is assigned anew when it
comes, in the second they are fixed and the learning rate falls to zero.

Many processes take every step together: each brings the gradients of its own rows, which may be
none, and all take the step of their sum. How many steps a buffer gives, and how many rows each has,
follows from counts over all processes, so none waits for a step that another does not take.

Shapes: n rows of this process, k clusters, d features, m rows of a buffer.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from tensorae.deep.history import Epoch, History
from tensorae.deep.keeping import (
    load_optimizers,
    optimizer_tensors,
    under,
    with_history,
)
from tensorae.deep.scoring import chunk_rows
from tensorae.deep.tensorize import TensorizedAutoencoder
from tensorae.deep.training import TrainingOptions
from tensorae.parallel import Processes

if TYPE_CHECKING:
    from tensorae.storage.checkpoints import Checkpoint

__all__ = ["StreamedTraining", "UnitRows"]

# Passes over all rows, where the caller does not say; half of them learn labels.
EPOCHS = 4
# Numbers in a buffer, and batches per cluster that it should hold at least.
BUFFER_ENTRIES = 1 << 24
BUFFER_BATCHES = 16
# Rounds of labels and means that close the training.
CLOSING_ROUNDS = 2


class UnitRows(Protocol):
    """Rows of this process in units in which networks train well."""

    @property
    def n(self) -> int:
        """Rows of this process."""

    @property
    def d(self) -> int:
        """Features."""

    @property
    def count(self) -> int:
        """Rows of all processes."""

    def batches(self) -> Iterator[Tensor]:
        """Yield single-precision rows (m, d), always in the same order."""


@dataclass
class StreamedTraining:
    """One training: the networks, who belongs where, and how far it has come.

    Parameters
    ----------
    module : TensorizedAutoencoder
        Trained on a sample; goes on in place.
    rows : UnitRows
    options : TrainingOptions
    unit : float
        What one is in the data as it came.
    batch_size : int
        Rows of a step over all processes.
    n_epochs : int
    generator : Generator
    history : History
    processes : Processes
    checkpoint : Checkpoint, optional
    """

    module: TensorizedAutoencoder
    rows: UnitRows
    options: TrainingOptions
    unit: float
    batch_size: int
    n_epochs: int
    generator: torch.Generator
    history: History
    processes: Processes
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        device = self.module.scale.device
        self.k = self.module.n_clusters
        self.labels = torch.zeros(self.rows.n, dtype=torch.int32, device=device)
        self.changed = 0.0
        self.problem = ""
        self.optimizers = [_optimizer(net, self.options.lr) for net in self.module.autoencoders]
        wanted = max(BUFFER_ENTRIES // self.rows.d, BUFFER_BATCHES * self.k * self.batch_size)
        self.buffer_rows = max(1, min(wanted, self.rows.n))
        rounds = math.ceil(self.rows.n / self.buffer_rows)
        self.rounds = int(self.processes.of_each(rounds, device).max())

    def run(self) -> None:
        """Assign, train, close."""
        done = self._restore()
        if done == 0:
            self.assign()
        for number in range(done, self.n_epochs):
            began = time.perf_counter()
            learning = number < self.n_epochs // 2
            before = copy.deepcopy(self.module.state_dict())
            try:
                loss = self._epoch(self._rate(number), refresh=learning and number > 0)
            except (FloatingPointError, KeyboardInterrupt) as error:
                self._go_back(before, number, error)
                break
            if learning:
                self.assign()
            stop = self._record(number, learning, loss, began)
            self._keep(number + 1)
            if stop:
                break
        for _ in range(CLOSING_ROUNDS):
            if not self.assign():
                break

    def _go_back(self, before: dict[str, Any], number: int, error: BaseException) -> None:
        """Take the networks of the last whole pass; processes of a group end together."""
        if isinstance(error, KeyboardInterrupt) and not self.processes.alone:
            raise error
        self.module.load_state_dict(before)
        cause = (
            f"the loss was no longer a finite number; lower lr (now {self.options.lr:g})"
            if isinstance(error, FloatingPointError)
            else "training was interrupted"
        )
        self.problem = f"{cause}: the model after {number} of {self.n_epochs} passes is kept."

    def assign(self) -> bool:
        """One pass: labels, then means and the units of codes; True where a label changed."""
        sums = torch.zeros(self.k, self.rows.d, dtype=torch.float64, device=self.labels.device)
        table = torch.zeros(4, self.k, dtype=torch.float64, device=self.labels.device)
        moved = torch.zeros((), dtype=torch.float64, device=self.labels.device)
        start = 0
        for x in self.rows.batches():
            for part in x.split(chunk_rows(x.shape[1])):
                place = slice(start, start + len(part))
                errors, codes, outputs = self._parts(part)
                labels = self._costs(errors, codes).argmin(1)
                moved += (labels != self.labels[place]).sum()
                self.labels[place] = labels.to(torch.int32)
                sums.index_add_(0, labels, part.double())
                ones = torch.ones_like(errors)
                for row, values in enumerate((ones, errors, codes, outputs)):
                    own = values.gather(1, labels[:, None])[:, 0]
                    table[row].index_add_(0, labels, own.double())
                start = place.stop
        self.processes.all_sums(sums, table, moved)
        self._follow(sums, table)
        self.changed = float(moved) / self.rows.count
        return bool(moved > 0)

    def _follow(self, sums: Tensor, table: Tensor) -> None:
        """Centres, units of codes and, where it is estimated, λ from sums over all rows."""
        counts, errors, codes, outputs = table
        module = self.module
        means = (sums / counts.clamp(min=1)[:, None]).to(module.centers.dtype)
        alive = (counts > 0)[:, None]
        module.set_centers(torch.where(alive, means, module.centers.flatten(1)))
        known = (outputs > 0) & (codes > 0)
        scales = module.scale * (outputs / codes.clamp(min=1e-300)).sqrt().to(module.scale.dtype)
        module.code_scales = torch.where(known, scales, module.code_scales)
        if self.options.latent_penalty is None:
            h, d = self.options.latent_dim, self.rows.d
            latent = float(outputs.sum()) / h
            estimate = min(1.0, float(errors.sum()) / max(d - h, 1) / latent) if latent else 1.0
            module.latent_penalty = module.latent_penalty.new_tensor(estimate if d > h else 1.0)

    # Epoch, buffer, step ----------------------------------------------------------------------

    def _epoch(self, lr: float, *, refresh: bool) -> float:
        """One pass of gradient steps; the mean cost in units of the data."""
        for optimizer in self.optimizers:
            optimizer.param_groups[0]["lr"] = lr
        total = torch.zeros((), dtype=torch.float64, device=self.labels.device)
        buffers = self._buffers()
        empty = self.module.scale.new_zeros(0, self.rows.d)
        for _ in range(self.rounds):
            place, x = next(buffers, (slice(0, 0), empty))
            if refresh and len(x):
                self.labels[place] = self._cheapest(x)
            total += self._train_on(x, self.labels[place].long())
        self.processes.all_sum(total)
        if not math.isfinite(float(total)):
            raise FloatingPointError
        return (float(self.module.scale) * self.unit) ** 2 * float(total) / self.rows.count

    def _buffers(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield (slice, rows (m, d)): as many batches as fill a buffer, joined."""
        waiting: list[Tensor] = []
        held = start = 0
        for x in self.rows.batches():
            for part in x.split(self.buffer_rows):
                if held + len(part) > self.buffer_rows and waiting:
                    yield slice(start, start + held), torch.cat(waiting)
                    start, held, waiting = start + held, 0, []
                waiting.append(part)
                held += len(part)
        if waiting:
            yield slice(start, start + held), torch.cat(waiting)

    def _train_on(self, x: Tensor, labels: Tensor) -> Tensor:
        """Steps on one buffer; the sum of its losses here."""
        self.module.train()
        order = torch.randperm(len(x), generator=self.generator, device=x.device)
        shuffled = labels[order]
        members = [order[shuffled == j] for j in range(self.k)]
        counts = torch.tensor([float(len(rows)) for rows in members], dtype=torch.float64)
        steps = [
            max(1, round(count / self.batch_size)) if count else 0
            for count in self.processes.all_sum(counts.to(x.device)).tolist()
        ]
        batches = [
            rows.tensor_split(n) if n else () for rows, n in zip(members, steps, strict=True)
        ]
        sizes = torch.zeros(max(steps), self.k, dtype=torch.float64, device=x.device)
        for j, parts in enumerate(batches):
            for step, part in enumerate(parts):
                sizes[step, j] = len(part)
        self.processes.all_sum(sizes)
        table = sizes.tolist()
        total = torch.zeros((), dtype=torch.float64, device=x.device)
        for step, row in enumerate(table):
            active = [j for j in range(self.k) if step < steps[j] and row[j]]
            losses = []
            for j in active:
                rows = batches[j][step]
                if len(rows):
                    loss = self._loss(x[rows], j)
                    losses.append(loss / row[j])
                    total += loss.detach()
            self._step(active, losses)
        return total

    def _loss(self, x: Tensor, j: int) -> Tensor:
        """Sum of the losses of rows (m, d) under autoencoder j."""
        module = self.module
        u = (x - module.centers[j].flatten()) / module.scale
        target = u
        if self.options.noise:
            level = self.options.noise / (float(module.scale) * self.unit)
            noise = torch.empty_like(u).normal_(std=level, generator=self.generator)
            u = u + noise
        alone = len(u) == 1  # batch norm cannot take a single sample
        if alone:
            u, target = u.repeat(2, 1), target.repeat(2, 1)
        penalty = float(module.latent_penalty)
        losses = module.objective(j, module.shaped(u), module.shaped(target), penalty)
        return losses.mean() if alone else losses.sum()

    def _step(self, active: list[int], losses: list[Tensor]) -> None:
        """One step of the active networks on the gradients of all processes."""
        for j in active:
            self.optimizers[j].zero_grad(set_to_none=True)
        torch.autograd.backward(losses)
        parameters = [p for j in active for p in self._parameters(j)]
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.processes.all_sums(*(p.grad for p in parameters if p.grad is not None))
        for j in active:
            self.optimizers[j].step()

    def _parameters(self, j: int) -> list[nn.Parameter]:
        return [p for p in self.module.autoencoders[j].parameters() if p.requires_grad]

    # Scores -----------------------------------------------------------------------------------

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """|r-u|², |z|² and |r|² of rows (m, d) under all autoencoders, each (m, k)."""
        self.module.eval()
        with torch.no_grad():
            columns = [self.module.parts_of(j, x) for j in range(self.k)]
        errors, codes, outputs = (torch.stack(part, dim=1) for part in zip(*columns, strict=True))
        return errors, codes, outputs

    def _costs(self, errors: Tensor, codes: Tensor) -> Tensor:
        module = self.module
        units = module.latent_penalty * module.code_scales.square()
        return module.scale.square() * errors + units * codes

    def _cheapest(self, x: Tensor) -> Tensor:
        """Labels (m,) of rows (m, d)."""
        size = chunk_rows(x.shape[1])
        labels = [self._costs(*self._parts(part)[:2]).argmin(1) for part in x.split(size)]
        return torch.cat(labels).to(torch.int32)

    # Course -----------------------------------------------------------------------------------

    def _rate(self, number: int) -> float:
        """Learning rate of a pass: falls to zero over the second half."""
        first = self.n_epochs // 2
        closing = self.n_epochs - first
        return self.options.lr * min(1.0, 1 - (number - first) / closing)

    def _record(self, number: int, learning: bool, loss: float, began: float) -> bool:
        sizes = torch.bincount(self.labels.long(), minlength=self.k)
        self.processes.all_sum(sizes)
        return self.history.record(
            Epoch(
                epoch=number + 1,
                n_epochs=self.n_epochs,
                phase="learn" if learning else "close",
                loss=loss,
                held_out_loss=math.nan,
                changed=self.changed if learning else 0.0,
                sizes=tuple(sizes.tolist()),
                seconds=time.perf_counter() - began,
                module=self.module,
            )
        )

    def _keep(self, done: int) -> None:
        """Write the state after a pass, if it is time."""
        if self.checkpoint is None or not self.checkpoint.due():
            return
        tensors = {f"module.{name}": t for name, t in self.module.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizers)
        tensors |= {"labels": self.labels, "generator": self.generator.get_state()}
        tensors["torch"] = torch.get_rng_state()
        self.checkpoint.write({"step": done, "history": self.history.columns, **tensors})

    def _restore(self) -> int:
        """Take over a kept state; how many passes it has done."""
        if self.checkpoint is None:
            return 0
        return self.checkpoint.resume(self._take_up, self.labels.device) or 0

    def _take_up(self, tensors: dict[str, Any]) -> int:
        self.module.load_state_dict(under(tensors, "module"))
        load_optimizers(self.optimizers, tensors)
        self.labels = tensors["labels"]
        self.generator.set_state(tensors["generator"].cpu())
        torch.set_rng_state(tensors["torch"].cpu())
        with_history(self.history, tensors["history"])
        return int(tensors["step"])


def _optimizer(network: nn.Module, lr: float) -> torch.optim.Optimizer:
    return torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=lr)
