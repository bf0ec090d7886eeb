"""Epoch -> step: gradient steps of all autoencoders, each on batches of its own cluster.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tensorae.deep.membership import Source, TrainingData
from tensorae.deep.scoring import Twins

__all__ = ["DivergedError", "Steps"]

# Noise on the inputs while labels are learned, in units of the spread inside clusters.
INPUT_NOISE = 0.5
# Numbers in networks that train side by side.
GROUP_NUMBERS = 1 << 16
# Random numbers that are drawn for the noise of an epoch.
NOISE_ENTRIES = 1 << 20


class _Noise:
    """Normal numbers for one epoch; drawing new ones for every step would take as long as it."""

    def __init__(self, bank: Tensor) -> None:
        self.bank, self.position = bank, 0

    def like(self, x: Tensor) -> Tensor:
        """Return the next numbers, in the shape of ``x``; from the first again at the end."""
        end = self.position + x.numel()
        if end > self.bank.numel():
            self.position, end = 0, x.numel()
        taken = self.bank[self.position : end].view_as(x)
        self.position = end
        return taken


class DivergedError(Exception):
    """The loss of a cluster, which is the argument, is no longer a number."""


class Steps:
    """Epochs of gradient steps on given members.

    Parameters
    ----------
    twins : Twins
        All networks that there will be; later ones may be fewer.
    data : TrainingData
    lr : float
    noise : float
        Standard deviation of the noise to be taken out, as the data came; zero for none.
    batch_size : int
    generator : Generator
    """

    def __init__(
        self,
        twins: Twins,
        data: TrainingData,
        *,
        lr: float,
        noise: float,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        self.twins, self.data, self.noise, self.batch_size = twins, data, noise, batch_size
        self.generator = generator
        self.groups = _groups(twins)
        self.optimizers = [
            _optimizer([self.network(*member) for member in group], lr) for group in self.groups
        ]

    def network(self, twin: int, cluster: int) -> nn.Module:
        """Return one autoencoder."""
        return self.twins.modules[twin].autoencoders[cluster]

    def forget(self, network: nn.Module) -> None:
        """Let a network that starts again do so without the momentum of its old weights."""
        for optimizer in self.optimizers:
            for parameter in network.parameters():
                optimizer.state.pop(parameter, None)

    def epoch(self, sources: list[Source], lr: float) -> float:
        """One step per batch of each source; the mean cost in units of the data."""
        for module in self.twins.modules:
            module.train()
        noise = self._noise_for_epoch()
        by_network = {(source.twin, source.cluster): source for source in sources}
        sums = []
        for group, optimizer in zip(self.groups, self.optimizers, strict=True):
            for settings in optimizer.param_groups:
                settings["lr"] = lr
            present = [by_network[member] for member in group if member in by_network]
            sums += self._train_together(present, optimizer, noise)
        # One look at all losses: reading each would wait for the device every time.
        losses = torch.stack([loss for _, loss in sums])
        finite = torch.isfinite(losses)
        if not bool(finite.all()):
            raise DivergedError(sums[int((~finite).nonzero()[0])][0].cluster)
        unit = (float(self.twins.modules[0].scale) * self.data.unit) ** 2
        return unit * float(losses.sum()) / sum(source.total for source in sources)

    def _train_together(
        self, sources: list[Source], optimizer: torch.optim.Optimizer, noise: _Noise | None
    ) -> list[tuple[Source, Tensor]]:
        """Gradient steps of a few networks side by side; the sum of the losses of each.

        Their losses have nothing in common, so one backward pass and one step of the optimizer
        serve all; a network that has no batch left is not touched.
        """
        totals = [self.data.x.new_zeros(()) for _ in sources]
        batches = [self._batches(len(source.rows)) for source in sources]
        for step in range(max(map(len, batches), default=0)):
            losses = []
            for number, source in enumerate(sources):
                if step < len(batches[number]):
                    mean, total = self._loss(source, batches[number][step], noise)
                    losses.append(mean)
                    totals[number] += total
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(losses)
            optimizer.step()
        return list(zip(sources, totals, strict=True))

    def _loss(self, source: Source, batch: Tensor, noise: _Noise | None) -> tuple[Tensor, Tensor]:
        """Mean loss of a batch, by weight, and its sum without gradient."""
        module = self.twins.modules[source.twin]
        center, scale = self.twins.flat_centers()[source.cluster], module.scale
        rows = source.rows[batch]
        # In place: memory traffic is a good part of a step.
        u = self.data.x[rows].sub_(center).div_(scale)
        t = u if self.data.target is None else self.data.target[rows].sub_(center).div_(scale)
        if noise is not None:
            u = u + noise.like(u)
        losses = module.objective(
            source.cluster, module.shaped(u), module.shaped(t), float(module.latent_penalty)
        )
        if source.weights is None:
            mean = losses.mean()
            # Batches of a lone sample hold it twice.
            return mean, mean.detach() * min(len(rows), len(source.rows))
        weighted = (source.weights[batch] * losses).sum()
        return weighted / (source.mean_weight * len(rows)), weighted.detach()

    def _batches(self, n: int) -> tuple[Tensor, ...]:
        """Random batches of positions, even in size: a small rest would make a noisy step."""
        order = torch.randperm(n, generator=self.generator, device=self.data.x.device)
        if n == 1:  # batch norm cannot take a single sample
            order = order.repeat(2)
        return order.tensor_split(max(1, round(n / self.batch_size)))

    def _noise_for_epoch(self) -> _Noise | None:
        level = self.noise / (float(self.twins.modules[0].scale) * self.data.unit)
        if not level and self.data.target is None and len(self.twins.modules) > 1:
            level = INPUT_NOISE
        if not level:
            return None
        x = self.data.x
        # Even batches are up to half as long again as asked for.
        size = max(min(x.numel(), NOISE_ENTRIES), 2 * self.batch_size * x.shape[1])
        bank = torch.empty(size, dtype=x.dtype, device=x.device)
        return _Noise(bank.normal_(std=level, generator=self.generator))


def _groups(twins: Twins) -> list[list[tuple[int, int]]]:
    """Networks (twin, cluster) that train side by side: small ones, to share the overhead.

    Large ones go one after the other, because each then stays in the cache for all its steps.
    """
    groups: list[list[tuple[int, int]]] = []
    room = 0
    for twin, module in enumerate(twins.modules):
        for cluster, network in enumerate(module.autoencoders):
            size = sum(parameter.numel() for parameter in network.parameters())
            if size > room or not groups:
                groups.append([])
                room = GROUP_NUMBERS
            groups[-1].append((twin, cluster))
            room -= size
    return groups


def _optimizer(networks: list[nn.Module], lr: float) -> torch.optim.Optimizer:
    parameters = [p for network in networks for p in network.parameters() if p.requires_grad]
    # One kernel for all parameters, where torch has it.
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
    return torch.optim.Adam(parameters, lr=lr, fused=fused)
