"""k autoencoders in one ``nn.Module``, with their centres; and a trained one at work.

Autoencoder j sees u = (x - C_j) / scale and returns a code z and an output r:

    reconstruction = C_j + scale * r
    code           = code_scales[j] * z
    cost           = |x - reconstruction|² + λ |code|²      (the bracket of Eq. 3)

``scale`` brings data of any unit to the size that networks expect. ``code_scales`` measures codes
in units of the data, so that a small encoder with a large decoder cannot escape λ.

Starts that may be curved penalise outputs in place of codes (``compare_by_spread``): the code of a
curve is long because the curve is, and a small cluster would take the ends of a large one. The
penalty is constant where outputs are shorter than average, because curves need not pass through
their centres while other clusters may, and the logarithm makes it that of a density:

    cost = |x - reconstruction|² + λ V (max(|scale * r|² / V_j, 1) + log(V_j / min V))

V_j is the mean of |scale * r|² over the members and V the geometric mean of all V_j, so λ V/V_j is
the cluster's own λ (section 5 of the paper with own variances).

Where ``encode`` returns a pair, mean and log-variance, the autoencoders are variational, and the
cost is minus the evidence bound in units of squared data (``deep/vae.py``).

Shapes: n samples, k clusters, d features, h latent, m rows of a chunk.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from tensorae._torch import FitRNG
from tensorae.assignment import posterior
from tensorae.deep.user_architecture import make_autoencoders, shared_names
from tensorae.deep.vae import divergence, evidence, quadrature_codes, sample_codes, split_code

NO_CONTEXT = nullcontext()


class TensorizedAutoencoder(nn.Module):
    r"""k autoencoders with a centre each; made by :func:`tensorize`.

    Autoencoders that share layers hold the same tensors, so that gradients of all clusters add up
    in them; a state has them once, under the first autoencoder.

    Parameters
    ----------
    autoencoders : list of Module
        Each with ``encode(x)`` and ``decode(z)``.
    input_shape : tuple of int, optional
        Shape of one sample, as the autoencoders take it; flat rows are reshaped to it. None takes
        samples as they come.
    latent_penalty : float, default=0.1
        λ.
    shared : {"none", "layers"}, iterable of str or None, default=None
        Parts that all of them have in common, as in :func:`tensorize`.

    Attributes
    ----------
    autoencoders : ModuleList of length k
    centers : Tensor of shape (k, \*input_shape)
        Buffer. Without ``input_shape`` it takes its shape at the first call.
    scale : Tensor of shape ()
        Buffer: unit in which the autoencoders see the data.
    code_scales : Tensor of shape (k,)
        Buffer: what a code of one is in units of the data.
    latent_penalty : Tensor of shape ()
        Buffer: λ.
    spreads : Tensor of shape (k,)
        Buffer, only where outputs are penalised: mean squared output of the members.
    noise_variance : Tensor of shape ()
        Buffer of variational autoencoders only: residual variance of a feature, in units of
        ``scale`` squared. The evidence bound depends on it; a fit estimates it.
    shared : tuple of str
        Names of the tensors of an autoencoder that are the same in all of them.
    """

    centers: Tensor
    scale: Tensor
    code_scales: Tensor
    latent_penalty: Tensor
    spreads: Tensor
    noise_variance: Tensor
    # The random numbers of the current fit; None outside of fits, to draw torch's own.
    fit_rng: FitRNG | None = None

    def __init__(
        self,
        autoencoders: list[nn.Module],
        *,
        input_shape: tuple[int, ...] | None = None,
        latent_penalty: float = 0.1,
        shared: str | Iterable[str] | None = None,
    ) -> None:
        super().__init__()
        self.shared = tuple(shared_names(autoencoders, shared))
        self.autoencoders = nn.ModuleList(autoencoders)
        self._tie()
        self.input_shape = input_shape
        k = len(autoencoders)
        # One number per cluster fits samples of any shape.
        self.register_buffer("centers", torch.zeros(k, *(input_shape or (1,))))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("code_scales", torch.ones(k))
        self.register_buffer("latent_penalty", torch.tensor(float(latent_penalty)))

    @property
    def n_clusters(self) -> int:
        """Number of autoencoders, k."""
        return len(self.autoencoders)

    @property
    def variational(self) -> bool:
        """Whether codes are distributions; known after the first call."""
        return "noise_variance" in self._buffers

    @property
    def by_spread(self) -> bool:
        """Whether outputs are penalised, in units of the spread of their cluster."""
        return "spreads" in self._buffers

    def forward(self, x: Tensor) -> Tensor:
        """Same as :meth:`reconstruct`."""
        return self.reconstruct(x)

    def costs(self, x: Tensor, target: Tensor | None = None) -> Tensor:
        """Cost of every sample under every autoencoder (Eq. 3).

        Under variational ones it is the expected squared error plus ``2 v KL``, with
        ``v = scale² noise_variance``.

        Parameters
        ----------
        x : Tensor of shape (n, ...)
        target : Tensor of shape (n, ...), optional
            What the output is compared with, by default ``x`` itself.

        Returns
        -------
        Tensor of shape (n, k)
        """
        return torch.stack([self.costs_of(j, x, target) for j in range(self.n_clusters)], dim=1)

    def costs_of(self, j: int, x: Tensor, target: Tensor | None = None) -> Tensor:
        """Cost (m,) of rows under autoencoder j alone."""
        errors, codes, outputs = self.parts_of(j, x, target)
        weights, offsets = self.penalties()
        penalised = outputs.clamp(min=self.spreads[j]) if self.by_spread else codes
        return costs_from_parts(errors, penalised, self.scale, weights[j], offsets[j])

    def evidence(self, x: Tensor) -> Tensor:
        """Bounds (n, k) on the log-density of samples under each variational autoencoder.

        Parameters
        ----------
        x : Tensor of shape (n, ...)

        Returns
        -------
        Tensor of shape (n, k)
        """
        costs = self.costs(x)
        if not self.variational:
            raise TypeError(
                "evidence needs autoencoders whose encode returns mean and log-variance, got plain "
                "codes; use costs."
            )
        return evidence(costs, self.scale.square() * self.noise_variance, x[0].numel())

    def penalties(self) -> tuple[Tensor, Tensor]:
        """Weights (k,) of squared codes (or outputs) in the costs, and offsets (k,)."""
        none = torch.zeros_like(self.code_scales)
        if self.variational:
            return self.scale.square() * self.noise_variance + none, none
        if not self.by_spread:
            return self.latent_penalty * self.code_scales.square(), none
        logs = self.spreads.log()
        one = self.latent_penalty * self.scale.square() * logs.mean().exp()
        return one / self.spreads, one * (logs - logs.min())

    def parts_of(
        self, j: int, x: Tensor, target: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Terms of the costs in the units of j: ``|r-u|²``, ``|z|²`` and ``|r|²``, each (m,).

        Variational: the expected first term, and twice the divergence in place of the second.
        """
        self._take_shape(x)
        u = self._seen_by(j, x)
        t = u if target is None else self._seen_by(j, target)
        autoencoder: Any = self.autoencoders[j]
        own_loss = getattr(autoencoder, "loss", None)
        with self._drawing():
            codes, log_variance = self._encoded(autoencoder, u)
            if log_variance is not None:
                outputs = autoencoder.decode(quadrature_codes(codes, log_variance).flatten(0, 1))
                outputs = outputs.unflatten(0, (-1, codes.shape[0]))
                errors = (outputs - t).flatten(2).square().sum(2).mean(0)
                return errors, divergence(codes, log_variance), _squares(outputs.mean(0))
            output: Tensor = autoencoder.decode(codes)
            errors = own_loss(u, t) if own_loss else _squares(output - t)
        return errors, _squares(codes), _squares(output)

    def objective(self, j: int, u: Tensor, t: Tensor, latent_penalty: float) -> Tensor:
        """Training loss (m,): the cost in units of ``scale``, with the penalty on the output.

        In the linear model a code is as long as its decoding: ``|U(x-C)| = |x̂-C|``. So the
        penalty is on ``|x̂-C|²``, which does not depend on how encoder and decoder are scaled.
        Summed over a cluster it equals the penalty in the costs, by definition of
        ``code_scales``. Inputs u and targets t (m, ...) are centred and scaled. Variational ones
        minimise minus the evidence bound in those units, at random codes.
        """
        errors, output = self._answers(j, u, t, latent_penalty)
        if output is None:
            assert errors is not None
            return errors
        if errors is not None:
            return errors + latent_penalty * _squares(output)
        # |r-t|² + λ|r|² as one square saves a pass over the outputs, forward and backward.
        shrunk = 1 / (1 + latent_penalty)
        joint = nn.functional.mse_loss(output, shrunk * t, reduction="none").flatten(1).sum(1)
        return (joint + latent_penalty * shrunk**2 * _squares(t)) / shrunk

    def mean_objective(self, j: int, u: Tensor, t: Tensor, latent_penalty: float) -> Tensor:
        """Mean of the objective over a batch, in fewer passes than by ``objective``."""
        errors, output = self._answers(j, u, t, latent_penalty)
        if errors is not None:
            return (errors if output is None else errors + latent_penalty * _squares(output)).mean()
        assert output is not None
        shrunk, flat = 1 / (1 + latent_penalty), t.reshape(-1)
        joint = nn.functional.mse_loss(output, shrunk * t, reduction="sum")
        return joint / (shrunk * len(t)) + latent_penalty * shrunk / len(t) * flat.dot(flat)

    def _answers(
        self, j: int, u: Tensor, t: Tensor, latent_penalty: float
    ) -> tuple[Tensor | None, Tensor | None]:
        """Errors (m,), None for the squared error; outputs, None where errors are all."""
        autoencoder: Any = self.autoencoders[j]
        own_loss = getattr(autoencoder, "loss", None)
        with self._drawing():
            if own_loss and not latent_penalty:
                return own_loss(u, t), None
            codes, log_variance = self._encoded(autoencoder, u)
            if log_variance is not None:
                output = autoencoder.decode(sample_codes(codes, log_variance, self.fit_rng))
                penalty = self.noise_variance * divergence(codes, log_variance)
                return _squares(output - t) + penalty, None
            output = autoencoder.decode(codes)
            return (own_loss(u, t) if own_loss else None), output

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (n, h) of samples (n, ...) by the autoencoders of their labels (n,)."""
        self._take_shape(x)
        return self._by_label(x, labels, self.encode_by)

    def encode_by(self, j: int, x: Tensor) -> Tensor:
        """Codes (m, h) of samples (m, ...) by autoencoder j."""
        autoencoder: Any = self.autoencoders[j]
        with self._drawing():
            codes, _ = self._encoded(autoencoder, self._seen_by(j, x))
        return self.code_scales[j] * codes

    def decode(self, z: Tensor, labels: Tensor) -> Tensor:
        r"""Samples (n, \*input_shape) of codes (n, h) by the autoencoders of their labels (n,)."""
        return self._by_label(z, labels, self.decode_by)

    def decode_by(self, j: int, z: Tensor) -> Tensor:
        r"""Samples (m, \*input_shape) of codes (m, h) by autoencoder j."""
        autoencoder: Any = self.autoencoders[j]
        with self._drawing():
            output: Tensor = autoencoder.decode(z / self.code_scales[j])
        return self.centers[j] + self.scale * output

    def reconstruct(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """Encode and decode by the cheapest autoencoder, or by that of the label.

        Parameters
        ----------
        x : Tensor of shape (n, ...)
        labels : Tensor of shape (n,), optional

        Returns
        -------
        Tensor of shape (n, ...)
        """
        if labels is None:
            labels = self.costs(x).argmin(1)
        return self.decode(self.encode(x, labels), labels).view_as(x)

    def set_centers(self, centers: Tensor) -> None:
        """Move the centres to (k, ...)."""
        shape = self.input_shape or tuple(centers.shape[1:])
        self.centers = centers.detach().reshape(self.n_clusters, *shape).to(self.centers)

    def change_unit(self, unit: float, origin: Tensor) -> None:
        """Convert from data (x - origin) / unit to data x."""
        self.set_centers(origin + unit * self.centers.flatten(1).to(origin.dtype))
        self.scale = self.scale * unit
        if not self.variational:  # their prior sets the unit of codes
            self.code_scales = self.code_scales * unit

    def reorder(self, order: list[int]) -> None:
        """Renumber the clusters: cluster ``order[j]`` becomes j."""
        self.autoencoders = nn.ModuleList(self.autoencoders[j] for j in order)
        self.centers = self.centers[order]
        self.code_scales = self.code_scales[order]
        if self.by_spread:
            self.spreads = self.spreads[order]

    def compare_by_spread(self) -> None:
        """Penalise outputs in units of ``spreads``, which are one until measured."""
        if not self.by_spread:
            self.register_buffer("spreads", torch.ones_like(self.code_scales))

    def become_variational(self) -> None:
        """Register the noise variance, which is one until estimated."""
        if "noise_variance" not in self._buffers:
            self.register_buffer("noise_variance", torch.ones_like(self.scale))

    def _encoded(self, autoencoder: Any, u: Tensor) -> tuple[Tensor, Tensor | None]:
        """Codes (m, h) and their log-variances, if the autoencoder is variational."""
        codes, log_variance = split_code(autoencoder.encode(u))
        if log_variance is not None:
            self.become_variational()
        return codes, log_variance

    def _drawing(self) -> AbstractContextManager[None]:
        """Context of calls to autoencoders that may draw random numbers."""
        fit_rng = self.fit_rng
        return NO_CONTEXT if fit_rng is None or not fit_rng.used_in_forward else fit_rng.activated()

    def _seen_by(self, j: int, x: Tensor) -> Tensor:
        return (self.shaped(x) - self.centers[j]) / self.scale

    def shaped(self, x: Tensor) -> Tensor:
        """Rows (n, d) in the input shape of the autoencoders."""
        if self.input_shape is None or tuple(x.shape[1:]) == self.input_shape:
            return x
        return x.reshape(-1, *self.input_shape)

    def _take_shape(self, x: Tensor) -> None:
        """Set the shape of centres by the first samples."""
        shape = x.shape[1:]
        if self.input_shape is None and self.centers.numel() == self.n_clusters:
            ones = [1] * len(shape)
            self.centers = self.centers.reshape(-1, *ones).expand(-1, *shape).contiguous()

    def _by_label(
        self, values: Tensor, labels: Tensor, step: Callable[[int, Tensor], Tensor]
    ) -> Tensor:
        """Apply ``step(j, rows)`` to the rows of each label and put the results in place."""
        if not len(labels):
            return step(0, values)
        result: Tensor | None = None
        order = labels.argsort(stable=True)
        counts = torch.bincount(labels, minlength=self.n_clusters).tolist()
        for j, rows in enumerate(order.split(counts)):
            if rows.numel():
                part = step(j, values[rows])
                if result is None:
                    result = part.new_empty(values.shape[0], *part.shape[1:])
                result = result.index_copy(0, rows, part)
        assert result is not None
        return result

    # Shared tensors, which a state has once ---------------------------------------------------

    def own_parameters(self, j: int) -> list[nn.Parameter]:
        """Parameters of autoencoder j that no other has."""
        one = self.autoencoders[j]
        common = {id(table[leaf]) for table, leaf in self._shared_slots(one)}
        return [p for p in one.parameters() if id(p) not in common]

    def _shared_slots(self, one: nn.Module) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield where an autoencoder keeps the shared tensors: dict and key."""
        for name in self.shared:
            path, _, leaf = name.rpartition(".")
            owner = one.get_submodule(path)
            yield owner._parameters if leaf in owner._parameters else owner._buffers, leaf

    def _tie(self) -> None:
        """Give all autoencoders the shared tensors of the first one."""
        for other in self.autoencoders[1:]:
            slots = zip(
                self._shared_slots(self.autoencoders[0]), self._shared_slots(other), strict=True
            )
            for (first, leaf), (table, _) in slots:
                table[leaf] = first[leaf]

    def _duplicates(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the names of shared tensors in a state: in the first autoencoder, in another."""
        for j in range(1, self.n_clusters):
            for name in self.shared:
                yield f"{prefix}autoencoders.0.{name}", f"{prefix}autoencoders.{j}.{name}"

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        # Moving to another device or precision makes new buffers.
        super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        self._tie()
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return parameters and buffers, shared ones once."""
        state = super().state_dict(*args, **kwargs)
        for _, duplicate in self._duplicates(kwargs.get("prefix", "")):
            state.pop(duplicate, None)
        return state

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load a state; shared tensors stay shared, also with ``assign=True``."""
        result = super().load_state_dict(*args, **kwargs)
        self._tie()
        return result

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        saved = state_dict.get(prefix + "centers")
        if saved is not None and self.input_shape is None:
            self.centers = self.centers.new_zeros(saved.shape)
        if prefix + "noise_variance" in state_dict:
            self.become_variational()
        if prefix + "spreads" in state_dict:
            self.compare_by_spread()
        for first, duplicate in self._duplicates(prefix):
            if first in state_dict:
                state_dict[duplicate] = state_dict[first]
        super()._load_from_state_dict(state_dict, prefix, *args)


def costs_from_parts(
    errors: Tensor, penalised: Tensor, scale: Tensor, weights: Tensor, offsets: Tensor
) -> Tensor:
    """Costs (Eq. 3) in units of the data from terms in units of the autoencoders."""
    return scale.square() * errors + weights * penalised + offsets


def tensorize(
    factory: Callable[[], Any],
    n_clusters: int,
    *,
    input_shape: tuple[int, ...] | None = None,
    latent_penalty: float = 0.1,
    shared: str | Iterable[str] | None = None,
) -> TensorizedAutoencoder:
    """Make k autoencoders, one per cluster, in one plain ``nn.Module``.

    Parameters
    ----------
    factory : callable
        Returns a new autoencoder at each call: a Module with ``encode(x)`` and ``decode(z)``, a
        Module with ``encoder`` and ``decoder``, or a pair of Modules. A method
        ``loss(x, target) -> (n,)`` replaces the squared error. If ``encode`` returns a pair, mean
        and log-variance (n, h), the autoencoder is variational, and costs are made of the
        evidence bound.
    n_clusters : int
    input_shape : tuple of int, optional
        Shape of one sample; flat rows are reshaped to it.
    latent_penalty : float, default=0.1
        λ, the weight of the squared code.
    shared : {"none", "layers"}, iterable of str or None, default=None
        Parts that are common to all clusters: none; those that the autoencoder names in
        ``shared_parts()``; or these submodules and parameters, by name.

    Returns
    -------
    TensorizedAutoencoder

    Examples
    --------
    A training loop in which the cheapest autoencoder trains on each sample:

    >>> import torch
    >>> from torch import nn
    >>> from tensorae import tensorize
    >>> _ = torch.manual_seed(0)
    >>> module = tensorize(lambda: (nn.Linear(4, 2), nn.Linear(2, 4)), n_clusters=3)
    >>> optimizer = torch.optim.Adam(module.parameters())
    >>> x = torch.randn(20, 4)
    >>> loss = module.costs(x).amin(1).sum()
    >>> loss.backward()
    >>> optimizer.step()
    >>> module.costs(x).shape, module.reconstruct(x).shape
    (torch.Size([20, 3]), torch.Size([20, 4]))

    With a common decoder:

    >>> common = tensorize(lambda: (nn.Linear(4, 2), nn.Linear(2, 4)), 3, shared=["decoder"])
    >>> sum(p.numel() for p in common.parameters())  # 3 encoders of 10 numbers, one decoder of 12
    42
    """
    return TensorizedAutoencoder(
        make_autoencoders(factory, n_clusters),
        input_shape=input_shape,
        latent_penalty=latent_penalty,
        shared=shared,
    )


def _squares(values: Tensor) -> Tensor:
    return values.flatten(1).square().sum(1)


@dataclass(frozen=True, eq=False)
class DeepPredictor:
    """A trained module applied to chunks of rows, in their precision and on their device."""

    module: TensorizedAutoencoder
    log_weights: Tensor  # (k,) of the model of section 5
    log_priors: Tensor  # (k,) the same for soft assignments, zeros for hard ones
    noise_variance: Tensor  # s² of that model
    chunk_rows: int  # rows to take at a time

    @classmethod
    def of_published(
        cls,
        module: TensorizedAutoencoder,
        dtype: torch.dtype,
        device: torch.device,
        *,
        centers: Any,
        weights: Any,
        noise_variance: float,
        chunk_rows: int,
        equal_priors: bool,
    ) -> DeepPredictor:
        """Set up from the published module and arrays."""
        if module.scale.dtype != dtype or module.scale.device != device:
            module = copy.deepcopy(module).to(device, dtype)
            # Data far from the origin needs centres in its own precision.
            module.set_centers(torch.as_tensor(centers))
        shares = torch.as_tensor(weights, dtype=dtype, device=device)
        log_weights = shares.clamp(min=torch.finfo(dtype).tiny).log()
        variance = torch.tensor(noise_variance, dtype=dtype, device=device)
        log_priors = torch.zeros_like(log_weights) if equal_priors else log_weights
        return cls(module.eval(), log_weights, log_priors, variance, chunk_rows)

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k) of rows (m, d)."""
        return self.module.costs(x)

    def posterior(self, costs: Tensor) -> Tensor:
        """Probabilities (m, k) of the clusters, given the costs (m, k)."""
        return posterior(costs, self.log_priors, self.noise_variance)

    def assign(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Most probable cluster (m,) of rows (m, d), and their costs (m,) there."""
        costs = self.module.costs(x)
        labels = self.posterior(costs).argmax(1)
        return labels, costs.gather(1, labels.unsqueeze(1)).squeeze(1)

    def cheapest(self, x: Tensor, near: Tensor | None) -> tuple[Tensor, Tensor]:
        """Label and smallest cost (m,) of rows (m, d), among the clusters ``near`` (m, k) or all.

        Unlike ``assign`` it does not need the noise variance, which follows from these costs.
        """
        if near is None:
            best = self.module.costs(x).min(1)
            return best.indices, best.values
        costs = x.new_full(near.shape, torch.inf)
        for j in range(near.shape[1]):
            for rows in near[:, j].nonzero()[:, 0].split(self.chunk_rows):
                costs[rows, j] = self.module.costs_of(j, x[rows])
        best = costs.min(1)
        return best.indices, best.values

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (m, h) of rows (m, d) by the autoencoders of their labels."""
        return self.module.encode(x, labels.long())

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Points (m, d) of codes (m, h) by the autoencoders of their labels."""
        with torch.no_grad():
            return self.module.decode(codes.to(self.module.scale.dtype), labels.long()).flatten(1)

    def log_density_bound(self, x: Tensor) -> Tensor:
        """Bounds (m,) on the log-density of rows (m, d) under all variational autoencoders."""
        return (self.module.evidence(x) + self.log_weights).logsumexp(1)

    def draw(
        self, labels: Tensor, latent_dim: int, rng: np.random.RandomState, *, noise: bool
    ) -> Tensor:
        """Draw rows (n, d) from the variational autoencoders of labels (n,)."""
        codes = torch.as_tensor(rng.standard_normal((len(labels), latent_dim)))
        chunks = zip(codes.split(self.chunk_rows), labels.split(self.chunk_rows), strict=True)
        points = torch.cat([self.decode(some, names) for some, names in chunks])
        if not noise:
            return points
        normal = torch.as_tensor(rng.standard_normal(tuple(points.shape))).to(points)
        return points + self.noise_variance.sqrt() * normal
