"""Figure 5 and 5b: de-noising of real data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorae.experiments import denoising
from tensorae.experiments.drawing import bars, canvas, shared_legend
from tensorae.experiments.experiment import Experiment, Finding, Part, Results, Settings, Table
from tensorae.experiments.problems import REAL
from tensorae.experiments.wording import listed, method_table, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

NETWORKS = ("AE1", "AE2", "TAE")


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
    shared_legend(log_scale, list(errors))
    normalised, ((ax,),) = canvas(width=13, height=5.8)
    tops = [max(errors[row][place].mean() for row in errors) for place in range(len(names))]
    shares = {
        row: [values / top for values, top in zip(series, tops, strict=True)]
        for row, series in errors.items()
    }
    bars(ax, names, shares)
    ax.set_ylabel("squared error, share of the largest of the set")
    shared_legend(normalised, list(errors))
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
            "samples that were fitted, penalty included (x 1000, per number)",
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
    not_worse = [n for n in names if means["TAE reconstruct"][n] <= 1.02 * means["AE1"][n]]
    long_code = [n for n in names if means["AE2"][n] < means["TAE reconstruct"][n]]
    cut_too_much = [n for n in names if means["TAE reconstruct"][n] > means["do nothing"][n]]
    ours = {n: min(means["TAE denoise"][n], means["LinearTAE denoise"][n]) for n in names}
    helped = [n for n in names if ours[n] < means["do nothing"][n]]
    best = [n for n in names if ours[n] <= min(means[row][n] for row in _others())]
    return [
        Finding(
            "TAE consistently performs the same or significantly better than a standard "
            "autoencoder.",
            f"With codes of the same length (AE1), TAE's reconstruction is not worse on "
            f"{listed(not_worse)}. AE2, whose code is k times as long, is closer on "
            f"{listed(long_code)}: code length counts for more than the number of networks.",
            verdict([n in not_worse for n in names]),
        ),
        Finding(
            "TAE de-noises: its reconstruction removes the noise.",
            "Measured against the clean samples, the reconstruction is worse than doing nothing "
            "on "
            f"{listed(cut_too_much)}: h latent numbers cannot carry the samples, and noise of "
            "0.1 is "
            "small beside what is cut off. `denoise` shrinks instead; the better of TAE and "
            "LinearTAE "
            f"improves on doing nothing on {listed(helped)} and is the best of all rows on "
            f"{listed(best)}.",
            verdict([n not in cut_too_much for n in names]),
        ),
    ]


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
        "the "
        "clean samples and clean the other 20 %, whose noise is new; each seed is another split. "
        "The figure is the plain squared error against the clean samples, per number, x 1000. "
        "AE1, AE2 and “TAE reconstruct” are outputs of decoders; “denoise” blends output and input "
        "by least squares, for autoencoders in the same way as for TAE. LinearTAE and the "
        "mixture's "
        "posterior mean are told the noise. Whiskers are one standard deviation over the splits."
    ),
    parts=_parts,
    draw=_draw,
    tables=_tables,
    findings=_findings,
)
