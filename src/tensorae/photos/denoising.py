"""De-noising of photographs, by a mixture of subspaces with known noise on their patches.

Shapes: c planes, H height, W width, n patches, d values of a patch and its position, k clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from tensorae._parameters import check_integer, check_number
from tensorae._torch import isolated_torch
from tensorae.assignment import RULES, Rule
from tensorae.core.covariances import Spikes, Subspaces, spikes
from tensorae.core.em import Alternation
from tensorae.core.families import Directions, Estimation, Means, Parameters, log_shares
from tensorae.core.mixture import FoldedModel, Mixture
from tensorae.core.passes import cheapest
from tensorae.core.statistics import Moments, positive
from tensorae.data.rows import Rows, cached_rows
from tensorae.exceptions import InvalidParameterError, unknown_choice
from tensorae.photos.images import (
    Image,
    Picture,
    Progress,
    check_jobs,
    check_jpeg,
    check_noise,
    check_progress,
)
from tensorae.photos.noise import NoiseModel, Stabilizer, noise_of
from tensorae.photos.patches import Tile, average_patches, extract_patches, make_tiles, map_tiles

__all__ = ["Cleaner", "DenoiseSpec", "KnownNoise", "denoise", "denoise_planes"]

# Clusters with a smaller share of a patch are skipped: they would take most of the time.
RULE = replace(RULES["em"], negligible=1e-3)
KMEANS_STEPS = 5
CHUNK_ROWS = 16384
# Noise, as a share of the contrast of the picture, from which on patches have to be larger.
STRONG_NOISE = 0.7
QUALITIES = ("best", "fast")
# Smallest variance of correlated noise in any direction of a patch, as a share of the mean.
SMALLEST_NOISE = 0.05


@dataclass(frozen=True)
class DenoiseSpec:
    """How a picture is de-noised; lengths are in pixels.

    Attributes
    ----------
    side : int
        Of a patch.
    per_cluster : int
        Pixels of a tile for each cluster.
    first_steps, more_steps : int
        Steps of EM in the first pass and in each further one.
    passes : int
    boost : float
        Share of the result that is added to the noisy picture before a further pass.
    core, margin : int
        Size of the tiles and of their overlap.
    reach : float
        Distance that counts as much as the noise of a pixel: how local clusters are.
    extra_variance : float
        Added to the variances of predicted patches before these are averaged.
    whitening : (Tensor, Tensor) of shapes (d, d), optional
        Makes the correlated noise of patches white, and back.
    """

    side: int = 6
    per_cluster: int = 400
    first_steps: int = 8
    more_steps: int = 3
    passes: int = 2
    boost: float = 0.5
    core: int = 200
    margin: int = 16
    reach: float = 15.0
    extra_variance: float = 0.05
    whitening: tuple[Tensor, Tensor] | None = None


def denoise(
    image: Image,
    noise: Any = None,
    *,
    strength: float = 1.0,
    jpeg: bool | None = None,
    passes: int | None = None,
    quality: str = "best",
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Any:
    """Remove noise from a photograph, without any other picture to learn from.

    Patches of a photograph lie near many low-dimensional subspaces. A mixture of them with known
    noise is fitted to the noisy patches; a patch is shrunk towards the subspaces that it may
    belong to, and a pixel is the mean of its overlapping patches.

    Parameters
    ----------
    image : ndarray or Tensor of shape (H, W) or (H, W, 3)
        uint8, uint16 or float of any range.
    noise : float, (float, float) or NoiseModel, optional
        A number is the standard deviation of white noise, in the units of the image. Two are
        ``a`` and ``b`` of white noise of variance ``a + b * brightness``. By default the noise is
        estimated, with its dependence on brightness and its correlation, see
        :func:`estimate_noise`.
    strength : float, default=1.0
        Share of the noise that is removed, from 0 to 1.
    jpeg : bool, optional
        Whether the picture was compressed as JPEG, see :func:`estimate_noise`. Matters only where
        the noise is estimated.
    passes : int, optional
        In each pass after the first, half of the last result is added to the picture and subtracted
        again afterwards, which recovers detail that the pass before lost. 2 by default, but 1 where
        a picture in colour has correlated noise or is to be de-noised fast.
    quality : {"best", "fast"}, default="best"
        "fast" takes a third of the time, in colour with white noise a tenth, and costs 0.1 to
        0.2 dB.
    n_jobs : int, optional
        Tiles in parallel; one per core by default. The result is the same for any number.
    progress : callable, optional
        Called with the number of finished tiles and the total.

    Returns
    -------
    ndarray or Tensor
        Of the same shape and type, on the same device. Floats may leave the range of the image.

    See Also
    --------
    estimate_noise : How much noise there is.

    Notes
    -----
    Deterministic. Tiles of some 200 pixels are processed one by one, so that memory beyond a few
    copies of the image does not grow with its size.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.photos import denoise
    >>> stripes = np.tile(np.array([40.0, 40.0, 200.0, 200.0]), (48, 12))
    >>> noisy = stripes + 20 * np.random.RandomState(0).standard_normal(stripes.shape)
    >>> bool(np.abs(denoise(noisy, noise=20) - stripes).mean() < 4)
    True
    """
    picture = Picture.of(image)
    if not isinstance(noise, NoiseModel | tuple | list):
        noise = check_noise(noise, picture)
    given = None if noise is None else _noise_model(noise, picture)
    strength, jpeg = check_number("strength", strength, low=0, high=1), check_jpeg(jpeg)
    if passes is not None:
        passes = check_integer("passes", passes, low=1)
    if quality not in QUALITIES:
        raise unknown_choice("quality", quality, QUALITIES)
    jobs, report = check_jobs(n_jobs), check_progress(progress)
    with isolated_torch(), picture.parallel(), torch.inference_mode():
        planes = picture.planes
        model = noise_of(picture, jpeg=jpeg) if given is None else given
        if strength == 0 or (model.sigma <= picture.rounding and given is None):
            return picture.restored(planes)
        spec = _spec_for(planes, model, quality)
        spec = spec if passes is None else replace(spec, passes=passes)
        clean = denoise_planes(planes, model, spec, jobs, report)
        return picture.restored(planes.lerp(clean, strength) if strength < 1 else clean)


def _noise_model(noise: Any, picture: Picture) -> NoiseModel:
    if isinstance(noise, float):
        return NoiseModel.white(noise)
    if isinstance(noise, tuple | list):
        if len(noise) != 2:
            raise InvalidParameterError(
                f"noise must be a number, (a, b) or a NoiseModel, got {len(noise)} values; give "
                "the variance as a + b * brightness."
            )
        a, b = (check_number("noise", part, low=0) for part in noise)
        noise = NoiseModel.poisson_gaussian(a, b, white=max(picture.brightest, 1e-6))
    c, n = len(picture.planes), len(noise.variances)
    if (n != c and (n > 1 or noise.correlation is not None)) or noise.sigma == 0:
        raise InvalidParameterError(
            f"noise must have a variance above 0 and as many channels as image, {c}, got sigma "
            f"{noise.sigma:g} and {n}; estimate it from an image of the same kind."
        )
    return noise  # type: ignore[no-any-return]


def _spec_for(planes: Tensor, noise: NoiseModel, quality: str) -> DenoiseSpec:
    """How to de-noise planes (c, H, W) with such noise."""
    if quality == "best" and len(planes) == 3 and noise.correlation is not None:
        # Grain is several pixels wide: larger patches bring more than further steps, .2 dB on ten
        # pictures of cameras, in a sixth of the time.
        return DenoiseSpec(side=8, per_cluster=900, first_steps=2, passes=1, core=96, margin=8)
    if quality == "fast" and len(planes) == 3:
        return DenoiseSpec(side=5, per_cluster=780, first_steps=2, passes=1, core=96, margin=8)
    if quality == "fast":
        return DenoiseSpec(per_cluster=500, first_steps=3, more_steps=1, core=128, margin=12)
    if len(planes) == 3:  # three times the values of a patch need more patches to learn from
        return DenoiseSpec(per_cluster=500, reach=12.0)
    contrast = max(float(planes.var()) - noise.sigma**2, 0.0) ** 0.5
    strong = noise.sigma > STRONG_NOISE * contrast
    return DenoiseSpec(side=8, boost=0.7) if strong else DenoiseSpec()


def denoise_planes(
    planes: Tensor, noise: NoiseModel, spec: DenoiseSpec, n_jobs: int, progress: Progress
) -> Tensor:
    """De-noised planes (c, H, W)."""
    if noise.correlation is not None:
        spec = replace(spec, whitening=_whitening(noise.patch_covariance(spec.side), planes))
    stabilizer = None if noise.is_constant else Stabilizer(noise, planes)
    stable = planes if stabilizer is None else stabilizer.forward(planes)
    center = stable.mean((1, 2), keepdim=True)
    unit = noise.sigma if stabilizer is None else 1.0
    noisy = (stable - center) / unit
    tiles = make_tiles(planes, core=spec.core, margin=spec.margin)

    @torch.inference_mode()
    def work(tile: Tile) -> Tensor:
        return _denoise_tile(tile.of(noisy), spec)

    clean = map_tiles(work, tiles, tuple(planes.shape), n_jobs, progress)
    clean = clean.mul_(unit).add_(center)
    return clean if stabilizer is None else stabilizer.inverse(clean)


def _whitening(covariance: Tensor, planes: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices (d, d) that make noise of such a covariance white, and back."""
    values, vectors = torch.linalg.eigh(covariance)
    values = values.clamp(min=SMALLEST_NOISE * float(values.mean())).sqrt()
    there, back = ((vectors * scale) @ vectors.mT for scale in (1 / values, values))
    return there.to(planes), back.to(planes)


def _denoise_tile(noisy: Tensor, spec: DenoiseSpec) -> Tensor:
    """De-noised planes (c, H, W) of a tile in units of its noise.

    Before a further pass, a share of the result is added to the noisy tile, and subtracted from
    its result: signal stands out more, and detail that the first pass lost comes back.
    """
    labels = _initial_labels(_rows(noisy, spec), spec)
    clean, labels = _pass(noisy, labels, spec.first_steps, spec)
    for _ in range(spec.passes - 1):
        added = spec.boost * clean
        clean, labels = _pass(noisy + added, labels, spec.more_steps, spec)
        clean -= added
    return clean


def _rows(planes: Tensor, spec: DenoiseSpec) -> Rows:
    """Patches and their positions, one row each."""
    patches = extract_patches(planes, spec.side).transpose(0, 1).flatten(1)
    if spec.whitening is not None:
        patches = patches @ spec.whitening[0]
    lines = [
        (torch.arange(n, device=planes.device, dtype=torch.float32) - (n - 1) / 2) / spec.reach
        for n in (length - spec.side + 1 for length in planes.shape[1:])
    ]
    rows = torch.cat([patches, torch.cartesian_prod(*lines)], dim=1)
    n_scores = 8 * max(1, len(rows) // spec.per_cluster)
    return Rows(rows, chunk_rows=cached_rows(rows.shape[1], n_scores, rows.element_size()))


def _initial_labels(rows: Rows, spec: DenoiseSpec) -> Tensor:
    """Clusters (1, n) of a short k-means."""
    k = max(1, round(rows.n / spec.per_cluster))
    chosen = torch.randperm(rows.n, generator=torch.Generator().manual_seed(0))[:k]
    centers = rows.select(chosen.to(rows.device))[None]
    for _ in range(KMEANS_STEPS):
        labels = cheapest(rows, Mixture.nearest(centers))[0].long()
        sums = torch.zeros_like(centers[0]).index_add_(0, labels[0], rows.data)
        counts = torch.bincount(labels[0], minlength=k).unsqueeze(1)
        centers = torch.where(counts > 0, sums / counts.clamp(min=1), centers[0])[None]
    return cheapest(rows, Mixture.nearest(centers))[0]


def _pass(noisy: Tensor, labels: Tensor, steps: int, spec: DenoiseSpec) -> tuple[Tensor, Tensor]:
    """Fit the mixture from labels (1, n): the de-noised tile, and the labels at the end."""
    rows, k = _rows(noisy, spec), int(labels.max()) + 1
    fit = Alternation(rows, k, KnownNoise.of(rows), RULE, max_iter=steps, tol=-torch.inf)
    run = fit.run(fit.init(labels))[0]
    cleaner = Cleaner.of(run.parameters)
    basis = None  # of patches and their positions
    if spec.whitening is not None:
        basis = torch.block_diag(spec.whitening[1], torch.eye(2, device=noisy.device))
    found = [cleaner.clean(chunk.x, RULE, basis) for chunk in rows.in_chunks(CHUNK_ROWS).chunks()]
    values, variances = (
        torch.cat(parts)[:, :-2].unflatten(1, (len(noisy), -1)).transpose(0, 1)  # no positions
        for parts in zip(*found, strict=True)
    )
    size = (int(noisy.shape[1]), int(noisy.shape[2]))
    return average_patches(values, 1 / (variances + spec.extra_variance), size), run.labels[None]


# A family of own spreads over known noise ---------------------------------------------------------
#
# What sticks out of the noise is kept, the rest is noise. Rows are in units of the noise. Cluster j
# varies as ℓ_jl ≥ 1 along its l-th component and as the noise in every other direction; how many
# components it has follows from its sample variances, for which the number of its members says how
# large noise alone would make them.
#
# Shapes: n rows, k clusters, d features, h latent (of the cluster with most), r starts.

# Rows choose the cluster that fits their noise, too, which then varies more than by chance alone.
CAUTION = 1.15


@dataclass(frozen=True)
class KnownNoise(Estimation):
    """How parameters follow from moments of rows with white noise of variance one.

    Variances are corrected for their sampling bias, so that no likelihood is maximised exactly and
    the objective may rise a little at the end: a fit is a number of steps.

    Attributes
    ----------
    dtype : torch.dtype
        Precision of the model; rows in units of their noise do with single precision.
    """

    own: ClassVar[bool] = True

    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, rows: Rows) -> KnownNoise:
        """Return that of rows (n, d) in units of their noise."""
        some = Directions(rows.data[:1], rows.weights[:1])  # noise is alike in all
        return cls(rows.d - 1, rows.d, None, some, variance_floor=1.0, dtype=rows.dtype)

    def first(self, moments: Moments) -> Parameters:
        """Parameters from moments alone."""
        found = Means(moments.centers(), moments.traces(), None)
        return self._assemble(moments, found, self.exact(moments.scatters()))

    def next(self, moments: Moments, previous: Mixture) -> Parameters:
        """Parameters from moments; a cluster without members keeps its centre."""
        found = self._means(moments, previous)
        return self._assemble(moments, found, self.exact(moments.scatters()))

    def last(self, moments: Moments, previous: Mixture) -> Parameters:
        """Parameters from moments, which are exact already."""
        return self.next(moments, previous)

    def exact(self, scatters: Tensor) -> Subspaces:
        """All eigenvectors; which of them count is seen by their variances."""
        values, vectors = torch.linalg.eigh(scatters.to(self.dtype))
        return Subspaces(vectors.flip(-1).mT, values.flip(-1).clamp(min=0))

    def _assemble(self, moments: Moments, found: Means, subspaces: Subspaces) -> Parameters:
        d = self.n_features
        counts, scatter = moments.counts.to(self.dtype), subspaces.variances
        seen = _spikes(scatter, counts, d)
        dims = (seen.gains > 0).sum(-1)
        h = min(max(int(dims.max()), 1), d - 1)
        along = seen.variances[..., :h]
        traces = found.traces.to(self.dtype)
        distances = traces - (scatter[..., :h] * (1 - 1 / along)).sum(-1)
        model = Mixture(
            found.centers.to(self.dtype),
            subspaces.components[..., :h, :].contiguous(),
            latent_penalty=counts.new_ones(len(counts)),
            noise=torch.ones_like(counts),
            along=along,
            log_weights=log_shares(counts),
            levels=counts.new_zeros(*counts.shape, 0),
            tied=False,
            n_features=d,
        )
        loss = (distances + counts * model.offsets).sum(-1)
        return Parameters(
            model=model,
            variances=scatter[..., :h],
            counts=counts,
            traces=traces,
            loss=loss,
            objective=loss / 2,
            regularizer=torch.zeros_like(loss),
            noise_variance=torch.ones_like(loss),
            latent_dims=dims,
        )


@dataclass(frozen=True, eq=False)
class Cleaner:
    """What a fit over known noise makes of noisy rows.

    Attributes
    ----------
    model : Mixture
        Of one start, without its dimension.
    gains : Tensor of shape (k, h)
        By how much to shrink along each component.
    counts : Tensor of shape (k,)
    """

    model: Mixture
    gains: Tensor
    counts: Tensor

    @classmethod
    def of(cls, parameters: Parameters) -> Cleaner:
        """Prepare the parameters of one start."""
        one = parameters[0]
        return cls(one.model, _spikes(one.variances, one.counts, one.n_features).gains, one.counts)

    def clean(self, x: Tensor, rule: Rule, basis: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Expected clean rows, and the variance of the error of each number.

        Both are means over the clusters, weighted by their posteriors; shares up to what ``rule``
        calls negligible are left out.

        Parameters
        ----------
        x : Tensor of shape (n, d)
        rule : Rule
        basis : Tensor of shape (d, d), optional
            Rows are given in these coordinates: cleaned ones are multiplied by it.

        Returns
        -------
        rows : Tensor of shape (n, d)
        variances : Tensor of shape (n, d)
            In units of the noise: one where nothing was taken off.
        """
        posterior = self._posterior(self.model.as_start().fold().packed(), x)
        rows, variances = torch.zeros_like(x), torch.zeros_like(x)
        uncertainty = self._uncertainty(basis)
        for j, share in enumerate(posterior):
            used = (share > rule.negligible).nonzero().squeeze(1)
            if used.numel() == 0:
                continue
            weight = share[used].unsqueeze(1)
            rows.index_add_(0, used, weight * self._towards(j, x.index_select(0, used)))
            variances.index_add_(0, used, weight * uncertainty[j])
        total = torch.where(posterior > rule.negligible, posterior, 0).sum(0).unsqueeze(1)
        rows = rows if basis is None else rows @ basis
        return rows / total, variances / total

    def _posterior(self, folded: FoldedModel, x: Tensor) -> Tensor:
        """P(j|x), shape (k, n)."""
        scores = folded.scores(x)[0]
        return torch.softmax(scores / 2, dim=0)

    def _towards(self, j: int, x: Tensor) -> Tensor:
        """Rows (m, d) as members of cluster j."""
        counted = int((self.gains[j] > 0).sum())
        axes, center = self.model.components[j, :counted], self.model.centers[j]
        return torch.addmm(center, ((x - center) @ axes.mT) * self.gains[j, :counted], axes)

    def _uncertainty(self, basis: Tensor | None) -> Tensor:
        """Variance (k, d) of the errors of a cluster's members: of their codes and its centre."""
        axes = self.model.components if basis is None else self.model.components @ basis
        along = (self.gains.unsqueeze(-1) * axes.square()).sum(-2)
        return along + (1 / self.counts.clamp(min=1)).unsqueeze(-1)


def _spikes(scatter: Tensor, counts: Tensor, d: int) -> Spikes:
    """What sticks out of the noise in clusters (..., k) with such scatter (..., k, p)."""
    members = positive(counts).unsqueeze(-1)
    return spikes(scatter / members, d / members, CAUTION)
