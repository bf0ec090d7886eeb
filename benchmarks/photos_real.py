"""Photographs as cameras make them: blind de-noising beside BM3D, blind and told the noise.

Needs bm3d, scikit-image, Pillow and a folder of pairs (--data, or the environment variable
TENSORAE_REAL_PHOTOS): NAME_real.JPG as taken, NAME_mean.JPG the mean of many shots. Methods
get the centres of the pictures (--size), tensorae also the whole of them. Settings of tensorae were
chosen on the pairs with an even number.

With --grey, a folder of grey PNG files, Poisson, correlated and white noise are added to the
smaller ones of these; --before names the sources of an older version for white noise. With --peers,
folders, modules nlridge and lichi found there run on the grey pictures (lichi on the smaller ones).
--large measures time and memory for 12 megapixels. What is measured is kept picture by picture.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _common import RESULTS, limited_threads, parser, progress, publish, table
from joblib import Parallel, delayed
from PIL import Image
from scipy.ndimage import gaussian_filter

from tensorae.photos import denoise, estimate_noise

try:
    import bm3d
    from skimage import data as examples
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
REAL, CENTRE, NOISY, OURS = "camera, whole", "camera, centre", "noisy", "tensorae, blind"
FAST = "tensorae, blind, fast"
TOLD, BEFORE = "tensorae, told σ", "0.2.0"
GREY_PEERS, LARGE = "white, σ = 25, told", "12 megapixels"
SMALL = 256 * 256  # pixels of pictures that artificial noise is added to
COLOURS = ("astronaut", "coffee", "chelsea", "rocket", "immunohistochemistry")
SMALLEST_SIGMA = 0.05  # of 255: bm3d fails for 0


def bm3d_of(noisy: Array, sigma: float | Array) -> Array:
    run = bm3d.bm3d if noisy.ndim == 2 else bm3d.bm3d_rgb
    told = sigma / 255 if np.ndim(sigma) == 0 else sigma / 255**2
    return 255 * run(noisy / 255, told)


def stabilised_bm3d(noisy: Array, b: float) -> Array:
    """BM3D behind Anscombe's transform for a known Poisson noise, with Makitalo's inverse.

    No expected value is below that of darkness, the square root of 3/2.
    """
    run = bm3d.bm3d if noisy.ndim == 2 else bm3d.bm3d_rgb
    scale = noisy / b
    stable = 2 * np.sqrt(np.maximum(scale + 3 / 8, 0))
    y = np.maximum(run(stable / stable.max(), 1 / stable.max()) * stable.max(), 1.5**0.5)
    root = 1.5**0.5
    return b * (y**2 / 4 + root / 4 / y - 11 / 8 / y**2 + 5 / 8 * root / y**3 - 1 / 8)


OLDER = """
import sys, numpy, torch
torch.set_num_threads(1)
from tensorae.photos import denoise, estimate_noise
folder, sigma = sys.argv[1], float(sys.argv[2]) or None
noisy = numpy.load(folder + "/noisy.npy")
numpy.save(folder + "/found.npy", denoise(noisy, sigma, n_jobs=1))
"""


def by_version(sources: str, noisy: Array, sigma: float) -> Array:
    """De-noised by the version of tensorae in a folder; σ is estimated where it is 0."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/noisy.npy", noisy)
        command = [sys.executable, "-c", OLDER, folder, str(sigma)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": sources})
        return np.load(f"{folder}/found.npy")


def nl_ridge(noisy: Array, sigma: float) -> Array:
    """With its authors' settings for 15 < σ <= 35."""
    import nlridge
    import torch

    sizes = {"p1": 9, "p2": 9, "k1": 18, "k2": 90, "w": 37, "s": 4}
    x = torch.as_tensor(noisy, dtype=torch.float32)[None, None]
    with torch.inference_mode():
        found = nlridge.NLRidge()(x, sigma=sigma, noise_type="gaussian-homoscedastic", **sizes)
    return found[0, 0].numpy()


def lichi_of(noisy: Array, sigma: float) -> Array:
    """With its authors' settings for 10 < σ <= 30."""
    import lichi
    import torch

    sizes = {"p1": 11, "p2": 6, "k1": 16, "k2": 64, "w": 65, "s": 3, "M": 9}
    x = torch.as_tensor(noisy, dtype=torch.float32)[None, None]
    with torch.inference_mode():
        found = lichi.LIChI()(x, sigma=sigma, constraints="affine", method="n2n", **sizes)
    return found[0, 0].numpy()


def figures(found: Array, truth: Array, seconds: float) -> list[float]:
    axis = None if truth.ndim == 2 else -1
    psnr = 10 * np.log10(255**2 / np.square(found - truth).mean())
    ssim = structural_similarity(truth, found, data_range=255, channel_axis=axis)
    return [float(psnr), float(ssim), seconds]


def measure(
    known: dict[str, list[float]],
    truth: Array,
    ways: dict[str, Callable[[], Array]],
    picture: Path | None = None,
) -> None:
    """Figures of what is not known yet; results are also written beside ``picture``."""
    for name, way in ways.items():
        if name not in known:
            began = time.process_time()
            found = np.asarray(way(), dtype=float)
            known[name] = figures(found, truth, time.process_time() - began)
            if picture is not None:
                written = Image.fromarray(np.clip(found, 0, 255).round().astype(np.uint8))
                written.save(picture.with_name(f"{picture.name}, {name}.png"))


# Tasks ------------------------------------------------------------------------------------------


def centre(files: tuple[Path, Path], size: int) -> tuple[Array, Array, Array, Array]:
    """The noisy picture and the mean of many, and the middle of both."""
    noisy, mean = (np.asarray(Image.open(file)) for file in files)
    middle = tuple(slice((n - min(n, size)) // 2, (n + min(n, size)) // 2) for n in mean.shape[:2])
    return noisy, mean.astype(float), noisy[middle], mean[middle].astype(float)


def camera(
    records: Records, name: str, files: tuple[Path, Path], size: int, folder: Path | None
) -> None:
    """The centre, and the whole picture fast; the noise is that of the whole."""
    noisy, mean, part, truth = centre(files, size)
    noise = estimate_noise(noisy)
    ways = {
        NOISY: lambda: part,
        OURS: lambda: denoise(part, noise, n_jobs=1),
        FAST: lambda: denoise(part, noise, quality="fast", n_jobs=1),
    }
    measure(records.setdefault(CENTRE, {}).setdefault(name, {}), truth, ways)
    ways = {NOISY: lambda: noisy, FAST: lambda: denoise(noisy, quality="fast", n_jobs=1)}
    known = records.setdefault(REAL, {}).setdefault(name, {})
    measure(known, mean, ways, folder and folder / name)


def camera_peers(records: Records, name: str, files: tuple[Path, Path], size: int) -> None:
    noisy, mean, part, truth = centre(files, size)
    sigma = float(np.square(noisy - mean).mean() ** 0.5)
    guess = float(estimate_sigma(noisy.astype(float), average_sigmas=True, channel_axis=-1))
    guess = max(guess, SMALLEST_SIGMA)
    ways = {
        "bm3d_rgb, blind": lambda: np.clip(bm3d_of(part, guess), 0, 255).round(),
        "bm3d_rgb, told σ": lambda: np.clip(bm3d_of(part, sigma), 0, 255).round(),
    }
    measure(records.setdefault(CENTRE, {}).setdefault(name, {}), truth, ways)


def camera_whole(
    records: Records, name: str, files: tuple[Path, Path], folder: Path | None
) -> None:
    noisy, mean = (np.asarray(Image.open(file)) for file in files)
    ways = {NOISY: lambda: noisy, OURS: lambda: denoise(noisy, n_jobs=1)}
    known = records.setdefault(REAL, {}).setdefault(name, {})
    measure(known, mean.astype(float), ways, folder and folder / name)


def poisson(records: Records, name: str, truth: Array, peak: float) -> None:
    noisy = np.random.RandomState(0).poisson(truth * peak / 255) * 255 / peak
    ways = {
        NOISY: lambda: noisy,
        OURS: lambda: denoise(noisy, n_jobs=1),
        "VST + BM3D, told": lambda: stabilised_bm3d(noisy, 255 / peak),
    }
    colour = "" if truth.ndim == 2 else ", colour"
    measure(
        records.setdefault(f"Poisson, peak {peak}{colour}", {}).setdefault(name, {}), truth, ways
    )


def correlated(records: Records, name: str, truth: Array, sigma: float) -> None:
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
    measure(records.setdefault(f"correlated, σ = {sigma}", {}).setdefault(name, {}), truth, ways)


def white(records: Records, name: str, truth: Array, sigma: float, before: str | None) -> None:
    noisy = with_noise(truth, sigma)
    ways = {NOISY: lambda: noisy, OURS: lambda: denoise(noisy, n_jobs=1)}
    if before:
        ways[f"{BEFORE}, blind"] = lambda: by_version(before, noisy, 0)
    ways[TOLD] = lambda: denoise(noisy, sigma, n_jobs=1)
    if before:
        ways[f"{BEFORE}, told σ"] = lambda: by_version(before, noisy, sigma)
    measure(records.setdefault(f"white, σ = {sigma}", {}).setdefault(name, {}), truth, ways)


def grey_peers(
    records: Records, name: str, truth: Array, sigma: float, folders: tuple[str, ...]
) -> None:
    sys.path += [folder for folder in folders if folder not in sys.path]
    noisy = with_noise(truth, sigma)
    ways = {
        NOISY: lambda: noisy,
        TOLD: lambda: denoise(noisy, sigma, n_jobs=1),
        TOLD + ", fast": lambda: denoise(noisy, sigma, quality="fast", n_jobs=1),
        "BM3D": lambda: bm3d_of(noisy, sigma),
        "NL-Ridge": lambda: nl_ridge(noisy, sigma),
    }
    if truth.size <= SMALL:  # it is slow
        ways["LIChI"] = lambda: lichi_of(noisy, sigma)
    measure(records.setdefault(GREY_PEERS, {}).setdefault(name, {}), truth, ways)


def with_noise(truth: Array, sigma: float) -> Array:
    return truth + sigma * np.random.RandomState(int(sigma)).standard_normal(truth.shape)


BIG = """
import json, resource, sys, time
import numpy, torch
from PIL import Image
from tensorae.photos import denoise, estimate_noise
torch.set_num_threads(1)
parts = [numpy.asarray(Image.open(name)) for name in sys.argv[3:]]
line = [numpy.concatenate([parts[(i + j) % len(parts)] for j in range(8)], 1) for i in range(6)]
picture = numpy.ascontiguousarray(numpy.concatenate(line)[:3000, :4000])
del parts, line
resident = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
denoise(picture[:64, :64], quality=sys.argv[1])
before, heard, began = resident(), [], time.process_time()
report = lambda *done: heard.append(done)
found = denoise(picture, quality=sys.argv[1], n_jobs=int(sys.argv[2]), progress=report)
seconds = time.process_time() - began
assert found.shape == picture.shape and heard[-1][0] == heard[-1][1] == len(heard) - 1
print(json.dumps([seconds, resident() - before, len(heard) - 1]))
"""


def large(files: list[Path]) -> list[float]:
    """Processor seconds, GB beyond the picture, and tiles, of 4000 x 3000 pixels by "fast"."""
    command = [sys.executable, "-c", BIG, "fast", "2", *map(str, files)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(value) for value in json.loads(said)]


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
        if task in (REAL, CENTRE):
            groups["odd"] = [one for name, one in known.items() if int(name[:2]) % 2]
        if task == GREY_PEERS:
            groups["256 x 256"] = [one for one in known.values() if "LIChI" in one]
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


class Task(NamedTuple):
    """One picture: what measures it, its name, and further arguments."""

    run: Callable[..., None]
    name: str
    arguments: tuple[Any, ...]


def carried_out(task: Task, records: Records) -> Records:
    """What is known of the picture of a task afterwards, by kinds of noise."""
    known = {kind: {task.name: one[task.name]} for kind, one in records.items() if task.name in one}
    before = {kind: dict(one[task.name]) for kind, one in known.items()}
    with limited_threads(1):
        task.run(known, task.name, *task.arguments)
    return {kind: one for kind, one in known.items() if one[task.name] != before.get(kind)}


def main(arguments: argparse.Namespace) -> None:
    data = arguments.data or os.environ.get("TENSORAE_REAL_PHOTOS")
    records: Records = {}
    if RECORDS.is_file() and not (arguments.quick or arguments.anew):
        records = json.loads(RECORDS.read_text("utf-8"))
    size = 96 if arguments.quick else arguments.size
    real = pairs(Path(data or ""))
    folder = Path(arguments.pictures) if arguments.pictures else None
    tasks = [Task(camera, name, (files, size, folder)) for name, files in real.items()]
    grey = {
        file.stem: np.asarray(Image.open(file).convert("L")).astype(float)
        for file in (sorted(Path(arguments.grey).glob("*.png")) if arguments.grey else ())
    }
    small = {name: picture for name, picture in grey.items() if picture.size <= SMALL}
    colour = {name: getattr(examples, name)()[:256, :256].astype(float) for name in COLOURS}
    tasks += [Task(camera_whole, name, (files, folder)) for name, files in real.items()]
    tasks += [Task(correlated, name, (one, n)) for n in (10, 25) for name, one in small.items()]
    for pictures in (small, colour) if grey else ():
        for peak in (30, 120):
            tasks += [Task(poisson, name, (one, peak)) for name, one in pictures.items()]
    tasks += [Task(camera_peers, name, (files, size)) for name, files in real.items()]
    for name, picture in small.items():
        tasks += [Task(white, name, (picture, sigma, arguments.before)) for sigma in (10, 25)]
    if arguments.peers:
        peers = tuple(arguments.peers)
        ordered = sorted(grey.items(), key=lambda entry: entry[1].size)
        tasks += [Task(grey_peers, name, (one, 25, peers)) for name, one in ordered]
    if arguments.large and real and not (arguments.stored or LARGE in records):
        records[LARGE] = {"mosaic": {"fast": large([files[0] for files in real.values()][:8])}}
        progress(f"{LARGE}: {records[LARGE]}")
        RECORDS.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", "utf-8")
    with limited_threads(arguments.threads):
        tasks = tasks[: 0 if arguments.stored else 1 if arguments.quick else None]
        workers = Parallel(arguments.jobs, return_as="generator_unordered")
        for found in workers(delayed(carried_out)(task, records) for task in tasks):
            for kind, pictures in found.items():
                for name, known in pictures.items():
                    records.setdefault(kind, {})[name] = known
                    progress(
                        f"{kind}: {name} { ({way: round(f[0], 2) for way, f in known.items()}) }"
                    )
            if not arguments.quick:
                RECORDS.write_text(
                    json.dumps(records, indent=1, ensure_ascii=False) + "\n", "utf-8"
                )
        peers = ", ".join(f"{name} {version(name)}" for name in ("bm3d", "scikit-image"))
        note = (
            f"{peers}. Camera: whole pictures, and their centres of {size} x {size} pixels, for "
            "which the noise is that of the whole picture. Artificial noise: grey pictures of "
            "256 x 256 and the corners, 256 x 256, of five in colour. Seconds of the processor, "
            "one thread for each picture. What is kept of earlier runs (peers) is not measured "
            "again; where a method has fewer pictures than others, no run reached the rest."
        )
        if any(BEFORE in way for kind in records.values() for one in kind.values() for way in one):
            note += f" Version {BEFORE} is commit ebcfe5c; its seconds are not measured."
        pictures = {kind: one for kind, one in records.items() if kind != LARGE}
        parts = [note, summary(pictures), every(pictures)]
        if LARGE in records:
            seconds, memory, tiles = records[LARGE]["mosaic"]["fast"]
            limits = table(
                ["4000 x 3000 pixels, colour, fast", "to reach", "measured"],
                [
                    ["processor time", "≤ 120 s", f"{seconds:.0f} s"],
                    ["memory beyond the picture", "≤ 1.5 GB", f"{memory:.2f} GB"],
                    ["steps of progress", "", f"{tiles:.0f}"],
                ],
            )
            parts.insert(2, limits)
        publish(
            "photos_real", "Photographs of cameras", *parts, quick=arguments.quick, data=records
        )


if __name__ == "__main__":
    options = parser(__doc__, threads=1)
    options.add_argument("--data", help="folder of pairs")
    options.add_argument("--grey", help="folder of grey PNG files")
    options.add_argument("--size", type=int, default=256, help="side of the part that BM3D gets")
    options.add_argument("--before", help="sources (src) of an older version")
    options.add_argument("--peers", nargs="+", help="folders of the modules nlridge and lichi")
    options.add_argument("--large", action="store_true", help="time and memory of 12 megapixels")
    options.add_argument("--jobs", type=int, default=1, help="pictures at a time")
    options.add_argument("--pictures", help="folder to write camera pictures to, to look at them")
    options.add_argument("--stored", action="store_true", help="tables of what is kept, no more")
    options.add_argument("--anew", action="store_true", help="forget what is kept")
    main(options.parse_args())
