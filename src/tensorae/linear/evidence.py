"""A fitted model and rows -> what speaks for it, without labels.

The likelihood alone always prefers more clusters and more parameters, and BIC, too, covers one
cluster that is not Gaussian by several. The integrated completed likelihood (ICL; Biernacki, Celeux
and Govaert, 2000) also charges the entropy of the assignments: to cut a box into two gains exactly
as much density as it costs in entropy, so that only clusters with something between them pay.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tensorae.linear.density import n_parameters
from tensorae.linear.gaps import gapped_costs, log_correction
from tensorae.linear.model import LinearModel
from tensorae.linear.own_spreads import inverse_traces
from tensorae.linear.ties import TiedVariance
from tensorae.linear.update import Parameters
from tensorae.rows.rows import ACCURATE, Rows

__all__ = ["Evidence", "evidence_of", "log_joint"]


@dataclass(frozen=True)
class Evidence:
    """What speaks for a model, and what it costs.

    Attributes
    ----------
    log_likelihood : float
        Of all rows, under the density of section 5.
    entropy : float
        Of the assignments of all rows: how unclear they are.
    n_parameters : int
    n : float
        How many rows the weights stand for.
    sizes : tuple of float
        Rows of which each cluster is the most probable one.
    hierarchical_price : float
        What parameters cost where those of a cluster are charged by its own size (J. Zhao, 2014).
    """

    log_likelihood: float
    entropy: float
    n_parameters: int
    n: float
    sizes: tuple[float, ...]
    hierarchical_price: float

    @property
    def price(self) -> float:
        """What the parameters cost."""
        return self.n_parameters * math.log(self.n) / 2

    @property
    def bic(self) -> float:
        """Bayesian information criterion: the lower the better."""
        return 2 * (self.price - self.log_likelihood)

    @property
    def hierarchical_bic(self) -> float:
        """Hierarchical BIC: the lower the better."""
        return 2 * (self.hierarchical_price - self.log_likelihood)

    @property
    def icl(self) -> float:
        """Integrated completed likelihood on the scale of BIC: the lower the better."""
        return self.bic + 2 * self.entropy


def log_joint(model: LinearModel, parameters: Parameters, x: Tensor) -> Tensor:
    """Log of weight times density (m, k) of rows (m, d) in each cluster of one start.

    Where values are missing (NaN), the density is that of the others.
    """
    holes = x.isnan()
    gapped = bool(holes.any())
    costs = gapped_costs(model, x) if gapped else model.costs(x)
    if model.spreads is not None:
        return -costs / 2
    context = parameters.context(step=1.0)
    noise = context.noise_variance
    joint = context.log_weights - costs / (2 * noise) - parameters.log_normalizer()
    return joint + holes.sum(1, keepdim=True) * log_correction(noise) if gapped else joint


def evidence_of(
    rows: Rows,
    parameters: Parameters,
    *,
    n_evidence: float,
    tied: TiedVariance,
    given_penalty: bool = False,
    common: bool = False,
) -> Evidence:
    """Evidence for the parameters of one start (no dimension of starts) on the rows they fit.

    Parameters
    ----------
    rows : Rows
        In the coordinates of the parameters.
    parameters : Parameters
    n_evidence : float
        How many rows the weights stand for.
    tied : TiedVariance
        Variance that values stand for: the likelihood is that of such intervals, not of points.
    given_penalty : bool
        Whether λ was given, not estimated.
    common : bool
        Whether own spreads are one, pooled over the clusters.

    Returns
    -------
    Evidence
    """
    model, k = parameters.model, parameters.counts.shape[-1]
    if model.spreads is None:  # own spreads have it already
        wider = parameters.noise_variance + tied.trace / parameters.n_features
        parameters = replace(parameters, noise_variance=wider)
    likelihood, entropy = torch.zeros(2, dtype=ACCURATE, device=rows.device)
    sizes = torch.zeros(k, dtype=ACCURATE, device=rows.device)
    for place, x in rows.observed_chunks():
        joint = log_joint(model, parameters, x.to(ACCURATE))
        weights = torch.ones_like(joint[:, 0])
        if rows.weights is not None:
            weights = rows.weights[place].to(ACCURATE)
        likelihood += weights @ torch.logsumexp(joint, dim=1)
        entropy += weights @ torch.special.entr(joint.softmax(1)).sum(1)
        sizes.index_add_(0, joint.argmax(1), weights)
    rows.add_up(likelihood, entropy, sizes)
    likelihood -= sizes @ _tied_distances(parameters, tied) / 2
    rows_per_weight = n_evidence / rows.total
    count = n_parameters(
        parameters.latent_dims.cpu().numpy(),
        parameters.n_features,
        own=model.spreads is not None,
        penalty=float(model.latent_penalty),
        given=given_penalty,
        common=common,
    )
    own = (count - (k - 1)) / k
    logs = (parameters.counts * rows_per_weight).clamp(min=1).log().sum()
    return Evidence(
        log_likelihood=float(likelihood) * rows_per_weight,
        entropy=float(entropy) * rows_per_weight,
        n_parameters=count,
        n=n_evidence,
        sizes=tuple((sizes * rows_per_weight).tolist()),
        hierarchical_price=(own * float(logs) + (k - 1) * math.log(n_evidence)) / 2,
    )


def _tied_distances(parameters: Parameters, tied: TiedVariance) -> Tensor:
    """tr(Σ_j⁻¹ F), shape (k,): squared distances that the intervals of values add."""
    model = parameters.model
    if model.spreads is not None:
        noise, along = model.spreads.noise, model.spreads.along
    else:
        noise = parameters.noise_variance.expand(len(model.centers))
        tiny = torch.finfo(ACCURATE).tiny
        along = (noise / model.latent_penalty.clamp(min=tiny)).unsqueeze(-1)
    return inverse_traces(model.components.to(ACCURATE), along, noise, tied.covariance, tied.trace)
