"""Python that does the same again, and runs as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorae.data import ReadOptions, Table

__all__ = ["Source", "code_for"]


@dataclass(frozen=True)
class Source:
    """Where a table came from, and what ``explore`` was told."""

    paths: tuple[str, ...] = ()  # none where it was in memory
    kind: str = "table"  # or "array"
    arguments: Mapping[str, Any] = field(default_factory=dict)  # that are not the defaults
    options: ReadOptions = field(default_factory=ReadOptions)

    @classmethod
    def of(
        cls, data: Any, table: Table, arguments: Mapping[str, Any], options: ReadOptions | None
    ) -> Source:
        """What a user handed over, and the table that was read."""
        entries = data if isinstance(data, list | tuple) else [data]
        known = all(isinstance(entry, str | Path) for entry in entries)
        paths = tuple(map(str, entries)) if known and "-" not in entries else ()
        kind = "table" if table.samples is None else "array"
        return cls(paths, kind, arguments, options or ReadOptions())


def code_for(source: Source) -> str:
    """Write the lines.

    Parameters
    ----------
    source : Source

    Returns
    -------
    str
    """
    imports, lines = ["from tensorae import explore"], []
    name = "X" if source.kind == "array" else "table"
    if source.paths:
        what = source.paths[0] if len(source.paths) == 1 else list(source.paths)
        lines.append(f"{name} = {what!r}")
    else:
        lines.append(f"# {name}: the {source.kind} that was explored")
    given = [f"{key}={value!r}" for key, value in source.arguments.items()]
    if source.paths and source.options != ReadOptions():
        imports.append("from tensorae.data import ReadOptions")
        usual = vars(ReadOptions())
        said = [
            f"{key}={value!r}" for key, value in vars(source.options).items() if value != usual[key]
        ]
        given.append(f"options=ReadOptions({', '.join(said)})")
    lines += [
        f"found = explore({', '.join([name, *given])})",
        "clusters = found.labels",
        "centers = found.model.cluster_centers_",
        "# found.model.predict(new_rows) takes a table like this one, in its own units",
    ]
    return "\n".join([*imports, "", *lines])
