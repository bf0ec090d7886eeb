"""Any autoencoder -> k of them in one ``nn.Module``, with their centres.

Autoencoder j sees u = (x - C_j) / scale and answers with a code z and an output r, so

    reconstruction = C_j + scale * r
    code           = code_scales[j] * z
    cost           = |x - reconstruction|² + λ |code|²      (the bracket of Eq. 3)

``scale`` brings data of any unit to the size that networks start with. ``code_scales`` measures
codes in units of the data, so that a small encoder with a large decoder cannot escape λ.

Autoencoders of curves compare by their spreads (``compare_by_spread``). There a code is long
because the curve is, and a small cluster would take the ends of a large one. So the penalty is on
what a code decodes to, which is as far out at the ends of a ring as in its middle, in units of the
mean of that in the cluster, with the term that makes it the logarithm of a density. That is flat
where outputs are nearer than the mean: curves need not pass their centres, and other clusters may.

    cost = |x - reconstruction|² + λ V (max(|scale * r|² / V_j, 1) + log(V_j / min V))

V_j is the mean of |scale * r|² over the members, V the geometric mean of these: λ V/V_j is the
cluster's own λ (section 5 of the paper with own variances), and λ what they are about.

Where ``encode`` gives a pair, mean and log-variance, the autoencoders are variational, and the cost
is minus the evidence bound in units of squared data (``deep/vae.py``). Where layers are
shared, the autoencoders hold the same tensors (``deep/sharing.py``); a state has them once.

Shapes: n samples, k clusters, d features, h latent, m rows of a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from tensorae._torch import FitRNG
from tensorae.deep.sharing import TiedAutoencoders
from tensorae.deep.user_architecture import make_autoencoders
from tensorae.deep.vae import around, divergence, drawn, evidence, split_code

__all__ = ["TensorizedAutoencoder", "costs_from_parts", "members", "tensorize"]

NOTHING = nullcontext()


class TensorizedAutoencoder(TiedAutoencoders):
    r"""k autoencoders with a centre each; made by :func:`tensorize`.

    Parameters
    ----------
    autoencoders : list of Module
        Each with ``encode(x)`` and ``decode(z)``.
    input_shape : tuple of int, optional
        Shape of one sample, as the autoencoders take it. Rows that come flat are put into it.
        None takes samples as they come.
    latent_penalty : float, default=0.1
        λ.
    shared : {"none", "layers"}, iterable of str or None, default=None
        Parts that all of them have in common, as in :func:`tensorize`.

    Attributes
    ----------
    autoencoders : ModuleList of length k
    centers : Tensor of shape (k, \*input_shape)
        Buffer. Where no ``input_shape`` is given it takes its shape at the first call.
    scale : Tensor of shape ()
        Buffer: unit in which the autoencoders see the data.
    code_scales : Tensor of shape (k,)
        Buffer: what a code of one is in units of the data.
    latent_penalty : Tensor of shape ()
        Buffer: λ.
    spreads : Tensor of shape (k,)
        Buffer of autoencoders that compare by spread only: mean of the squared outputs of members.
    noise_variance : Tensor of shape ()
        Buffer of variational autoencoders only: what their outputs leave of a feature, in units of
        ``scale`` squared. The evidence bound depends on it; a fit estimates it.
    shared : tuple of str
        Tensors of an autoencoder, by name, that are the same in all of them.
    """

    centers: Tensor
    scale: Tensor
    code_scales: Tensor
    latent_penalty: Tensor
    spreads: Tensor
    noise_variance: Tensor
    # The random numbers of the fit that it is in; None where torch's own are to be drawn.
    fit_rng: FitRNG | None = None

    def __init__(
        self,
        autoencoders: list[nn.Module],
        *,
        input_shape: tuple[int, ...] | None = None,
        latent_penalty: float = 0.1,
        shared: str | Iterable[str] | None = None,
    ) -> None:
        super().__init__(autoencoders, shared)
        self.input_shape = input_shape
        k = len(autoencoders)
        # One number per cluster fits samples of any shape.
        self.register_buffer("centers", torch.zeros(k, *(input_shape or (1,))))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("code_scales", torch.ones(k))
        self.register_buffer("latent_penalty", torch.tensor(float(latent_penalty)))

    @property
    def variational(self) -> bool:
        """Whether codes are distributions; known from the first call on."""
        return "noise_variance" in self._buffers

    @property
    def by_spread(self) -> bool:
        """Whether the penalty is on outputs, in units of the spread of their cluster."""
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
            What the output is compared with; ``x`` itself where it is not given.

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
                "evidence needs autoencoders whose encode gives mean and log-variance, got plain "
                "codes; use costs."
            )
        return evidence(costs, self.scale.square() * self.noise_variance, x[0].numel())

    def penalties(self) -> tuple[Tensor, Tensor]:
        """What the square of a code counts in costs, or of an output, and what is added: (k,)."""
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
        """What costs are made of, as seen by j: ``|r-u|²``, ``|z|²`` and ``|r|²``, each (m,).

        Of variational ones the first is an expectation, and the second twice the divergence.
        """
        self._take_shape(x)
        u = self._seen_by(j, x)
        t = u if target is None else self._seen_by(j, target)
        autoencoder: Any = self.autoencoders[j]
        own_loss = getattr(autoencoder, "loss", None)
        with self._drawing():
            codes, log_variance = self._encoded(autoencoder, u)
            if log_variance is not None:
                outputs = autoencoder.decode(around(codes, log_variance).flatten(0, 1))
                outputs = outputs.unflatten(0, (-1, len(codes)))
                errors = (outputs - t).flatten(2).square().sum(2).mean(0)
                return errors, divergence(codes, log_variance), _squares(outputs.mean(0))
            output: Tensor = autoencoder.decode(codes)
            errors = own_loss(u, t) if own_loss else _squares(output - t)
        return errors, _squares(codes), _squares(output)

    def objective(self, j: int, u: Tensor, t: Tensor, latent_penalty: float) -> Tensor:
        """What training minimises (m,): the cost in units of ``scale``, codes measured decoded.

        In the linear model a code is as long as what it decodes to: ``|U(x-C)| = |x̂-C|``. Here
        the penalty is on ``|x̂-C|²``, which no scaling of encoder and decoder changes. Summed over a
        cluster it is the penalty of the costs, because that is how ``code_scales`` are set.
        Inputs u and targets t (m, ...) are as the autoencoder sees them, about C_j. Variational
        ones minimise minus the evidence bound in those units, at codes that are drawn.
        """
        errors, output = self._answers(j, u, t, latent_penalty)
        if output is None:
            assert errors is not None
            return errors
        if errors is not None:
            return errors + latent_penalty * _squares(output)
        # |r-t|² + λ|r|² as one square, since each is a pass over the outputs and one back.
        shrunk = 1 / (1 + latent_penalty)
        joint = nn.functional.mse_loss(output, shrunk * t, reduction="none").flatten(1).sum(1)
        return (joint + latent_penalty * shrunk**2 * _squares(t)) / shrunk

    def mean_objective(self, j: int, u: Tensor, t: Tensor, latent_penalty: float) -> Tensor:
        """Mean of the objective over a batch."""
        errors, output = self._answers(j, u, t, latent_penalty)
        if errors is not None:
            return (errors if output is None else errors + latent_penalty * _squares(output)).mean()
        assert output is not None
        # As in ``objective``, in fewer passes.
        shrunk, flat = 1 / (1 + latent_penalty), t.reshape(-1)
        joint = nn.functional.mse_loss(output, shrunk * t, reduction="sum")
        return joint / (shrunk * len(t)) + latent_penalty * shrunk / len(t) * flat.dot(flat)

    def _answers(
        self, j: int, u: Tensor, t: Tensor, latent_penalty: float
    ) -> tuple[Tensor | None, Tensor | None]:
        """Errors (m,), None where they are the square of output and target, and outputs.

        There are no outputs where all that counts is in the errors.
        """
        autoencoder: Any = self.autoencoders[j]
        own_loss = getattr(autoencoder, "loss", None)
        with self._drawing():
            if own_loss and not latent_penalty:
                return own_loss(u, t), None
            codes, log_variance = self._encoded(autoencoder, u)
            if log_variance is not None:
                output = autoencoder.decode(drawn(codes, log_variance, self.fit_rng))
                penalty = self.noise_variance * divergence(codes, log_variance)
                return _squares(output - t) + penalty, None
            output = autoencoder.decode(codes)
            return (own_loss(u, t) if own_loss else None), output

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (n, h) of samples (n, ...) under the named autoencoders (n,); means of them."""
        self._take_shape(x)

        def codes(j: int, rows: Tensor) -> Tensor:
            autoencoder: Any = self.autoencoders[j]
            with self._drawing():
                part, _ = self._encoded(autoencoder, self._seen_by(j, rows))
            return self.code_scales[j] * part

        return self._by_label(x, labels, codes)

    def decode(self, z: Tensor, labels: Tensor) -> Tensor:
        r"""Samples (n, \*input_shape) of codes (n, h) under the named autoencoders (n,)."""

        def points(j: int, rows: Tensor) -> Tensor:
            autoencoder: Any = self.autoencoders[j]
            with self._drawing():
                output: Tensor = autoencoder.decode(rows / self.code_scales[j])
            return self.centers[j] + self.scale * output

        return self._by_label(z, labels, points)

    def reconstruct(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """Encode and decode by the cheapest autoencoder, or by the named one.

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
        """Go over to data of which this module has seen (x - origin) / unit."""
        self.set_centers(origin + unit * self.centers.flatten(1).to(origin.dtype))
        self.scale = self.scale * unit
        if not self.variational:  # whose codes are measured by their prior
            self.code_scales = self.code_scales * unit

    def reorder(self, order: list[int]) -> None:
        """Number the clusters anew: cluster ``order[j]`` becomes j."""
        self.autoencoders = nn.ModuleList(self.autoencoders[j] for j in order)
        self.centers = self.centers[order]
        self.code_scales = self.code_scales[order]
        if self.by_spread:
            self.spreads = self.spreads[order]

    def compare_by_spread(self) -> None:
        """Keep the spreads of clusters, one until they are measured, as units of the penalty."""
        if not self.by_spread:
            self.register_buffer("spreads", torch.ones_like(self.code_scales))

    def become_variational(self) -> None:
        """Keep a noise variance, one until it is estimated."""
        if "noise_variance" not in self._buffers:
            self.register_buffer("noise_variance", torch.ones_like(self.scale))

    def _encoded(self, autoencoder: Any, u: Tensor) -> tuple[Tensor, Tensor | None]:
        """Codes (m, h) of what an autoencoder sees, and their log-variances, if it has them."""
        codes, log_variance = split_code(autoencoder.encode(u))
        if log_variance is not None:
            self.become_variational()
        return codes, log_variance

    def _drawing(self) -> AbstractContextManager[None]:
        """Context of calls to the autoencoders, which may draw random numbers."""
        fit_rng = self.fit_rng
        return NOTHING if fit_rng is None or not fit_rng.used_in_forward else fit_rng.activated()

    def _seen_by(self, j: int, x: Tensor) -> Tensor:
        return (self.shaped(x) - self.centers[j]) / self.scale

    def shaped(self, x: Tensor) -> Tensor:
        """Rows (n, d) in the shape that the autoencoders take."""
        if self.input_shape is None or tuple(x.shape[1:]) == self.input_shape:
            return x
        return x.reshape(-1, *self.input_shape)

    def _take_shape(self, x: Tensor) -> None:
        """Give centres that had no shape yet the one of the samples."""
        shape = x.shape[1:]
        if self.input_shape is None and self.centers.numel() == self.n_clusters:
            ones = [1] * len(shape)
            self.centers = self.centers.reshape(-1, *ones).expand(-1, *shape).contiguous()

    def _by_label(
        self, values: Tensor, labels: Tensor, step: Callable[[int, Tensor], Tensor]
    ) -> Tensor:
        """Apply ``step(j, rows)`` to the rows of each label and put the results in place."""
        result: Tensor | None = None
        for j, rows in members(labels, self.n_clusters):
            part = step(j, values[rows])
            if result is None:
                result = part.new_empty(values.shape[0], *part.shape[1:])
            result = result.index_copy(0, rows, part)
        if result is None:  # no rows at all
            return step(0, values)
        return result

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        saved = state_dict.get(prefix + "centers")
        if saved is not None and self.input_shape is None:
            self.centers = self.centers.new_zeros(saved.shape)
        if prefix + "noise_variance" in state_dict:
            self.become_variational()
        if prefix + "spreads" in state_dict:
            self.compare_by_spread()
        super()._load_from_state_dict(state_dict, prefix, *args)


def costs_from_parts(
    errors: Tensor, penalised: Tensor, scale: Tensor, weights: Tensor, offsets: Tensor
) -> Tensor:
    """Costs (Eq. 3) in units of the data from ``|r-u|²`` and ``|z|²`` as autoencoders see them.

    Where they compare by spread, ``|r|²`` is what is penalised, or the spread where it is less.
    """
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
        Makes a new autoencoder at each call: a Module with ``encode(x)`` and ``decode(z)``, a
        Module with ``encoder`` and ``decoder``, or a pair of Modules. If it has
        ``loss(x, target) -> (n,)``, that takes the place of the squared error. If ``encode``
        gives a pair, mean and log-variance (n, h), it is a variational one, and costs are made
        of the evidence bound.
    n_clusters : int
    input_shape : tuple of int, optional
        Shape of one sample; flat rows are put into it.
    latent_penalty : float, default=0.1
        λ, the weight of the squared code.
    shared : {"none", "layers"}, iterable of str or None, default=None
        Parts that are common to all clusters: none; those that the autoencoder names by
        ``shared_parts()``; or these submodules and parameters, by name. Each cluster keeps all
        other parts for itself.

    Returns
    -------
    TensorizedAutoencoder

    Examples
    --------
    A loop of one's own: the cheapest autoencoder trains on each sample.

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


def members(labels: Tensor, n_clusters: int) -> Iterator[tuple[int, Tensor]]:
    """Yield each cluster that has rows, with the indices of its rows in rising order."""
    order = labels.argsort(stable=True)
    counts = torch.bincount(labels, minlength=n_clusters).tolist()
    for j, rows in enumerate(order.split(counts)):
        if rows.numel():
            yield j, rows


def _squares(values: Tensor) -> Tensor:
    return values.flatten(1).square().sum(1)
