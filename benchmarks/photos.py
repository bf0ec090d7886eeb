"""Photographs: taking noise out, beside BM3D, non-local means and wavelets.

Needs bm3d, scikit-image, PyWavelets, Pillow and a folder of grey photographs (PNG): --data, or the
environment variable TENSORAE_PHOTOS. Colour pictures are scikit-image's. What is measured is kept
picture by picture, so that a run that was stopped goes on. Times are of the processor, on one
thread. Noise is that of numpy's RandomState(σ); nothing is cut off or rounded unless said.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import RESULTS, limited_threads, parser, progress, publish, table
from PIL import Image

from tensorae.photos import denoise, estimate_noise

try:
    from skimage import data
    from skimage.metrics import structural_similarity
    from skimage.restoration import cycle_spin, denoise_nl_means, denoise_wavelet
except ModuleNotFoundError as missing:
    print(f"Nothing is measured: {missing.name} is not installed (pip install scikit-image).")
    raise SystemExit(0) from None

Array = np.ndarray
Graded = dict[str, list[float]]  # method -> PSNR, SSIM, seconds

RECORDS = RESULTS / "photos_records.json"
OURS, FAST, BLIND, BM3D = "tensorae", "tensorae, fast", "tensorae, σ estimated", "BM3D"
SPEED, ROUNDS = "speed", 3
COLOURS = ("astronaut", "coffee", "chelsea", "rocket", "immunohistochemistry")


def with_noise(picture: Array, sigma: float) -> Array:
    return picture + sigma * np.random.RandomState(int(sigma)).standard_normal(picture.shape)


# Methods ----------------------------------------------------------------------------------------


def bm3d(noisy: Array, sigma: float) -> Array:
    import bm3d as package

    run = package.bm3d if noisy.ndim == 2 else package.bm3d_rgb
    return 255 * run(noisy / 255, sigma / 255)


def nl_means(noisy: Array, sigma: float) -> Array:
    axis = None if noisy.ndim == 2 else -1
    options = {"patch_size": 5, "patch_distance": 6, "fast_mode": True, "channel_axis": axis}
    return denoise_nl_means(noisy, h=0.6 * sigma, sigma=sigma, **options)


def wavelets(noisy: Array, sigma: float) -> Array:
    axis = None if noisy.ndim == 2 else -1
    options = {"sigma": sigma, "method": "BayesShrink", "mode": "soft", "channel_axis": axis}
    shifts = 3 if axis is None else (3, 3, 0)
    return cycle_spin(
        noisy, denoise_wavelet, shifts, func_kw=options, channel_axis=None, num_workers=1
    )


PEERS: dict[str, Callable[[Array, float], Array]] = {
    "do nothing": lambda noisy, sigma: noisy,  # noqa: ARG005
    "wavelets": wavelets,
    "NL-means": nl_means,
    BM3D: bm3d,
}


def graded(found: Array, truth: Array, seconds: float) -> list[float]:
    axis = None if truth.ndim == 2 else -1
    psnr = 10 * np.log10(255**2 / np.square(found - truth).mean())
    ssim = structural_similarity(truth, found, data_range=255, channel_axis=axis)
    return [float(psnr), float(ssim), seconds]


def grade_rest(
    known: Graded, noisy: Array, truth: Array, sigma: float, ways: dict[str, Callable[..., Array]]
) -> None:
    """Grade the ways that are not known yet."""
    for name, way in ways.items():
        if name in known:
            continue
        began = time.process_time()
        found = way(noisy, sigma)
        known[name] = graded(np.asarray(found, dtype=float), truth, time.process_time() - began)


# Tasks ------------------------------------------------------------------------------------------


def cleaned(noisy: Array, sigma: float) -> Array:
    return denoise(noisy, sigma, n_jobs=1)


def white_noise(known: Graded, picture: Array, sigma: float) -> None:
    """Known σ, and σ that has to be estimated (with the estimate as a share of σ)."""
    noisy = with_noise(picture, sigma)
    ways = {**PEERS, OURS: cleaned, BLIND: lambda y, s: denoise(y, n_jobs=1)}  # noqa: ARG005
    if sigma == 25:
        ways[FAST] = lambda y, s: denoise(y, s, quality="fast", n_jobs=1)
    known["estimate"] = [estimate_noise(noisy).sigma / sigma]
    grade_rest(known, noisy, picture, sigma, ways)


def other_noise(known: Graded, picture: Array, kind: str) -> None:
    """Noise that is not white, of a size that is not told."""
    rng = np.random.RandomState(0)
    if kind == "Poisson, brightest 60":
        noisy = rng.poisson(picture * 60 / 255) * 255 / 60
    else:  # white noise, cut off, rounded and stored as JPEG
        file = io.BytesIO()
        eight = np.clip(np.round(with_noise(picture, 15)), 0, 255).astype(np.uint8)
        Image.fromarray(eight).save(file, "JPEG", quality=80)
        noisy = np.asarray(Image.open(file)).astype(float)
    sigma = float(np.square(noisy - picture).mean() ** 0.5)
    ways = {
        "do nothing": PEERS["do nothing"],
        BM3D + ", true mean σ": bm3d,
        OURS + ", true mean σ": cleaned,
        BLIND: lambda y, s: denoise(y, n_jobs=1),  # noqa: ARG005
    }
    grade_rest(known, noisy, picture, sigma, ways)


def speed(known: Graded, picture: Array, sigma: float) -> None:
    """Seconds of rounds in which all methods take turns."""
    noisy = with_noise(picture, sigma)
    ways = {
        BM3D: bm3d,
        OURS: cleaned,
        FAST: lambda y, s: denoise(y, s, quality="fast", n_jobs=1),
    }
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.process_time()
            way(noisy, sigma)
            known.setdefault(name, []).append(time.process_time() - began)


# Records ----------------------------------------------------------------------------------------


def measure(
    grey: dict[str, Array], colour: dict[str, Array], *, keep: bool, anew: bool = False
) -> dict[str, dict[str, Graded]]:
    """Task -> picture -> grades; what is known already is not measured again."""
    tasks = [
        (f"grey, σ = {sigma}", name, white_noise, picture, sigma)
        for sigma in (25, 50, 10)
        for name, picture in grey.items()
    ]
    tasks += [
        ("colour, σ = 25", name, white_noise, picture, 25) for name, picture in colour.items()
    ]
    tasks += [
        (kind, name, other_noise, picture, kind)
        for kind in ("Poisson, brightest 60", "σ = 15, then JPEG 80")
        for name, picture in list(grey.items())[::5]
    ]
    largest = max(grey.items(), key=lambda item: item[1].size, default=None)
    tasks += [] if largest is None else [(SPEED, largest[0], speed, largest[1], 25)]
    records: dict[str, dict[str, Graded]] = {}
    if keep and RECORDS.is_file():
        records = json.loads(RECORDS.read_text("utf-8"))
    if anew:
        records.pop(SPEED, None)
        for one in (one for known in records.values() for one in known.values()):
            for way in [way for way in one if way.startswith(OURS)]:
                del one[way]
    for task, name, run, picture, level in tasks:
        known = records.setdefault(task, {}).setdefault(name, {})
        if task == SPEED and known:
            continue
        before = set(known)
        run(known, picture, level)
        if set(known) - before:
            shown = {way: round(known[way][0], 2) for way in known}
            progress(f"{task}: {name} {shown}")
        if keep:
            RECORDS.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return records


def graded_tasks(records: dict[str, dict[str, Graded]]) -> dict[str, dict[str, Graded]]:
    return {task: known for task, known in records.items() if task != SPEED}


def times(records: dict[str, dict[str, Graded]]) -> str:
    """Seconds, and how they compare, round by round."""
    lines = []
    for name, known in records.get(SPEED, {}).items():
        peer = np.array(known[BM3D])
        for way, seconds in known.items():
            ratios = np.array(seconds) / peer
            cells = [f"{np.median(seconds):.1f}", f"{np.median(ratios):.2f}"]
            lines.append([name, way, *cells, f"[{ratios.min():.2f}, {ratios.max():.2f}]"])
    return table(["picture, σ = 25", "method", "seconds", "ratio to BM3D", "range"], lines)


def means(records: dict[str, dict[str, Graded]]) -> str:
    """One line a task, set and method: means over the pictures, and what is gained over BM3D."""
    lines = []
    for task, known in graded_tasks(records).items():
        for group in sorted({name.split("_")[0] for name in known} if "grey" in task else {""}):
            some = [one for name, one in known.items() if name.startswith(group)]
            reference = next(way for way in some[0] if way.startswith(BM3D))
            for way in (way for way in some[0] if way != "estimate"):
                mean = np.mean([one[way] for one in some], axis=0)
                gains = np.array([one[way][0] - one[reference][0] for one in some])
                cells = [
                    f"{mean[0]:.2f}",
                    f"{mean[1]:.4f}",
                    f"{gains.mean():+.2f}",
                    f"{gains.min():+.2f}",
                ]
                lines.append([task, group, len(some), way, *cells])
    columns = [
        "noise",
        "set",
        "pictures",
        "method",
        "PSNR",
        "SSIM",
        "over BM3D",
        "least",
    ]
    return table(columns, lines)


def estimates(records: dict[str, dict[str, Graded]]) -> str:
    """How far estimates of σ are off, in percent, and what that costs."""
    lines = []
    for task, known in graded_tasks(records).items():
        errors = np.array(
            [abs(one["estimate"][0] - 1) for one in known.values() if "estimate" in one]
        )
        if errors.size:
            lost = np.array([one[BLIND][0] - one[OURS][0] for one in known.values()])
            cells = [f"{100 * np.median(errors):.1f}", f"{100 * errors.max():.1f}"]
            lines.append([task, *cells, f"{lost.mean():+.3f}", f"{lost.min():+.3f}"])
    return table(
        ["noise", "median error of σ, %", "largest", "PSNR beside known σ", "least"], lines
    )


def every(records: dict[str, dict[str, Graded]]) -> str:
    """PSNR of all pictures, ours and BM3D's."""
    tasks = {
        task: known
        for task, known in graded_tasks(records).items()
        if task.startswith(("grey", "colour"))
    }
    names = sorted({name for known in tasks.values() for name in known})
    lines = []
    for name in names:
        pairs = [known.get(name) for known in tasks.values()]
        lines.append(
            [name, *(f"{one[OURS][0]:.2f} / {one[BM3D][0]:.2f}" if one else "" for one in pairs)]
        )
    return table(["PSNR, tensorae / BM3D", *tasks], lines)


def main(arguments: argparse.Namespace) -> None:
    folder = arguments.data or os.environ.get("TENSORAE_PHOTOS")
    grey: dict[str, Array] = {}
    if folder is None:
        print("Without a folder of photographs (--data, or TENSORAE_PHOTOS): colour pictures only.")
    elif not arguments.stored:
        files = sorted(Path(folder).glob("*.png"))
        grey = {
            file.stem: np.asarray(Image.open(file).convert("L")).astype(float) for file in files
        }
    colour = (
        {} if arguments.stored else {name: getattr(data, name)().astype(float) for name in COLOURS}
    )
    if arguments.quick:
        grey = {name: picture[:64, :64] for name, picture in list(grey.items())[:2]}
        colour = {name: picture[:64, :64] for name, picture in list(colour.items())[:1]}
    with limited_threads(arguments.threads):
        records = measure(grey, colour, keep=not arguments.quick, anew=arguments.anew)
        parts = (means(records), estimates(records), times(records), every(records))
        publish(
            "photos", "Photographs: noise taken out", *parts, quick=arguments.quick, data=records
        )


if __name__ == "__main__":
    options = parser(__doc__, threads=1)
    options.add_argument("--data", help="folder of PNG files")
    options.add_argument("--stored", action="store_true", help="tables of what is kept, no more")
    options.add_argument("--anew", action="store_true", help="measure ours again, keep the peers'")
    main(options.parse_args())
