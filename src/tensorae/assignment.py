"""Costs -> assignments: the paper's three options for S (section 2.3) and EM (section 5).

A rule is a function ``rule(costs, previous, context) -> assignments``. Adding a fifth one is one
function and one entry in ``RULES``.

Shapes: n samples, k clusters; "..." are starts fitted side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "RULES",
    "AssignmentContext",
    "Rule",
    "Shares",
    "constrained",
    "em",
    "lloyd",
    "posterior",
    "project_to_simplex",
    "projected",
    "rule_name",
    "shares",
]


# Logarithms below this mean zero, and zero times it is zero.
LOWEST = -1e30


@dataclass(frozen=True)
class AssignmentContext:
    """What a rule may need beside the costs.

    Attributes
    ----------
    step_size : Tensor of shape (...)
        Length of a gradient step on S, in units of one over a cost.
    log_weights : Tensor of shape (..., k)
        Logarithms of the mixing weights.
    noise_variance : Tensor of shape (...)
        s² of the model of section 5.
    """

    step_size: Tensor
    log_weights: Tensor
    noise_variance: Tensor

    def to(self, dtype: torch.dtype) -> AssignmentContext:
        """Return the same context in another precision."""
        return AssignmentContext(
            self.step_size.to(dtype), self.log_weights.to(dtype), self.noise_variance.to(dtype)
        )


RuleFunction = Callable[[Tensor, Tensor, AssignmentContext], Tensor]


@dataclass(frozen=True)
class Rule:
    """A named way to update S.

    Attributes
    ----------
    function : callable
        ``(costs (..., n, k), previous (..., n, k), context) -> assignments (..., n, k)``.
    probabilistic : bool
        True where the rule maximises a likelihood and S stays soft at the optimum. Any other
        rule is closed by exact steps, because S is 0/1 at the optimum (Theorem 2.2).
    hard : bool
        True where labels say it all, so that passes need not carry S.
    negligible : float
        Shares up to this are left out of the sums over large data, which saves time where
        clusters are many.
    """

    function: RuleFunction
    probabilistic: bool = False
    hard: bool = False
    negligible: float = 0.0


def lloyd(costs: Tensor, previous: Tensor, context: AssignmentContext) -> Tensor:  # noqa: ARG001
    """Option 3: all weight on the cheapest autoencoder."""
    return torch.nn.functional.one_hot(costs.argmin(-1), costs.shape[-1]).to(costs.dtype)


def projected(costs: Tensor, previous: Tensor, context: AssignmentContext) -> Tensor:
    """Option 2: an unconstrained gradient step, projected back onto the simplex."""
    step = context.step_size[..., None, None]
    return project_to_simplex(previous - step * (costs - costs.amin(-1, keepdim=True)))


def constrained(costs: Tensor, previous: Tensor, context: AssignmentContext) -> Tensor:
    """Option 1: an exponentiated gradient step, which never leaves the constraints."""
    step = context.step_size[..., None, None]
    # Relative to the cheapest autoencoder in play, so that a long step cannot overflow them all.
    in_play = torch.where(previous > 0, costs, torch.inf)
    excess = in_play - in_play.amin(-1, keepdim=True)
    return torch.softmax(previous.log() - step * excess, dim=-1)


def em(costs: Tensor, previous: Tensor, context: AssignmentContext) -> Tensor:  # noqa: ARG001
    """Section 5: posterior of the clusters under the Gaussian model."""
    return shares(costs, context).assignments


RULES: dict[str, Rule] = {
    "lloyd": Rule(lloyd, hard=True),
    "projected": Rule(projected),
    "constrained": Rule(constrained),
    # A smaller share is less than the rounding of the sums.
    "em": Rule(em, probabilistic=True, negligible=1e-14),
}


def rule_name(assignment: str, *, estimated_penalty: bool) -> str:
    """Name of the rule that ``assignment`` of ``LinearTAE`` stands for.

    The loss of the paper is one of hard assignments, a likelihood one of soft ones. So "auto" is
    "em" where λ is estimated.
    """
    if assignment != "auto":
        return assignment
    return "em" if estimated_penalty else "lloyd"


class Shares(NamedTuple):
    """Posterior of the clusters, and what is worked out on the way to it.

    Attributes
    ----------
    assignments : Tensor of shape (..., n, k)
    entropies : Tensor of shape (..., n)
        Of each row of it.
    log_likelihood : Tensor of shape (..., n)
        Log of the mixture density, up to the Gaussian's normalising constant.
    """

    assignments: Tensor
    entropies: Tensor
    log_likelihood: Tensor


def shares(costs: Tensor, context: AssignmentContext) -> Shares:
    """Posterior, entropy and log_likelihood by one exponential per number in costs (..., n, k)."""
    # Reductions over clusters are several times faster where samples are next to each other.
    joint = costs.mT / (-2 * context.noise_variance[..., None, None])
    joint += context.log_weights.unsqueeze(-1)
    largest = joint.amax(-2, keepdim=True)
    joint -= largest
    relative = _exponentials(joint)
    total = relative.sum(-2, keepdim=True)
    logs = total.log()
    relative /= total
    entropies = logs.squeeze(-2) - (relative * joint.clamp(min=LOWEST)).sum(-2)
    return Shares(relative.mT, entropies, (largest + logs).squeeze(-2))


def _exponentials(logs: Tensor) -> Tensor:
    """Exponentials of numbers up to zero.

    In single precision many vanish, and those take ten times as long as others do: they are zero
    without being asked for.
    """
    if logs.dtype != torch.float32:
        return logs.exp()
    vanishing = math.log(torch.finfo(logs.dtype).tiny) + 1
    found = logs.clamp(min=vanishing).exp_()
    return torch.nn.functional.threshold(found, 2 * math.exp(vanishing), 0, inplace=True)


def project_to_simplex(points: Tensor) -> Tensor:
    """Euclidean projection of every row onto {s : s >= 0, sum s = 1}, exact.

    Parameters
    ----------
    points : Tensor of shape (..., k)

    Returns
    -------
    Tensor of shape (..., k)

    Examples
    --------
    >>> import torch
    >>> from tensorae.assignment import project_to_simplex
    >>> project_to_simplex(torch.tensor([[1.5, 0.5, -1.0]]))
    tensor([[1., 0., 0.]])
    """
    ordered = points.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, points.shape[-1] + 1, device=points.device, dtype=points.dtype)
    excess = ordered.cumsum(-1) - 1
    support = (ordered - excess / ranks > 0).sum(-1, keepdim=True)
    threshold = excess.gather(-1, support - 1) / support
    return (points - threshold).clamp_(min=0)


def posterior(costs: Tensor, log_weights: Tensor, noise_variance: Tensor) -> Tensor:
    """Probabilities (n, k) of the clusters, given costs (n, k), under the model of section 5.

    Parameters
    ----------
    costs : Tensor of shape (n, k)
    log_weights : Tensor of shape (k,)
    noise_variance : Tensor of shape ()
        s²; zero for data without noise.

    Returns
    -------
    Tensor of shape (n, k)
    """
    tiny = torch.finfo(noise_variance.dtype).tiny
    context = AssignmentContext(
        step_size=torch.ones_like(noise_variance),
        log_weights=log_weights,
        noise_variance=noise_variance.clamp(min=tiny),
    )
    # Only differences count; without noise the absolute costs would overflow.
    excess = costs - costs.amin(1, keepdim=True)
    return em(excess, excess, context)
