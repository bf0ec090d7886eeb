"""One record for each finished run of the comparison with peers, in a file that can be added to."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from _common import cpu_model

import tensorae

Array = np.ndarray
Record = dict[str, Any]

# Runs that differ in one of these are not comparable.
SAME = ("processor", "threads", "tensorae", "scikit-learn", "torch")


def circumstances() -> Record:
    """Describe the machine and what is installed on it."""
    return {
        "processor": f"{cpu_model()}, {os.cpu_count()} cores",
        "threads": torch.get_num_threads(),
        "tensorae": tensorae.__version__,
        "scikit-learn": sklearn.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "Python": platform.python_version(),
    }


def version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def data_digest(X: Array, y: Array) -> str:
    """Return a short name of rows and classes: MNIST, for one, comes from several sources."""
    digest = hashlib.blake2b(digest_size=6)
    for array in (X, y):
        digest.update(f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(array).data)
    return digest.hexdigest()


class Records:
    """Finished runs by set, method and seed.

    Parameters
    ----------
    file : path
        A JSON list of records. It may hold runs of other machines and versions, which are neither
        shown nor reused: the same run made here takes their place.
    """

    def __init__(self, file: Path) -> None:
        self.file, self.here = file, circumstances()
        # Methods take turns within a session: times of one session are the best to compare.
        self.session = datetime.datetime.now().isoformat(timespec="seconds")

    def read(self) -> list[Record]:
        if not self.file.is_file():
            return []
        records: list[Record] = json.loads(self.file.read_text(encoding="utf-8"))
        return records

    def shown(self) -> list[Record]:
        """Return the runs to compare: made in these circumstances, on the data used last."""
        alike = [record for record in self.read() if self._is_alike(record)]
        last_data = {record["set"]: record["data"] for record in alike}
        return [record for record in alike if record["data"] == last_data[record["set"]]]

    def has(self, name: str, method: str, seed: int, data: str) -> bool:
        """Whether a run is finished, in these circumstances and on these data."""
        return any(
            (record["set"], record["method"], record["seed"], record["data"])
            == (name, method, seed, data)
            for record in self.read()
            if self._is_alike(record)
        )

    def keep(self, record: Record) -> None:
        """Add a run, in place of an earlier one; another process may have added some too."""
        others = [other for other in self.read() if _key(other) != _key(record)]
        self._write([*others, {**record, "session": self.session, **self.here}])

    def forget(self, sets: Collection[str], methods: Collection[str]) -> None:
        """Drop the runs of these methods on these sets."""
        self._write(
            [
                record
                for record in self.read()
                if record["set"] not in sets or record["method"] not in methods
            ]
        )

    def _is_alike(self, record: Record) -> bool:
        return all(record[name] == self.here[name] for name in SAME)

    def _write(self, records: list[Record]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.file.with_suffix(".tmp")
        draft.write_text(json.dumps(records, indent=0, ensure_ascii=False), encoding="utf-8")
        draft.replace(self.file)


def _key(record: Record) -> tuple[str, str, int]:
    return record["set"], record["method"], record["seed"]
