"""A fitted model as one ``nn.Module``: rows in, labels, probabilities, codes and more out.

What ``model.to_torch()`` returns and ``model.to_onnx()`` writes. There is no branch on values but
the one between rows with and without missing values, so that every path can be traced.

Shapes: n rows, k clusters, d features, h latent, p columns.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from torch import Tensor, nn

from tensorae._torch import isolated_torch
from tensorae._validation import check_fitted
from tensorae.core.missing import LOG_2PI, log_correction
from tensorae.core.mixture import FoldedModel, LinearPredictor, Mixture, ResidualModel
from tensorae.data.rows import Rows
from tensorae.data.scaling import Scaling
from tensorae.deep.module import DeepPredictor
from tensorae.deep.networks import LinearAutoencoder
from tensorae.deep.vae import evidence
from tensorae.deep.wavelets import Grid, Transform
from tensorae.deep_tae import TAE
from tensorae.exceptions import InvalidParameterError
from tensorae.linear_tae import LinearTAE
from tensorae.scattering import Scattering
from tensorae.table_model import TableModel

__all__ = ["FittedModule", "Outputs", "to_torch"]


class Outputs(NamedTuple):
    """What a fitted model says about n rows.

    Attributes
    ----------
    label : Tensor of shape (n,)
        ``predict``.
    probabilities : Tensor of shape (n, k)
        ``predict_proba``.
    code : Tensor of shape (n, h)
        ``transform``.
    reconstruction : Tensor of shape (n, d)
        ``reconstruct``; of a pipeline, that of its last step.
    score : Tensor of shape (n,)
        ``score_samples``: the lower, the less a row fits any cluster.
    """

    label: Tensor
    probabilities: Tensor
    code: Tensor
    reconstruction: Tensor
    score: Tensor


class FittedModule(nn.Module):
    """A fitted model as a module for inference; made by ``model.to_torch()``.

    Attributes
    ----------
    input_shape : tuple of int
        Of one row.
    allow_missing : bool
        Whether NaN stands for a missing value.
    """

    input_shape: tuple[int, ...]
    allow_missing = False

    def forward(self, x: Tensor) -> Outputs:
        r"""Apply the model to rows (n, ...), or (n, p) with codes of categories in their columns.

        Parameters
        ----------
        x : Tensor of shape (n, \*input_shape)

        Returns
        -------
        Outputs
            Numbers in the precision of x.
        """
        if self.allow_missing and bool(x.isnan().any()):
            return self.incomplete(x)
        return self.complete(x)

    def complete(self, x: Tensor) -> Outputs:
        """Apply the model to rows without missing values."""
        raise NotImplementedError

    def incomplete(self, x: Tensor) -> Outputs:
        """Apply the model to rows that may have missing values."""
        raise NotImplementedError


@isolated_torch()
def to_torch(model: Any, *, dtype: str | None = None) -> FittedModule:
    """Return a fitted model as an ``nn.Module``; see :meth:`tensorae.LinearTAE.to_torch`.

    Parameters
    ----------
    model : LinearTAE, TAE, TableModel of one, or Pipeline that ends with one
        Other steps of a Pipeline may be Scattering, scalers of scikit-learn and PCA.
    dtype : {"float32", "float64"}, optional
        Precision of the networks of a ``TAE``; that of the fit by default. A ``LinearTAE`` computes
        in double precision whatever comes in.

    Returns
    -------
    FittedModule
    """
    if dtype not in (None, "float32", "float64"):
        raise InvalidParameterError(
            f'dtype must be "float32", "float64" or None, got {dtype!r}; change it.'
        )
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        if not steps:
            raise InvalidParameterError("model must have steps, got an empty Pipeline; add some.")
        first = [_transformation(step) for step in steps[:-1]]
        return Chain(first, to_torch(steps[-1], dtype=dtype))
    estimator = last_estimator(model)
    if not isinstance(estimator, LinearTAE | TAE):
        raise InvalidParameterError(
            "model must be a LinearTAE, a TAE, a TableModel of one of them or a Pipeline that ends "
            f"with one, got {type(estimator).__name__}; export such a model."
        )
    check_fitted(estimator)
    kind = getattr(torch, dtype or fitted_dtype(estimator))
    rows = Rows(torch.zeros(0, 1, dtype=kind))
    predictor: Any = estimator._predictor(rows)
    module: FittedModule
    if isinstance(estimator, TAE):
        module = DeepModule(predictor, estimator._sample_shape)
    else:
        categories = estimator._categories
        module = LinearModule(predictor, None if categories is None else categories.layout)
    if isinstance(model, TableModel):
        preparation = model.preparation
        if preparation.categories:
            raise InvalidParameterError(
                "model must not have categories inside a TableModel, got columns "
                f"{sorted(preparation.categories)}; fit a LinearTAE to the data frame, and export "
                "that."
            )
        module = Scaled(module, preparation.scaling, infinite=preparation.infinite_as_missing)
    return module.eval().requires_grad_(requires_grad=False)


def last_estimator(model: Any) -> Any:
    """The LinearTAE or TAE inside a model."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) and model.steps else model
    return last.estimator if isinstance(last, TableModel) else last


def fitted_dtype(model: Any) -> str:
    """Precision of a fit, "float32" or "float64"."""
    centers = getattr(last_estimator(model), "cluster_centers_", None)
    return "float32" if centers is not None and centers.dtype == np.float32 else "float64"


class LinearModule(FittedModule):
    """Clusters of a ``LinearTAE``, as in ``core/mixture.py`` and ``core/missing.py``.

    Rows with missing values are solved for all clusters at once, by elimination in matrices of the
    size of a code: ONNX has no Cholesky decomposition, and graphs no groups of rows.
    """

    allow_missing = True
    shift: Tensor
    log_priors: Tensor
    weights: Tensor
    offsets: Tensor

    def __init__(self, predictor: LinearPredictor, layout: Any) -> None:
        super().__init__()
        model, folded = predictor.model, predictor.folded
        self.layout, self.columns = layout, predictor.columns
        self.tied, self.n_features = model.tied, model.n_features
        self.input_shape = (model.d,) if layout is None else (layout.n_columns,)
        kept = {f"model_{name}": tensor for name, tensor in model.tensors().items()}
        kept |= {"shift": predictor.shift, "log_priors": predictor.log_priors}
        kept |= {"weights": folded.weights, "offsets": folded.offsets}
        if folded.scales is not None:
            kept["scales"] = folded.scales
        if folded.levels is not None:
            kept["folded_levels"] = folded.levels
        self.residual = isinstance(folded, ResidualModel)
        for name, tensor in kept.items():
            self.register_buffer(name, tensor.detach().clone())

    @property
    def model(self) -> Mixture:
        """The clusters, about ``shift``."""
        tensors = {
            name.removeprefix("model_"): tensor
            for name, tensor in self.named_buffers()
            if name.startswith("model_")
        }
        return Mixture(**tensors, tied=self.tied, n_features=self.n_features)

    def complete(self, x: Tensor) -> Outputs:
        """Apply the model to rows without missing values."""
        model, z, levels = self.model, *self._moved(x)
        parts = (self.weights, self.offsets, getattr(self, "scales", None))
        kept = getattr(self, "folded_levels", None)
        folded = FoldedModel(*parts, kept)
        if self.residual:
            folded = ResidualModel(*parts, kept, model=model)
        costs = folded.costs(z if levels is None else torch.cat([z, levels], 1))
        codes = (z - model.centers.unsqueeze(1)) @ model.components.mT
        return self._outputs(x, costs, codes.transpose(0, 1), 0.0)

    def incomplete(self, x: Tensor) -> Outputs:
        """Apply the model to rows that may have missing values.

        With W of Σ = σ²I + WᵀW and r the observed part of x - C, the code z of a row minimises
        |r - W_oᵀ z|² / σ² + |z|², whose minimum is the Mahalanobis distance; W_oᵀ z stands for
        missing values.
        """
        model, z, levels = self.model, *self._moved(x)
        missing, noise = z.isnan(), model.noise.unsqueeze(1)
        seen, known = (~missing).to(z.dtype), torch.where(missing, 0.0, z)
        n_seen = seen.sum(1)
        # Clusters first: (k, n, ...).
        offsets = (known - model.centers.unsqueeze(1)) * seen
        distances, filled = offsets.square().sum(2) / noise, offsets
        volumes = n_seen * noise.log()
        if h := model.components.shape[1]:
            excess = (model.along - model.noise.unsqueeze(1)).clamp(min=0)
            factors = model.components * excess.sqrt().unsqueeze(2)
            pairs = factors.unsqueeze(1) * factors.unsqueeze(2)
            products = (seen @ pairs.flatten(1, 2).mT).unflatten(2, (h, h))
            unit = torch.eye(h, dtype=z.dtype, device=z.device)
            system = products + noise[..., None, None] * unit
            right = (offsets @ factors.mT).unsqueeze(3)
            solution, logs = _eliminated(torch.cat([system, right], 3), noise)
            expected = solution @ factors
            rest = offsets - expected * seen
            distances = rest.square().sum(2) / noise + solution.square().sum(2)
            volumes = volumes + logs - h * noise.log()
            filled = offsets + expected * (1 - seen)
        codes = (filled @ model.components.mT).transpose(0, 1)
        lacking = z.shape[1] - n_seen
        costs = (distances + volumes).mT - model.volumes
        if model.tied:
            costs = model.noise * (costs + (lacking * (1 + noise.log())).mT)
        else:
            costs = costs - LOG_2PI * lacking.unsqueeze(1) + model.offsets
        if levels is not None:
            costs = costs - 2 * (model.unit * (levels @ model.levels.mT))
        correction = lacking * log_correction(model.unit) if model.tied else 0.0
        return self._outputs(x, costs, codes, correction)

    def _moved(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Numbers (n, d) of rows about ``shift``, and indicators (n, L) of their levels."""
        rows = x.to(self.shift.dtype)
        if self.layout is None:
            return rows - self.shift, None
        rows = self.layout.expand(rows)
        d = len(self.layout.numbers)
        return rows[:, :d] - self.shift, rows[:, d:]

    def _outputs(
        self, x: Tensor, costs: Tensor, codes: Tensor, correction: Tensor | float
    ) -> Outputs:
        """All results from costs (n, k) and codes (n, k, h) under all clusters."""
        model = self.model
        nats = -costs / (2 * model.unit)
        joint = nats + self.log_priors if model.tied else nats
        label = joint.argmax(1)
        own = nn.functional.one_hot(label, costs.shape[1]).to(codes.dtype)
        chosen = own.unsqueeze(2) * codes
        points = own @ model.centers + self.shift
        if codes.shape[2]:
            points = points + chosen.flatten(1) @ model.components.flatten(0, 1)
        if self.layout is not None:
            points = self.layout.collapse(torch.cat([points, own @ model.levels.exp()], 1))
        densities = model.log_joint(costs).logsumexp(1) + correction
        found = (torch.softmax(joint, 1), chosen.sum(1), points, densities)
        return Outputs(label, *(part.to(x.dtype) for part in found))


def _eliminated(system: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """Solutions (k, n, h) and log-determinants (k, n) of systems (k, n, h, h + 1).

    By Gauss and Jordan. The pivots of σ²I + WWᵀ are at least σ² (k, 1).
    """
    pivots = []
    for i in range(system.shape[2]):
        pivots.append(torch.maximum(system[..., i, i], least))
        row = system[..., i : i + 1, :] / pivots[-1][..., None, None]
        unit = (torch.arange(system.shape[2], device=system.device) == i).to(system.dtype)
        system = system - (system[..., i : i + 1] - unit.unsqueeze(1)) * row
    return system[..., -1], torch.stack(pivots).log().sum(0)


class DeepModule(FittedModule):
    """Autoencoders of a ``TAE``, as in ``deep/module.py``."""

    log_weights: Tensor
    log_priors: Tensor
    noise_variance: Tensor

    def __init__(self, predictor: DeepPredictor, shape: tuple[int, ...] | None) -> None:
        super().__init__()
        self.networks = copy.deepcopy(predictor.module).eval()
        self.networks.fit_rng = None
        for j, one in enumerate(self.networks.autoencoders):
            if type(one) is LinearAutoencoder:
                self.networks.autoencoders[j] = OrthonormalAutoencoder(one)
        self.input_shape = shape or (math.prod(self.networks.centers.shape[1:]),)
        for name in ("log_weights", "log_priors", "noise_variance"):
            self.register_buffer(name, getattr(predictor, name).detach().clone())

    def complete(self, x: Tensor) -> Outputs:
        """Apply the model to rows."""
        networks = self.networks
        rows = x.flatten(1).to(networks.scale.dtype)
        costs = networks.costs(rows)
        excess = costs - costs.amin(1, keepdim=True)
        variance = self.noise_variance.clamp(min=torch.finfo(costs.dtype).tiny)
        probabilities = torch.softmax(self.log_priors - excess / (2 * variance), 1)
        label = probabilities.argmax(1)
        own = nn.functional.one_hot(label, networks.n_clusters).bool()
        code, points = torch.zeros_like(rows[:, :1]), torch.zeros_like(rows)
        for j in range(networks.n_clusters):
            here = own[:, j : j + 1]
            code = torch.where(here, networks.encode_by(j, rows), code)
        for j in range(networks.n_clusters):
            here = own[:, j : j + 1]
            points = torch.where(here, networks.decode_by(j, code).flatten(1), points)
        if networks.variational:
            noise = networks.scale.square() * networks.noise_variance
            bounds = evidence(costs, noise, rows.shape[1])
            score = (bounds + self.log_weights).logsumexp(1)
        else:
            score = -costs.amin(1)
        found = (probabilities, code, points.unflatten(1, self.input_shape), score)
        return Outputs(label, *(part.to(x.dtype) for part in found))


class OrthonormalAutoencoder(LinearAutoencoder):
    """A ``LinearAutoencoder`` after training: its rows are orthonormal without a factorisation."""

    def __init__(self, trained: LinearAutoencoder) -> None:
        h, d = trained.weight.shape
        super().__init__(d, h)
        self.to(trained.weight).load_state_dict(trained.state_dict())
        self.start_from(trained.directions())

    def directions(self) -> Tensor:
        """Orthonormal rows (h, d)."""
        return self.weight


class Scaled(FittedModule):
    """A module that takes and returns rows in the units of a table."""

    def __init__(self, inner: FittedModule, scaling: Scaling, *, infinite: bool) -> None:
        super().__init__()
        self.inner, self.infinite = inner, infinite and inner.allow_missing
        self.input_shape, self.allow_missing = inner.input_shape, inner.allow_missing
        self.scale = Rescaling(scaling)

    def complete(self, x: Tensor) -> Outputs:
        """Apply the model to rows without missing values."""
        return self._in_units(x, self.inner.complete)

    def incomplete(self, x: Tensor) -> Outputs:
        """Apply the model to rows that may have missing values."""
        return self._in_units(x, self.inner.incomplete)

    def forward(self, x: Tensor) -> Outputs:
        """Apply the model to rows (n, d) in the units of the table."""
        return super().forward(torch.where(x.isinf(), torch.nan, x) if self.infinite else x)

    def _in_units(self, x: Tensor, apply: Callable[[Tensor], Outputs]) -> Outputs:
        if self.infinite:
            x = torch.where(x.isinf(), torch.nan, x)
        label, probabilities, code, points, score = apply(self.scale(x.flatten(1)))
        points = self.scale.undo(points).unflatten(1, self.input_shape)
        numbers = (probabilities, code, points, score)
        return Outputs(label, *(part.to(x.dtype) for part in numbers))


# Pipelines ------------------------------------------------------------------------------------


class Chain(FittedModule):
    """Transformations, and a fitted model of what they give."""

    def __init__(self, first: list[Transformation], last: FittedModule) -> None:
        super().__init__()
        self.first, self.last = nn.ModuleList(first), last
        self.input_shape = first[0].input_shape if first else last.input_shape
        self.allow_missing = last.allow_missing and all(part.allow_missing for part in first)

    def complete(self, x: Tensor) -> Outputs:
        """Apply the model to rows without missing values."""
        return self._applied(x, self.last.complete)

    def incomplete(self, x: Tensor) -> Outputs:
        """Apply the model to rows that may have missing values."""
        return self._applied(x, self.last.incomplete)

    def _applied(self, x: Tensor, apply: Callable[[Tensor], Outputs]) -> Outputs:
        rows = x
        for part in self.first:
            rows = part(rows)
        label, *numbers = apply(rows)
        return Outputs(label, *(part.to(x.dtype) for part in numbers))


class Transformation(nn.Module):
    """A step of a pipeline before the last one.

    Attributes
    ----------
    input_shape : tuple of int
    allow_missing : bool
        Whether NaN stays NaN.
    """

    input_shape: tuple[int, ...]
    allow_missing = False


def _transformation(step: Any) -> Transformation:
    """Return a fitted step of a pipeline as a module."""
    check_fitted(step)
    if isinstance(step, Scattering):
        return ScatteringFeatures(step)
    if isinstance(step, PCA):
        return Projection(step)
    if hasattr(step, "inverse_transform") and hasattr(step, "n_features_in_"):
        return Rescaling(Scaling.like(step, step.n_features_in_))
    raise InvalidParameterError(
        "steps before the last one must be Scattering, PCA or scalers of scikit-learn, got "
        f"{type(step).__name__}; apply it to the data first, and export the rest."
    )


class Rescaling(Transformation):
    """Shifts and scales columns, some of them after logarithms: ``tensorae.data.Scaling``."""

    allow_missing = True
    shift: Tensor
    unit: Tensor
    log_unit: Tensor

    def __init__(self, scaling: Scaling) -> None:
        super().__init__()
        if scaling.scaler is not None:
            raise InvalidParameterError(
                "scalers must shift, scale or take logarithms, got "
                f"{type(scaling.scaler).__name__}; apply it to the data first, and export the rest."
            )
        d = len(scaling.unit)
        self.input_shape = (d,)
        self.curved = scaling.log_unit is not None
        logs = scaling.log_unit if scaling.log_unit is not None else np.zeros(d)
        for name, values in (("shift", scaling.shift), ("unit", scaling.unit), ("log_unit", logs)):
            self.register_buffer(name, torch.as_tensor(values, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Rows (n, d) on the scale of the fit."""
        x = x.to(self.shift.dtype)
        if self.curved:
            unit = torch.where(self.log_unit > 0, self.log_unit, 1.0)
            x = torch.where(self.log_unit > 0, x.sign() * torch.log1p(x.abs() / unit), x)
        return (x - self.shift) / self.unit

    def undo(self, x: Tensor) -> Tensor:
        """Rows (n, d) of the scale of the fit in their own units."""
        x = x.to(self.shift.dtype) * self.unit + self.shift
        if self.curved:
            x = torch.where(self.log_unit > 0, x.sign() * self.log_unit * x.abs().expm1(), x)
        return x


class Projection(Transformation):
    """Principal components of scikit-learn's PCA."""

    axes: Tensor
    mean: Tensor

    def __init__(self, pca: PCA) -> None:
        super().__init__()
        axes = np.asarray(pca.components_, dtype=np.float64)
        if pca.whiten:
            axes = axes / np.sqrt(pca.explained_variance_)[:, None]
        self.input_shape = (axes.shape[1],)
        self.register_buffer("axes", torch.as_tensor(axes))
        self.register_buffer("mean", torch.as_tensor(pca.mean_, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Coordinates (n, q) of rows (n, d)."""
        return (x.to(self.axes.dtype) - self.mean) @ self.axes.mT


class ScatteringFeatures(Transformation):
    """Features of :class:`tensorae.Scattering`, with Fourier transforms as matrix products.

    Rows are flat images, with colours first unless ``image_shape`` says that they are last.
    """

    scale: Tensor
    mean: Tensor
    axes: Tensor | None

    def __init__(self, scattering: Scattering) -> None:
        super().__init__()
        self.input_shape = (math.prod(scattering.image_shape_),)
        self.image_shape, self.colours_last = scattering.image_shape_, scattering._colours_last
        dtype = torch.from_numpy(scattering.mean_).dtype
        self.transform = RealTransform(scattering._grid, dtype, torch.device("cpu"))
        scale = torch.as_tensor(scattering.channel_scale_)
        self.register_buffer("scale", scale[:, :, None, None])
        self.register_buffer("mean", torch.as_tensor(scattering.mean_))
        axes = scattering.components_
        self.register_buffer("axes", None if axes is None else torch.as_tensor(axes))

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Any:
        self.transform.change(fn)
        return super()._apply(fn, *args, **kwargs)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, q) of images."""
        x = x.to(self.mean.dtype)
        if self.colours_last:
            c, h, w = self.image_shape
            x = x.reshape(-1, h, w, c).movedim(-1, 1).flatten(1)
        found = self.transform._channels(x)
        scaled = (found / self.scale).flatten(1) - self.mean
        return scaled if self.axes is None else scaled @ self.axes.mT


class RealTransform(Transform):
    """The scattering transform without complex numbers, which ONNX does not have."""

    def __init__(self, grid: Grid, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(grid, dtype, device)
        sides = {side >> r for side in grid.padded for r in range(grid.J + 1)}
        self.waves = {}
        for n in sides:
            turns = torch.outer(torch.arange(n), torch.arange(n)).remainder(n)
            angles = turns.to(torch.float64) * (2 * math.pi / n)
            self.waves[n] = angles.cos().to(dtype), angles.sin().to(dtype)

    def change(self, fn: Callable[[Tensor], Tensor]) -> None:
        """Apply ``fn`` to all matrices, for example to move them to a device."""
        self.resample = list(map(fn, self.resample))
        self.low = [list(map(fn, part)) for part in self.low]
        self.psi = [list(map(fn, part)) for part in self.psi]
        self.waves = {n: (fn(cos), fn(sin)) for n, (cos, sin) in self.waves.items()}

    def _spectrum(self, x: Tensor) -> Tensor:
        rows, columns = (self.waves[n] for n in x.shape[-2:])
        real, imaginary = x @ columns[0], -(x @ columns[1])
        total = (
            rows[0] @ real + rows[1] @ imaginary,
            rows[0] @ imaginary - rows[1] @ real,
        )
        return torch.stack(total, -1).flatten(-2)

    def _inverse_moduli(self, spectrum: Tensor) -> Tensor:
        pairs = spectrum.unflatten(-1, (-1, 2))
        a, b = pairs[..., 0], pairs[..., 1]
        rows, columns = (self.waves[n] for n in a.shape[-2:])
        real = a @ columns[0] - b @ columns[1]
        imaginary = a @ columns[1] + b @ columns[0]
        first = rows[0] @ real - rows[1] @ imaginary
        second = rows[0] @ imaginary + rows[1] @ real
        size = a.shape[-2] * a.shape[-1]
        moduli: Tensor = (first.square() + second.square()).sqrt() / size
        return moduli
