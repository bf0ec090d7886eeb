"""Photographs: filling missing pixels and enlarging, beside scikit-image and Pillow.

Needs scikit-image, Pillow and a folder of grey photographs (PNG): --data, or the environment
variable TENSORAE_PHOTOS. Pictures are cut to their middle 256 x 256 pixels, unless --whole is
given. What is measured is kept picture by picture, so that a run that was stopped goes on.

Pillow's filters take a coarse pixel to lie in the middle of its square of fine ones; here it lies
on the first. They are told so (by the box that is read), which is worth 1 to 3 dB to them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import RESULTS, duration, limited_threads, parser, progress, publish, table
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter

from tensorae.photos import enlarge, inpaint

try:
    from skimage.metrics import structural_similarity
    from skimage.restoration import inpaint_biharmonic
except ModuleNotFoundError as missing:
    print(f"Nothing is measured: {missing.name} is not installed (pip install scikit-image).")
    raise SystemExit(0) from None

Array = np.ndarray
Graded = dict[str, list[float]]  # method -> PSNR, SSIM, seconds

RECORDS = RESULTS / "photos_fill_records.json"
SIDE = 256
LOSSES = {"50 % random": 0.5, "80 % random": 0.8}
MASKS = (*LOSSES, "text")
# Factor and blur (standard deviation in fine pixels).
VIEWS = {
    "2, plain": (2, 0.0),
    "3, plain": (3, 0.0),
    "2, blur 1.2": (2, 1.2),
    "3, blur 1.6": (3, 1.6),
}
OURS = "tensorae"
WORDS = "Patches of a photograph lie near many low-dimensional subspaces. "


# Tasks ------------------------------------------------------------------------------------------


def missing_pixels(kind: str, height: int, width: int) -> Array:
    """Which pixels are gone: at random, or under lines of text."""
    if kind in LOSSES:
        return np.random.RandomState(0).uniform(size=(height, width)) < LOSSES[kind]
    page = Image.new("L", (width, height))
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(size=14)
    for line, top in enumerate(range(0, height, 20)):
        pen.text((-(37 * line) % 60 - 60, top), WORDS * (width // 200 + 2), fill=255, font=font)
    return np.asarray(page) > 100


def filled(picture: Array, kind: str) -> Graded:
    """Grades of the ways to fill one picture."""
    lost = missing_pixels(kind, *picture.shape)
    damaged = np.where(lost, 0, picture)
    ways: dict[str, Callable[[], Array]] = {
        OURS: lambda: inpaint(damaged, lost, n_jobs=1),
        "biharmonic": lambda: 255 * inpaint_biharmonic(damaged / 255, lost),
    }
    return {name: graded(way, picture) for name, way in ways.items()}


def enlarged(picture: Array, kind: str) -> Graded:
    """Grades of the ways to enlarge one picture that was made smaller; 8 bits a pixel."""
    factor, blur = VIEWS[kind]
    height, width = (size // factor * factor for size in picture.shape)
    whole = picture[:height, :width]
    blurred = gaussian_filter(whole.astype(float), blur) if blur else whole
    small = np.round(blurred[::factor, ::factor]).astype(np.uint8)
    ways: dict[str, Callable[[], Array]] = {
        OURS: lambda: enlarge(small, factor, blur=blur, n_jobs=1),
        "bicubic": lambda: resized(small, factor, Image.Resampling.BICUBIC),
        "Lanczos": lambda: resized(small, factor, Image.Resampling.LANCZOS),
    }
    return {name: graded(way, whole) for name, way in ways.items()}


def resized(small: Array, factor: int, way: Image.Resampling) -> Array:
    """Pillow's, with coarse pixels on the first of their fine ones."""
    edge, (height, width) = 4, small.shape
    wider = Image.fromarray(np.pad(small, edge, mode="edge").astype(np.float32))
    first = edge + 0.5 - 0.5 / factor
    box = (first, first, first + width, first + height)
    return np.asarray(wider.resize((factor * width, factor * height), way, box=box))


def graded(way: Callable[[], Array], truth: Array) -> list[float]:
    """PSNR, SSIM and seconds."""
    began = time.perf_counter()
    found = way()
    seconds = time.perf_counter() - began
    found, exact = np.clip(found.astype(float), 0, 255), truth.astype(float)
    psnr = 10 * np.log10(255**2 / np.square(found - exact).mean())
    return [psnr, structural_similarity(found, exact, data_range=255), seconds]


# Records ----------------------------------------------------------------------------------------


def read_pictures(folder: Path, *, whole: bool) -> dict[str, Array]:
    """All pictures, grey, or the middle of each."""
    found = {}
    for file in sorted(folder.glob("*.png")):
        picture = np.asarray(Image.open(file).convert("L"))
        top, left = (max(0, (size - SIDE) // 2) for size in picture.shape)
        found[file.stem] = picture if whole else picture[top : top + SIDE, left : left + SIDE]
    return found


def measure(pictures: dict[str, Array], *, keep: bool) -> dict[str, dict[str, Graded]]:
    """Task -> picture -> grades; what is known already is not measured again."""
    tasks = {f"inpaint, {kind}": (filled, kind) for kind in MASKS}
    tasks |= {f"enlarge by {kind}": (enlarged, kind) for kind in VIEWS}
    records: dict[str, dict[str, Graded]] = {}
    if keep and RECORDS.is_file():
        records = json.loads(RECORDS.read_text("utf-8"))
    for name, picture in pictures.items():
        for task, (run, kind) in tasks.items():
            known = records.setdefault(task, {})
            label = f"{name} {picture.shape[0]} x {picture.shape[1]}"
            if label in known:
                continue
            known[label] = run(picture, kind)
            ours = known[label][OURS]
            progress(f"{task}: {label}, {ours[0]:.2f} dB, {duration(ours[2])}")
            if keep:
                RECORDS.write_text(json.dumps(records, indent=1) + "\n", "utf-8")
    return records


# Output -----------------------------------------------------------------------------------------


def means(records: dict[str, dict[str, Graded]]) -> str:
    """One line a task and method: means over the pictures, and the gain over the best peer."""
    lines = []
    for task, known in records.items():
        grades = {
            way: np.array([one[way] for one in known.values()])
            for way in next(iter(known.values()))
        }
        mean = {way: part.mean(0) for way, part in grades.items()}
        peers = [way for way in mean if way != OURS]
        best = max(peers, key=lambda way: mean[way][0])
        gains = grades[OURS][:, 0] - grades[best][:, 0]
        for way, (psnr, ssim, seconds) in mean.items():
            gain = f"{gains.mean():+.2f} [{gains.min():+.2f}, {gains.max():+.2f}]"
            cells = [f"{psnr:.2f}", f"{ssim:.3f}", duration(seconds), gain if way == OURS else ""]
            lines.append([task, way, len(known), *cells])
    columns = [
        "task",
        "method",
        "pictures",
        "PSNR",
        "SSIM",
        "time",
        "gain over the best peer [range]",
    ]
    return table(columns, lines)


def every(records: dict[str, dict[str, Graded]]) -> str:
    """PSNR of all pictures, ours and the best peer's."""
    names = list(next(iter(records.values())))
    lines = []
    for name in names:
        cells = []
        for known in records.values():
            if name not in known:
                cells.append("")
                continue
            peer = max(grades[0] for way, grades in known[name].items() if way != OURS)
            cells.append(f"{known[name][OURS][0]:.2f} / {peer:.2f}")
        lines.append([name, *cells])
    return table(["PSNR, tensorae / best peer", *records], lines)


def main(arguments: argparse.Namespace) -> None:
    folder = arguments.data or os.environ.get("TENSORAE_PHOTOS")
    if folder is None:
        print("A folder of photographs is needed: --data, or TENSORAE_PHOTOS. Nothing is stored.")
        return
    pictures = read_pictures(Path(folder), whole=arguments.whole)
    if arguments.stored:
        pictures = {}
    if arguments.quick:
        pictures = {name: picture[:64, :64] for name, picture in list(pictures.items())[:2]}
    with limited_threads(arguments.threads):
        records = measure(pictures, keep=not arguments.quick)
        parts = (means(records), every(records))
        title = "Photographs: missing pixels, and larger ones"
        publish("photos_fill", title, *parts, quick=arguments.quick, data=records)


if __name__ == "__main__":
    options = parser(__doc__, threads=1)
    options.add_argument("--data", help="folder of PNG files")
    options.add_argument("--stored", action="store_true", help="tables of what is kept, no more")
    options.add_argument("--whole", action="store_true", help="do not cut pictures")
    main(options.parse_args())
