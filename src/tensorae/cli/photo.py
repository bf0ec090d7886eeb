"""``tensorae photo denoise | inpaint | enlarge``: pictures in, pictures out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.options import with_options
from tensorae.cli.photo_files import Job, PhotoOptions, make_folder, mask_of
from tensorae.exceptions import InvalidInputError, TensoraeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorae.photos.files import Photo

__all__ = ["photo"]

ALPHA = "alpha"  # in place of a mask: transparent pixels are missing
EIGHT_BITS = 255

photo = typer.Typer(
    help="De-noise, fill and enlarge photographs, by themselves: nothing was trained.",
    epilog="Start with: tensorae photo denoise noisy.png -o clean.png --compare",
    no_args_is_help=True,
)

Show = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Done:
    """What a command made of one picture."""

    pixels: NDArray[Any]
    said: str  # for people
    facts: dict[str, Any]  # for scripts


@dataclass(frozen=True, eq=False)
class Task:
    """What to do with each picture.

    Attributes
    ----------
    doing : str
        For the progress bar.
    work : function
        Of a picture, its job and what takes progress.
    factor : int
        By how much pictures grow.
    opaque : bool
        Whether transparency is gone afterwards.
    """

    doing: str
    work: Callable[[Photo, Job, Show], Done]
    factor: int = 1
    opaque: bool = False


# Commands ---------------------------------------------------------------------------------------


@photo.command()
@with_options
def denoise(
    noise: Annotated[
        float | None,
        typer.Option(
            "--noise",
            help="Standard deviation of the noise where white is 255, also in 16-bit files.",
            show_default="estimated",
        ),
    ] = None,
    passes: Annotated[int, typer.Option("--passes", min=1, help="1 is faster, 2 is better.")] = 2,
    fast: Annotated[bool, typer.Option("--fast", help="A little less clean, much sooner.")] = False,
    *,
    options: PhotoOptions,
) -> None:
    """Take noise out of pictures; all else in the files stays as it was."""
    from tensorae import photos
    from tensorae.photos.images import ROUNDING

    _check_noise(noise)

    def work(picture: Photo, job: Job, show: Show) -> Done:
        unit = _unit(picture)
        sigma = photos.estimate_noise(picture.pixels) if noise is None else noise * unit
        facts = {"noise": sigma / unit, "estimated": noise is None}
        if noise is None and not sigma > (0 if picture.white is None else ROUNDING):
            options.messages.note(
                f"{job.label}: no noise was found, so that nothing changed; say how much there is "
                "by --noise."
            )
            return Done(picture.pixels, "no noise", facts)
        quality = "fast" if fast else "best"
        clean = photos.denoise(
            picture.pixels, sigma, passes=passes, quality=quality, n_jobs=options.jobs,
            progress=show,
        )  # fmt: skip
        scale = " of 255" * (picture.white is not None)
        said = f"noise {sigma / unit:.3g}{scale}" + " (estimated)" * (noise is None)
        return Done(clean, said, facts)

    _run(options, Task("de-noising", work))


@photo.command()
@with_options
def inpaint(
    mask: Annotated[
        str,
        typer.Option(
            "--mask",
            help="Picture that is black where nothing is missing; a folder of them, by name; or "
            "alpha: transparent pixels are missing.",
            show_default=False,
        ),
    ],
    noise: Annotated[
        float | None,
        typer.Option(
            "--noise",
            help="Also take this noise out of the other pixels, which stay as they are otherwise.",
            show_default="none",
        ),
    ] = None,
    grow: Annotated[
        int,
        typer.Option("--grow", min=0, help="Fill so many pixels around each missing one, too."),
    ] = 0,
    *,
    options: PhotoOptions,
) -> None:
    """Fill missing pixels: scratches, text, dust, holes of up to some 20 pixels."""
    from tensorae import photos

    _check_noise(noise)

    def work(picture: Photo, job: Job, show: Show) -> Done:
        missing = _grown(_missing(picture, job, mask), grow)
        count, share = int(missing.sum()), float(missing.mean())
        facts = {"n_filled": count, "share": share}
        if not count:
            options.messages.note(f"{job.label}: its mask marks no pixel, so that nothing changed.")
        sigma = None if noise is None else noise * _unit(picture)
        filled = photos.inpaint(picture.pixels, missing, sigma, n_jobs=options.jobs, progress=show)
        return Done(filled, f"filled {100 * share:.3g} % of the pixels", facts)

    masks = [] if mask == ALPHA else [Path(mask), *Path(mask).rglob("*")]
    _run(options, Task("filling", work, opaque=mask == ALPHA), masks)


@photo.command()
@with_options
def enlarge(
    factor: Annotated[
        int, typer.Option("--by", min=2, max=4, help="How many times: 2, 3 or 4.")
    ] = 2,
    blur: Annotated[
        float | None,
        typer.Option(
            "--blur",
            min=0,
            help="Standard deviation of the blur that the small picture was made with.",
            show_default="a usual one",
        ),
    ] = None,
    *,
    options: PhotoOptions,
) -> None:
    """Make pictures larger, with sharper edges than by interpolation."""
    from tensorae import photos

    def work(picture: Photo, job: Job, show: Show) -> Done:  # noqa: ARG001
        larger = photos.enlarge(
            picture.pixels, factor, blur=blur, n_jobs=options.jobs, progress=show
        )
        return Done(larger, f"{factor} times the size", {"factor": factor})

    _run(options, Task("enlarging", work, factor=factor))


# Flow -------------------------------------------------------------------------------------------


def _run(options: PhotoOptions, task: Task, others: Sequence[Path] = ()) -> None:
    """Work on one picture after the other; what is finished stays, whatever comes after it."""
    jobs = options.plan(others)
    results: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    try:
        for number, job in enumerate(jobs, start=1):
            place = f" ({number} of {len(jobs)})" * (len(jobs) > 1)
            try:
                results.append(_worked(options, task, job, f"{task.doing} {job.label}{place}"))
            except TensoraeError as error:
                if len(jobs) == 1:
                    raise
                failed.append({"input": str(job.source), "error": str(error)})
                options.messages.note(f"{job.label} is left out: {error}")
    except KeyboardInterrupt:
        if len(jobs) > 1:
            options.messages.note(f"{len(results)} of {len(jobs)} pictures are finished and kept.")
        raise
    options.messages.give({"pictures": results, "failed": failed})
    if failed:
        raise InvalidInputError(
            f"{len(failed)} of {len(jobs)} pictures could not be done, as said above; the others "
            "are written."
        )


def _worked(options: PhotoOptions, task: Task, job: Job, doing: str) -> dict[str, Any]:
    """Read, work, write and say so."""
    from tensorae.photos.files import (
        check_format,
        photo_format,
        read_photo,
        side_by_side,
        write_photo,
    )

    messages, before = options.messages, read_photo(job.source)
    frame = replace(before, alpha=None) if task.opaque else before
    width, height = (task.factor * side for side in before.size)
    lost = check_format(frame, photo_format(job.target), (width, height))
    for note in [*before.notes, *lost]:
        messages.note(f"{job.label}: {note}")
    with messages.warnings_as_notes(), messages.progress(doing) as show:
        done = task.work(before, job, show)
    after = frame.with_pixels(done.pixels)
    make_folder(job.target.parent)
    write_photo(job.target, after)
    if job.comparison is not None:
        write_photo(job.comparison, side_by_side(before, after))
    messages.say(f"Wrote {job.target}: {width} x {height}, {done.said}.")
    files = {"input": str(job.source), "output": str(job.target)}
    if job.comparison is not None:
        files["comparison"] = str(job.comparison)
    return {**files, "width": width, "height": height, **done.facts}


def _missing(picture: Photo, job: Job, mask: str) -> NDArray[Any]:
    """Which pixels (H, W) of a picture are missing."""
    from tensorae.photos.files import read_mask

    if mask != ALPHA:
        return read_mask(mask_of(job, Path(mask)), picture)
    if picture.alpha is None:
        raise InvalidInputError(
            f"{str(job.source)!r} must have transparent pixels where something is missing, got "
            "none at all; give a mask as a file: --mask mask.png."
        )
    missing: NDArray[Any] = picture.alpha < picture.alpha.dtype.type(picture.white or 1)
    return missing


def _grown(missing: NDArray[Any], pixels: int) -> NDArray[Any]:
    """Missing pixels (H, W) and those up to so many pixels away, since damage has soft edges."""
    if not pixels:
        return missing
    from scipy.ndimage import maximum_filter

    grown: NDArray[Any] = maximum_filter(missing, 2 * min(pixels, max(missing.shape)) + 1)
    return grown


def _check_noise(noise: float | None) -> None:
    if noise is not None and not (noise > 0 and math.isfinite(noise)):
        raise typer.BadParameter(
            f"must be a number above 0, got {noise:g}; leave it out to have it estimated.",
            param_hint="--noise",
        )


def _unit(picture: Photo) -> float:
    """What 1 of 255 is in a picture; floats of a TIFF file have units of their own."""
    return 1.0 if picture.white is None else picture.white / EIGHT_BITS
