"""Figure 5 and 5b: de-noising of real data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorae.experiments import denoising
from tensorae.experiments.drawing import bars, canvas, legend_above
from tensorae.experiments.experiment import Experiment, Finding, Part, Results, Settings, Table
from tensorae.experiments.problems import REAL
from tensorae.experiments.wording import listed, method_table, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

Means = dict[str, dict[str, float]]  # by row and data set

NETWORKS = ("AE1", "AE2", "TAE")
# Errors this close, as a share, count as the same; this far, as a clear difference.
SAME, CLEAR = 0.02, 0.1
# Where the paper sees no significant gain.
NO_GAIN = "MNIST MLP"


def _parts(settings: Settings) -> list[Part]:
    return [
        Part(denoising.TASK, name, method, seed, settings.quick)
        for name in settings.among(REAL)
        for method in denoising.METHODS
        for seed in range(settings.runs)
    ]


def _draw(results: Results) -> dict[str, Figure]:
    names = _names(results)
    if not names:
        return {}
    errors = {
        row: [results.values(name, method, metric) for name in names]
        for row, (method, metric) in denoising.ROWS.items()
    }
    log_scale, ((ax,),) = canvas(width=13, height=5.8)
    bars(ax, names, errors, floor=1.0)
    ax.set_yscale("log")
    ax.set_ylabel("squared error x 1000, log scale (lower is better)")
    legend_above(ax, list(errors))
    normalised, ((ax,),) = canvas(width=13, height=5.8)
    tops = [max(errors[row][place].mean() for row in errors) for place in range(len(names))]
    shares = {
        row: [values / top for values, top in zip(series, tops, strict=True)]
        for row, series in errors.items()
    }
    bars(ax, names, shares)
    ax.set_ylabel("squared error, share of the largest of the set")
    legend_above(ax, list(errors))
    return {"figure5_denoising": log_scale, "figure5b_normalised": normalised}


def _tables(results: Results) -> list[Table]:
    names = _names(results)
    if not names:
        return []
    losses = {method: (method, denoising.TRAINING) for method in NETWORKS}
    return [
        method_table(
            "Mean squared error x 1000 on held-out samples against the clean ones",
            results, names, denoising.ROWS, digits=2, lowest=True,
        ),
        method_table(
            "For comparison, what the published code calls de-noising error: the loss on the "
            "samples that were fitted, with TAE's penalty (x 1000, per number)",
            results, names, losses, digits=2, lowest=True,
        ),
    ]  # fmt: skip


def _findings(results: Results) -> list[Finding]:
    names = _names(results)
    if not names:
        return []
    means = {
        row: {n: results.mean(n, *where) for n in names} for row, where in denoising.ROWS.items()
    }
    return [
        _same_length(means, names),
        _where_it_gains(means, names),
        _same_parameters(means, names),
        _removes_noise(means, names),
    ]


def _same_length(means: Means, names: list[str]) -> Finding:
    not_worse = [n for n in names if _change(means, n) <= SAME]
    return Finding(
        "TAE consistently performs the same or significantly better than a standard autoencoder.",
        f"With codes of the same length (AE1), TAE's reconstruction is not worse on "
        f"{listed(not_worse)}.",
        verdict([n in not_worse for n in names]),
    )


def _where_it_gains(means: Means, names: list[str]) -> Finding:
    changes = {n: _change(means, n) for n in names}
    figures = "; ".join(f"{n} {100 * change:+.0f} %" for n, change in changes.items())
    return Finding(
        "The gain is large on penguins, iris and MNIST with convolutional networks, and none on "
        "MNIST with one hidden layer.",
        f"Error of TAE's reconstruction compared with AE1's: {figures}; changes below "
        f"{100 * CLEAR:.0f} % count as none.",
        verdict([abs(c) < CLEAR if n == NO_GAIN else c < -CLEAR for n, c in changes.items()]),
    )


def _same_parameters(means: Means, names: list[str]) -> Finding:
    ahead = [n for n in names if means["TAE reconstruct"][n] <= means["AE2"][n]]
    behind = [n for n in names if n not in ahead]
    return Finding(
        "With the same total number of parameters, TAE gives a more accurate reconstruction than "
        "an autoencoder.",
        f"Against AE2, whose code is k times as long (at most d), TAE's reconstruction is closer "
        f"to the clean samples on {listed(ahead)}, and farther on {listed(behind)}.",
        verdict([n in ahead for n in names]),
    )


def _removes_noise(means: Means, names: list[str]) -> Finding:
    nothing = means["do nothing"]
    cut_too_much = [n for n in names if means["TAE reconstruct"][n] > nothing[n]]
    ours = {n: min(means["TAE denoise"][n], means["LinearTAE denoise"][n]) for n in names}
    single = {n: min(means["AE1 denoise"][n], means["AE2 denoise"][n]) for n in names}
    helped = [n for n in names if ours[n] < nothing[n]]
    ahead = [n for n in names if ours[n] < (1 - SAME) * single[n]]
    best = [n for n in names if ours[n] <= min(means[row][n] for row in _others())]
    return Finding(
        "TAE de-noises: its reconstruction removes the noise.",
        "Measured against the clean samples, the reconstruction is worse than doing nothing on "
        f"{listed(cut_too_much)}: there, h latent numbers cut off more than the noise. `denoise` "
        "does not cut; the better of TAE's and LinearTAE's improves on doing nothing on "
        f"{listed(helped)} and is the best of all rows on {listed(best)}. The same blending "
        f"of AE1 or AE2 is behind it by more than {100 * SAME:.0f} % on {listed(ahead)}.",
        verdict([n not in cut_too_much for n in names]),
    )


def _change(means: Means, name: str) -> float:
    """Error of TAE's reconstruction against that of AE1, as a share of it."""
    return means["TAE reconstruct"][name] / means["AE1"][name] - 1


def _others() -> list[str]:
    ours = ("TAE denoise", "LinearTAE denoise")
    return [row for row in denoising.ROWS if row not in ours]


def _names(results: Results) -> list[str]:
    return [
        name
        for name in REAL
        if all(len(results.values(name, *where)) for where in denoising.ROWS.values())
    ]


EXPERIMENT = Experiment(
    number=5,
    title="De-noising of real data",
    story=(
        "Gaussian noise of standard deviation 0.1 on every value. Methods are fitted on 80 % of "
        "the clean samples and clean the other 20 %, whose noise is new; each seed is another "
        "split. The figure is the plain squared error against the clean samples, per number, "
        "x 1000. AE1, AE2 and “TAE reconstruct” are outputs of decoders; “denoise” blends output "
        "and input by least squares, for autoencoders in the same way as for TAE. LinearTAE, the "
        "mixture's posterior mean and the Wiener filter (the same for one Gaussian) are told the "
        "noise. Bars are means over the splits, whiskers one standard deviation, dots the splits. "
        "The second figure divides by the largest of each set."
    ),
    parts=_parts,
    draw=_draw,
    tables=_tables,
    findings=_findings,
)
