"""``tensorae photo denoise | inpaint | enlarge``: photographs in, photographs out."""

from __future__ import annotations

import glob
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.messages import Messages
from tensorae.cli.options import parsed, with_options
from tensorae.exceptions import FileWriteError, InvalidInputError, TensoraeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorae.photos.files import Photo

ALPHA = "alpha"  # in place of a mask: transparent pixels are missing
EIGHT_BITS = 255
# Seconds from which on it is said beforehand how long a picture takes.
LONG = 20.0

photo = typer.Typer(
    help="Denoise, inpaint and enlarge photographs; no training data is needed.",
    epilog="Start with: tensorae photo denoise noisy.png -o clean.png --compare",
    no_args_is_help=True,
)

Progress = Callable[[int, int], None]
Facts = dict[str, Any]


# Which file becomes which -----------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One photograph to read, and what to write."""

    source: Path
    target: Path
    comparison: Path | None
    label: str  # path inside the folder that was given, or the name of the file


@dataclass(frozen=True)
class PhotoOptions:
    """Which photographs to process, and where results go."""

    files: Annotated[
        list[str],
        typer.Argument(
            metavar="PICTURES",
            help="PNG, JPEG, TIFF or WebP files, or folders of them.",
            show_default=False,
        ),
    ]
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="File to write; for several pictures a folder, in which they keep their names.",
            show_default=False,
        ),
    ]
    messages: Messages
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Also write before and after side by side: …-compare.png."),
    ] = False
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Number of parallel jobs.", show_default="one per core"),
    ] = None
    force: Annotated[
        bool, typer.Option("--force", help="Allow a result to replace its own input file.")
    ] = False

    def plan(self, others: Sequence[Path] = ()) -> list[Job]:
        """Decide what becomes what, and refuse what cannot or must not be written.

        ``others`` are files that are read besides, such as masks.
        """
        from tensorae.photos.files import photo_format

        root = Path(self.output)
        several = len(self.files) > 1 or any(Path(entry).is_dir() for entry in self.files)
        named = self.output.endswith(("/", os.sep)) or root.is_dir()
        folder = named or (several and not root.suffix)
        found: dict[Path, tuple[Path, str]] = {}
        for entry in self.files:
            for path, label in _find(entry, root if folder else None):
                if path.exists():  # a missing file is reported when it is read
                    photo_format(path)
                found.setdefault(path.absolute(), (path, label))
        if (several or len(found) > 1) and not folder:
            raise typer.BadParameter(
                f"must be a folder for several pictures, got {self.output!r}; add a / at the end.",
                param_hint="--output",
            )
        jobs = []
        for path, label in found.values():
            target = root / label if folder else root
            comparison = target.with_name(f"{target.stem}-compare.png") if self.compare else None
            jobs.append(Job(path, target, comparison, label))
        self._check_targets(jobs, others, folder=folder)
        return jobs

    def _check_targets(self, jobs: Sequence[Job], others: Sequence[Path], *, folder: bool) -> None:
        """Refuse to write twice to a file, over what is read, or where it is impossible."""
        from tensorae._files import check_writable, find_same
        from tensorae.photos.files import photo_format

        taken: dict[Path, Job] = {}
        for job in jobs:
            for path in filter(None, (job.target, job.comparison)):
                other = taken.setdefault(path, job)
                if other is not job:
                    raise InvalidInputError(
                        f"{str(other.source)!r} and {str(job.source)!r} would both be written to "
                        f"{str(path)!r}; write them to two folders."
                    )
        sources = [job.source for job in jobs]
        for job in jobs:
            itself = find_same([job.target], [job.source]) is not None
            if itself and not self.force:
                raise typer.BadParameter(
                    f"must not replace the input, got {str(job.target)!r}; choose another name, "
                    "or --force to replace it.",
                    param_hint="--output",
                )
            written = [job.comparison] if itself else [job.target, job.comparison]
            same = find_same([path for path in written if path], [*sources, *others])
            if same is not None:
                raise typer.BadParameter(
                    f"must not replace another input file, got {str(same)!r}; write to another "
                    "folder.",
                    param_hint="--output",
                )
        for job in jobs:
            photo_format(job.target)
        for path in taken:
            if path.parent.is_dir() or not folder:  # other folders are made when needed
                check_writable(path)


def _find(entry: str, output: Path | None) -> list[tuple[Path, str]]:
    """Photographs of a name, folder or pattern, and what to call each."""
    from tensorae.data.files import natural_order
    from tensorae.photos.files import EXTENSIONS, FORMATS

    folder = Path(entry)
    if not folder.is_dir():
        matches: list[str] = []
        if not folder.exists() and glob.has_magic(entry):  # a pattern that no shell expanded
            matches = sorted(glob.glob(entry, recursive=True), key=natural_order)  # noqa: PTH207
        return [(Path(match), Path(match).name) for match in matches or [entry]]
    # Without hidden files, and without results of an earlier run.
    results = None if output is None else output.absolute()
    in_place = results == folder.absolute()
    found = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower().removeprefix(".") in FORMATS
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and (in_place or results not in path.absolute().parents)
        and path.is_file()
    ]
    if not found:
        raise InvalidInputError(
            f"the folder {entry!r} contains no {EXTENSIONS} files; choose another."
        )
    return [(path, str(path.relative_to(folder))) for path in sorted(found, key=natural_order)]


# Commands ---------------------------------------------------------------------------------------


def positive_number(text: str) -> float:
    """Read a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise typer.BadParameter(f"must be a number above 0, got {text!r}.")
    return value


@photo.command()
@with_options
def denoise(
    noise: Annotated[
        Any,
        parsed(
            positive_number,
            "--noise",
            metavar="<float>",
            help="Standard deviation of the noise if white is 255, also in 16-bit files.",
            show_default="estimated",
        ),
    ] = None,
    passes: Annotated[
        int | None, typer.Option("--passes", min=1, help="1 is faster, 2 is better (the default).")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Much faster, slightly worse.")] = False,
    strength: Annotated[
        float, typer.Option("--strength", min=0, max=1, help="Share of the noise to remove.")
    ] = 1.0,
    jpeg: Annotated[
        bool | None,
        typer.Option(
            "--jpeg/--no-jpeg",
            help="Whether pictures were ever compressed as JPEG.",
            show_default="detected",
        ),
    ] = None,
    *,
    options: PhotoOptions,
) -> None:
    """Remove noise from photographs; everything else in the files is kept."""
    from tensorae import photos
    from tensorae.photos.images import ROUNDING

    def work(picture: Photo, job: Job, progress: Progress) -> tuple[NDArray[Any], str, Facts]:
        unit = _unit(picture)
        model = sigma = None if noise is None else noise * unit
        if sigma is None:
            model = photos.estimate_noise(picture.pixels, jpeg=jpeg)
            sigma = model.sigma
        facts = {"noise": sigma / unit, "estimated": noise is None}
        if noise is None and not sigma > (0 if picture.white is None else ROUNDING):
            options.messages.note(
                f"{job.label}: no noise was found and nothing changed; set the noise by --noise."
            )
            return picture.pixels, "no noise", facts
        clean = photos.denoise(
            picture.pixels,
            model,
            strength=strength,
            passes=passes,
            quality="fast" if fast else "best",
            n_jobs=options.jobs,
            progress=progress,
        )
        scale = " of 255" * (picture.white is not None)
        return clean, f"noise {sigma / unit:.3g}{scale}{' (estimated)' * (noise is None)}", facts

    _run(options, Task("denoising", work))


@photo.command()
@with_options
def inpaint(
    mask: Annotated[
        str,
        typer.Option(
            "--mask",
            help="Mask: a picture that is black where nothing is missing; a folder of masks with "
            "the names of the pictures; or alpha: transparent pixels are missing.",
            show_default=False,
        ),
    ],
    noise: Annotated[
        Any,
        parsed(
            positive_number,
            "--noise",
            metavar="<float>",
            help="Also remove this noise from the other pixels, which else stay as they are.",
            show_default="none",
        ),
    ] = None,
    grow: Annotated[
        int, typer.Option("--grow", min=0, help="Grow the mask by this many pixels.")
    ] = 0,
    *,
    options: PhotoOptions,
) -> None:
    """Fill missing pixels: scratches, text, dust, holes of up to about 20 pixels."""
    from tensorae import photos

    def work(picture: Photo, job: Job, progress: Progress) -> tuple[NDArray[Any], str, Facts]:
        missing = _missing(picture, job, mask)
        if grow:
            from scipy.ndimage import maximum_filter

            missing = maximum_filter(missing, 2 * min(grow, max(missing.shape)) + 1)
        count, share = int(missing.sum()), float(missing.mean())
        if not count:
            options.messages.note(f"{job.label}: the mask is empty and nothing changed.")
        sigma = None if noise is None else noise * _unit(picture)
        filled = photos.inpaint(
            picture.pixels, missing, sigma, n_jobs=options.jobs, progress=progress
        )
        facts = {"n_filled": count, "share": share}
        return filled, f"filled {100 * share:.3g} % of the pixels", facts

    masks = [] if mask == ALPHA else [Path(mask), *Path(mask).rglob("*")]
    _run(options, Task("inpainting", work, opaque=mask == ALPHA), masks)


@photo.command()
@with_options
def enlarge(
    factor: Annotated[int, typer.Option("--by", min=2, max=4, help="Factor: 2, 3 or 4.")] = 2,
    blur: Annotated[
        float | None,
        typer.Option(
            "--blur",
            min=0,
            help="Standard deviation of the blur with which the small picture was made.",
            show_default="none",
        ),
    ] = None,
    *,
    options: PhotoOptions,
) -> None:
    """Enlarge photographs, with sharper edges than by interpolation."""
    from tensorae import photos

    def work(picture: Photo, job: Job, progress: Progress) -> tuple[NDArray[Any], str, Facts]:  # noqa: ARG001
        larger = photos.enlarge(
            picture.pixels, factor, blur=blur, n_jobs=options.jobs, progress=progress
        )
        return larger, f"{factor} times the size", {"factor": factor}

    _run(options, Task("enlarging", work, factor=factor))


# Flow -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Task:
    """What to do with each photograph."""

    name: str  # for the progress bar
    # Of a photograph, its job and a progress function: pixels, a summary and facts.
    work: Callable[[Photo, Job, Progress], tuple[NDArray[Any], str, Facts]]
    factor: int = 1  # by which photographs grow
    opaque: bool = False  # whether transparency is removed


def _run(options: PhotoOptions, task: Task, others: Sequence[Path] = ()) -> None:
    """Process one photograph after the other; finished ones stay, whatever comes later."""
    jobs = options.plan(others)
    results: list[Facts] = []
    failed: list[dict[str, str]] = []
    try:
        for number, job in enumerate(jobs, start=1):
            place = f" ({number} of {len(jobs)})" * (len(jobs) > 1)
            try:
                results.append(_process(options, task, job, f"{task.name} {job.label}{place}"))
            except TensoraeError as error:
                if len(jobs) == 1:
                    raise
                failed.append({"input": str(job.source), "error": str(error)})
                options.messages.note(f"{job.label} failed: {error}")
    except KeyboardInterrupt:
        if len(jobs) > 1:
            options.messages.note(f"{len(results)} of {len(jobs)} pictures are finished and kept.")
        raise
    options.messages.give({"pictures": results, "failed": failed})
    if failed:
        raise InvalidInputError(
            f"{len(failed)} of {len(jobs)} pictures failed, see the notes above; the others are "
            "written."
        )


def _process(options: PhotoOptions, task: Task, job: Job, title: str) -> Facts:
    """Read a photograph, process it, write it and say so."""
    from tensorae.photos.files import (
        check_format,
        photo_format,
        read_photo,
        side_by_side,
        write_photo,
    )
    from tensorae.photos.images import check_jobs

    messages, before = options.messages, read_photo(job.source)
    frame = replace(before, alpha=None) if task.opaque else before
    width, height = (task.factor * side for side in before.size)
    lost = check_format(frame, photo_format(job.target), (width, height))
    for note in [*before.notes, *lost]:
        messages.note(f"{job.label}: {note}")
    with messages.warnings_as_notes(), messages.progress(title) as show:
        progress = _with_forecast(show, check_jobs(options.jobs), messages, job.label)
        pixels, summary, facts = task.work(before, job, progress)
    after = frame.with_pixels(pixels)
    try:
        job.target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileWriteError(
            f"cannot create the folder {str(job.target.parent)!r} ({error.strerror}); choose "
            "another."
        ) from None
    write_photo(job.target, after)
    if job.comparison is not None:
        write_photo(job.comparison, side_by_side(before, after))
    messages.say(f"Wrote {job.target}: {width} x {height}, {summary}.")
    files = {"input": str(job.source), "output": str(job.target)}
    if job.comparison is not None:
        files["comparison"] = str(job.comparison)
    return {**files, "width": width, "height": height, **facts}


def _with_forecast(show: Progress, n_jobs: int, messages: Messages, label: str) -> Progress:
    """Also say how long a picture will take, as soon as the first tiles are finished."""
    began = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal began
        show(done, total)
        if done == 0:
            began = time.monotonic()
        elif done == min(n_jobs, total):
            seconds = (time.monotonic() - began) * total / done
            if seconds >= LONG and done < total:
                messages.note(f"{label}: this takes about {_in_words(seconds)}.")

    return progress


def _in_words(seconds: float) -> str:
    """Say a time that is a guess: "40 seconds", "3 minutes"."""
    if seconds < 100:
        return f"{10 * round(seconds / 10)} seconds"
    return f"{round(seconds / 60)} minutes"


def _missing(picture: Photo, job: Job, mask: str) -> NDArray[Any]:
    """Which pixels (H, W) of a photograph are missing."""
    from tensorae.photos.files import FORMATS, read_mask

    if mask == ALPHA:
        if picture.alpha is None:
            raise InvalidInputError(
                f"{str(job.source)!r} must have transparent pixels, got none; give a mask file: "
                "--mask mask.png."
            )
        missing: NDArray[Any] = picture.alpha < picture.alpha.dtype.type(picture.white or 1)
        return missing
    path = Path(mask)
    if path.is_dir():
        wanted = path / job.label
        endings = [wanted.suffix, *(f".{ending}" for ending in FORMATS)]
        found = [other for end in endings if (other := wanted.with_suffix(end)).is_file()]
        if not found:
            raise InvalidInputError(
                f"{str(job.source)!r} needs a mask of the same name in {mask!r}, got none; add "
                f"{wanted.with_suffix('.png').name!r}, or leave out the picture."
            )
        path = found[0]
    return read_mask(path, picture)


def _unit(picture: Photo) -> float:
    """What 1 of 255 is in a photograph; floats of a TIFF file have units of their own."""
    return 1.0 if picture.white is None else picture.white / EIGHT_BITS
