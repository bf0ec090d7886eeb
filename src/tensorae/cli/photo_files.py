"""Which pictures are meant, and which file each becomes; nothing that is read is lost."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tensorae.cli.messages import Messages
from tensorae.exceptions import FileWriteError, InvalidInputError

__all__ = ["Job", "PhotoOptions", "make_folder", "mask_of"]


@dataclass(frozen=True)
class Job:
    """One picture to read, and what to write."""

    source: Path
    target: Path
    comparison: Path | None
    label: str  # path below the folder that was given, or the name of the file


@dataclass(frozen=True)
class PhotoOptions:
    """Which pictures to work on, and where results go."""

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
            help="File to write; a folder for several pictures, which keep their names.",
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
        typer.Option("--jobs", min=1, help="Tiles side by side.", show_default="one per core"),
    ] = None
    force: Annotated[
        bool, typer.Option("--force", help="Let results replace the very files that are read.")
    ] = False

    def plan(self, others: Sequence[Path] = ()) -> list[Job]:
        """Say what becomes what, and refuse what cannot or must not be written.

        ``others`` are files that are read besides, such as masks.
        """
        pairs = _found(self.files, self.is_folder, Path(self.output))
        folder = self.is_folder or self.several or len(pairs) > 1
        if folder and not self.is_folder:
            raise typer.BadParameter(
                "it must be a folder where several pictures or folders are given, got "
                f"{self.output!r}; end it with a /.",
                param_hint="--output",
            )
        root = Path(self.output)
        jobs = [self._job(path, label, root / label if folder else root) for path, label in pairs]
        _refuse_same_targets(jobs)
        self._refuse_replacing(jobs, others)
        _refuse_unwritable(jobs, made=folder)
        return jobs

    @property
    def is_folder(self) -> bool:
        """Whether results go to a folder, or to one that is to be made."""
        named = self.output.endswith(("/", os.sep)) or Path(self.output).is_dir()
        return named or (self.several and not Path(self.output).suffix)

    @property
    def several(self) -> bool:
        """Whether several pictures are named, or a folder, whatever is in it."""
        return len(self.files) > 1 or any(Path(entry).is_dir() for entry in self.files)

    def _job(self, source: Path, label: str, target: Path) -> Job:
        comparison = target.with_name(f"{target.stem}-compare.png") if self.compare else None
        return Job(source, target, comparison, label)

    def _refuse_replacing(self, jobs: Sequence[Job], others: Sequence[Path]) -> None:
        """Refuse to write over what is read; --force lets a picture replace itself."""
        from tensorae._files import find_same

        sources = [job.source for job in jobs]
        for job in jobs:
            itself = find_same([job.target], [job.source]) is not None
            if itself and not self.force:
                raise typer.BadParameter(
                    f"it must not replace what is read, got {str(job.target)!r}; give another "
                    "name, or --force to replace it.",
                    param_hint="--output",
                )
            written = [job.comparison] if itself else [job.target, job.comparison]
            same = find_same([path for path in written if path], [*sources, *others])
            if same is not None:
                raise typer.BadParameter(
                    f"it must not replace another file that is read, got {str(same)!r}; write to "
                    "another folder.",
                    param_hint="--output",
                )


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they do not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileWriteError(
            f"cannot make the folder {str(folder)!r} ({error.strerror}); choose another."
        ) from None


def mask_of(job: Job, masks: Path) -> Path:
    """File of the mask of a picture: the one that was named, or that of its name in a folder."""
    from tensorae.photos.files import FORMATS

    if not masks.is_dir():
        return masks
    wanted = masks / job.label
    endings = [wanted.suffix, *(f".{ending}" for ending in FORMATS)]
    found = next((path for end in endings if (path := wanted.with_suffix(end)).is_file()), None)
    if found is None:
        raise InvalidInputError(
            f"{str(job.source)!r} needs a mask of its name in {str(masks)!r}, got none; add "
            f"{wanted.with_suffix('.png').name!r}, or leave the picture out."
        )
    return found


# Finding ----------------------------------------------------------------------------------------


def _found(entries: Sequence[str], folder: bool, output: Path) -> list[tuple[Path, str]]:
    """Pictures behind names, folders and patterns, and what to call each; none twice."""
    from tensorae.photos.files import photo_format

    found: dict[Path, tuple[Path, str]] = {}
    for entry in entries:
        for path, label in _behind(entry, output if folder else None):
            if path.exists():  # what is missing is named as such when it is read
                photo_format(path)
            found.setdefault(path.absolute(), (path, label))
    return list(found.values())


def _behind(entry: str, output: Path | None) -> Iterable[tuple[Path, str]]:
    from tensorae.data.files import natural_order

    path = Path(entry)
    if path.is_dir():
        return [(below, str(below.relative_to(path))) for below in _inside(path, output)]
    if not path.exists() and glob.has_magic(entry):  # where no shell has looked at it before
        matches = sorted(glob.glob(entry, recursive=True), key=natural_order)  # noqa: PTH207
        if matches:
            return [(Path(match), Path(match).name) for match in matches]
    return [(path, path.name)]


def _inside(folder: Path, output: Path | None) -> list[Path]:
    """Pictures below a folder, without hidden ones, and without results of an earlier run."""
    from tensorae.data.files import natural_order
    from tensorae.photos.files import EXTENSIONS, FORMATS

    results = None if output is None else output.absolute()
    inside_itself = results == folder.absolute()
    found = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower().removeprefix(".") in FORMATS
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and (inside_itself or results not in path.absolute().parents)
        and path.is_file()
    ]
    if not found:
        raise InvalidInputError(
            f"the folder {str(folder)!r} has no pictures; name one with {EXTENSIONS} files."
        )
    return sorted(found, key=natural_order)


# Refusing ---------------------------------------------------------------------------------------


def _refuse_same_targets(jobs: Sequence[Job]) -> None:
    """Refuse two results of one name."""
    taken: dict[Path, Job] = {}
    for job in jobs:
        for path in (job.target, job.comparison):
            other = taken.setdefault(path, job) if path else job
            if other is not job:
                raise InvalidInputError(
                    f"{str(other.source)!r} and {str(job.source)!r} would both be written to "
                    f"{str(path)!r}; write them to two folders."
                )


def _refuse_unwritable(jobs: Sequence[Job], *, made: bool) -> None:
    """Refuse endings that tell no kind of file, and places that cannot be written to.

    Folders that do not exist are no hindrance where they are made as they are needed.
    """
    from tensorae._files import check_writable
    from tensorae.photos.files import photo_format

    for job in jobs:
        photo_format(job.target)
    for job in jobs:
        for path in (job.target, job.comparison):
            if path is not None and (path.parent.is_dir() or not made):
                check_writable(path)
