"""What is said about files holds for files that are streamed, too."""

import numpy as np
import pandas as pd
import pytest

from tensorae import load


@pytest.mark.parametrize(
    ("name", "header", "line", "flags"),
    [
        ("t.csv", "x, in m:y", "{:.6f}:{:.6f}", ["--delimiter", ":"]),
        ("t.data", "x, in m;y", "{:.6f};{:.6f}", ["--format", "csv", "--delimiter", ";"]),
        ("t.csv", "x, in m;y", "{:.6f};{:.6f}", ["--delimiter", ";", "--decimal", ","]),
        ("t.csv", "größe|y", "{:.6f}|{:.6f}", ["--encoding", "latin-1", "--na", "?"]),
    ],
)
def test_a_streamed_fit_reads_files_as_the_fit_in_memory_does(
    ran, tmp_path, rng, name, header, line, flags
):
    rows = [line.format(*row) for row in rng.normal(size=(60, 2))]
    text = "\n".join([header, *rows])
    if "--decimal" in flags:
        text = text.replace(".", ",")
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    models = []
    for stream in ([], ["--stream"]):
        path = tmp_path / f"m{len(stream)}.tae"
        ran("fit", tmp_path / name, "-k", 2, "-l", 1, "-o", path, *flags, *stream)
        models.append(load(path))
    in_memory, streamed = models
    assert list(streamed.feature_names_in_) == list(in_memory.feature_names_in_)
    assert len(streamed.feature_names_in_) == 2
    np.testing.assert_allclose(streamed.cluster_centers_, in_memory.cluster_centers_, rtol=1e-9)


def test_a_folder_of_many_parts_is_one_table_in_the_order_of_their_numbers(ran, tmp_path, rng):
    X = rng.normal(size=(36, 2))
    folder = tmp_path / "parts"
    folder.mkdir()
    for j in range(12):
        lines = [f"{a!r},{b!r}" for a, b in X[3 * j : 3 * j + 3].tolist()]
        (folder / f"part-{j + 1}.csv").write_text("\n".join(["a,b", *lines]))
    labels = []
    for stream in ([], ["--stream"]):
        path = tmp_path / "m.tae"
        ran("fit", folder, "-k", 2, "-l", 1, "-o", path, *stream)
        labels.append(load(path).labels_)
        np.testing.assert_array_equal(
            labels[-1], load(path).predict(pd.DataFrame(X, columns=["a", "b"]))
        )
    np.testing.assert_array_equal(*labels)
