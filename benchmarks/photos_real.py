"""Photographs as cameras make them: blind de-noising beside BM3D, blind and told the noise.

Needs bm3d, scikit-image, Pillow and a folder of pairs (--data, or the environment variable
TENSORAE_REAL_PHOTOS): NAME_real.JPG as taken, NAME_mean.JPG the mean of many shots. Methods get the
whole picture to estimate the noise from, and de-noise its centre (--size). Settings of tensorae
were chosen on the pairs with an even number. With --grey, a folder of grey PNG files, Poisson noise
and correlated noise are added to these as well. What is measured is kept picture by picture.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from _common import RESULTS, limited_threads, parser, progress, publish, table
from PIL import Image
from scipy.ndimage import gaussian_filter

from tensorae.photos import denoise, estimate_noise

try:
    import bm3d
    from skimage.metrics import structural_similarity
    from skimage.restoration import estimate_sigma
except ModuleNotFoundError as missing:
    print(f"Nothing is measured: {missing.name} is not installed (pip install bm3d scikit-image).")
    raise SystemExit(0) from None

Array = np.ndarray
Records = dict[str, dict[str, dict[str, list[float]]]]  # task -> picture -> method -> figures

if not hasattr(np, "trapz"):  # numpy 2.4 has dropped what bm3d 4.0 calls for a spectrum
    np.trapz = np.trapezoid  # noqa: NPY201
RECORDS = RESULTS / "photos_real_records.json"
REAL, NOISY, OURS = "camera", "noisy", "tensorae, blind"
PEERS = True
SMALLEST_SIGMA = 0.05  # of 255: bm3d fails for 0


def bm3d_of(noisy: Array, sigma: float | Array) -> Array:
    run = bm3d.bm3d if noisy.ndim == 2 else bm3d.bm3d_rgb
    told = sigma / 255 if np.ndim(sigma) == 0 else sigma / 255**2
    return 255 * run(noisy / 255, told)


def stabilised_bm3d(noisy: Array, b: float) -> Array:
    """BM3D behind Anscombe's transform for a known Poisson noise, with Makitalo's inverse."""
    scale = noisy / b
    stable = 2 * np.sqrt(np.maximum(scale + 3 / 8, 0))
    y = np.maximum(bm3d.bm3d(stable / stable.max(), 1 / stable.max()) * stable.max(), 0.1)
    root = 1.5**0.5
    return b * (y**2 / 4 + root / 4 / y - 11 / 8 / y**2 + 5 / 8 * root / y**3 - 1 / 8)


def figures(found: Array, truth: Array, seconds: float) -> list[float]:
    axis = None if truth.ndim == 2 else -1
    psnr = 10 * np.log10(255**2 / np.square(found - truth).mean())
    ssim = structural_similarity(truth, found, data_range=255, channel_axis=axis)
    return [float(psnr), float(ssim), seconds]


def measure(
    known: dict[str, list[float]], truth: Array, ways: dict[str, Callable[[], Array]]
) -> None:
    for name, way in ways.items():
        if name not in known and (PEERS or name in (NOISY, OURS)):
            began = time.process_time()
            found = np.asarray(way(), dtype=float)
            known[name] = figures(found, truth, time.process_time() - began)


# Tasks ------------------------------------------------------------------------------------------


def camera(known: dict[str, list[float]], files: tuple[Path, Path], size: int) -> None:
    whole, mean = (np.asarray(Image.open(file)) for file in files)
    middle = tuple(slice((n - min(n, size)) // 2, (n + min(n, size)) // 2) for n in mean.shape[:2])
    noisy, truth = whole[middle], mean[middle].astype(float)
    sigma = float(np.square(whole.astype(float) - mean).mean() ** 0.5)
    guess = max(
        float(estimate_sigma(whole.astype(float), average_sigmas=True, channel_axis=-1)),
        SMALLEST_SIGMA,
    )
    ways = {
        NOISY: lambda: noisy,
        OURS: lambda: denoise(noisy, estimate_noise(whole), n_jobs=1),
        "bm3d_rgb, blind": lambda: np.clip(bm3d_of(noisy, guess), 0, 255).round(),
        "bm3d_rgb, told σ": lambda: np.clip(bm3d_of(noisy, sigma), 0, 255).round(),
    }
    measure(known, truth, ways)


def poisson(known: dict[str, list[float]], truth: Array, peak: float) -> None:
    noisy = np.random.RandomState(0).poisson(truth * peak / 255) * 255 / peak
    ways = {
        NOISY: lambda: noisy,
        OURS: lambda: denoise(noisy, n_jobs=1),
        "VST + BM3D, told": lambda: stabilised_bm3d(noisy, 255 / peak),
    }
    measure(known, truth, ways)


def correlated(known: dict[str, list[float]], truth: Array, sigma: float) -> None:
    impulse = np.zeros(truth.shape)
    impulse[tuple(n // 2 for n in truth.shape)] = 1
    kernel = gaussian_filter(impulse, 1.0)
    kernel *= sigma / np.sqrt(np.square(kernel).sum())
    spectrum = np.fft.fft2(np.fft.ifftshift(kernel))
    white = np.random.RandomState(0).standard_normal(truth.shape)
    noisy = truth + np.fft.ifft2(np.fft.fft2(white) * spectrum).real
    psd = np.abs(spectrum) ** 2 * truth.size
    ways = {
        NOISY: lambda: noisy,
        OURS: lambda: denoise(noisy, n_jobs=1),
        "BM3D, told its spectrum": lambda: bm3d_of(noisy, psd),
    }
    measure(known, truth, ways)


def pairs(folder: Path) -> dict[str, tuple[Path, Path]]:
    noisy = sorted(folder.glob("*_real.JPG"))
    return {
        f"{number:02d} {file.stem.removesuffix('_real')}": (
            file,
            file.with_name(file.name.replace("_real", "_mean")),
        )
        for number, file in enumerate(noisy)
    }


# Tables -----------------------------------------------------------------------------------------


def summary(records: Records) -> str:
    """Means over all pictures and over those that were not used to choose settings."""
    lines = []
    for task, known in records.items():
        groups = {"all": list(known.values())}
        if task == REAL:
            groups["odd"] = [one for name, one in known.items() if int(name[:2]) % 2]
        for group, some in groups.items():
            for way in dict.fromkeys(way for one in some for way in one):
                found = np.array([one[way] for one in some if way in one])
                gains = np.array([one[way][0] - one[NOISY][0] for one in some if way in one])
                psnr, ssim, seconds = found.mean(0)
                cells = [
                    f"{psnr:.2f}",
                    f"{ssim:.4f}",
                    f"{gains.mean():+.2f}",
                    f"{gains.min():+.2f}",
                ]
                lines.append([task, group, len(found), way, *cells, f"{seconds:.0f}"])
    columns = ["noise", "group", "pictures", "method", "PSNR", "SSIM", "gain", "least", "s"]
    return table(columns, lines)


def every(records: Records) -> str:
    lines = []
    for task, known in records.items():
        for name, one in known.items():
            cells = [f"{way} {psnr:.2f} / {ssim:.3f}" for way, (psnr, ssim, _) in one.items()]
            lines.append([task, name, "; ".join(cells)])
    return table(["noise", "picture", "PSNR / SSIM"], lines)


def commit() -> str:
    here = Path(__file__).parent
    found = subprocess.run(
        ["git", "-C", here, "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


def main(arguments: argparse.Namespace) -> None:
    global PEERS
    PEERS = not arguments.ours
    data = arguments.data or os.environ.get("TENSORAE_REAL_PHOTOS")
    records: Records = {}
    if RECORDS.is_file() and not arguments.quick:
        records = json.loads(RECORDS.read_text("utf-8"))
    size = 96 if arguments.quick else arguments.size
    tasks = [(REAL, name, camera, files, size) for name, files in pairs(Path(data or "")).items()]
    tasks = tasks[:1] if arguments.quick else tasks
    for file in sorted(Path(arguments.grey).glob("*.png")) if arguments.grey else ():
        picture = np.asarray(Image.open(file).convert("L")).astype(float)
        tasks += [
            (f"Poisson, peak {peak}", file.stem, poisson, picture, peak) for peak in (30, 120)
        ]
        tasks += [(f"correlated, σ = {s}", file.stem, correlated, picture, s) for s in (10, 25)]
    with limited_threads(arguments.threads):
        for task, name, run, picture, level in tasks:
            known = records.setdefault(task, {}).setdefault(name, {})
            if arguments.anew:
                known.pop(OURS, None)
            run(known, picture, level)
            progress(f"{task}: {name} { ({way: round(f[0], 2) for way, f in known.items()}) }")
            if not arguments.quick:
                RECORDS.write_text(
                    json.dumps(records, indent=1, ensure_ascii=False) + "\n", "utf-8"
                )
        peers = ", ".join(f"{name} {version(name)}" for name in ("bm3d", "scikit-image"))
        note = f"Commit {commit()}; {peers}; camera pictures: centre of {size} x {size} pixels."
        parts = (note, summary(records), every(records))
        publish(
            "photos_real", "Photographs of cameras", *parts, quick=arguments.quick, data=records
        )


if __name__ == "__main__":
    options = parser(__doc__, threads=1)
    options.add_argument("--data", help="folder of pairs")
    options.add_argument("--grey", help="folder of grey PNG files")
    options.add_argument("--size", type=int, default=512, help="side of the part that is graded")
    options.add_argument("--anew", action="store_true", help="measure ours again, keep the peers'")
    options.add_argument("--ours", action="store_true", help="leave the peers for later")
    main(options.parse_args())
