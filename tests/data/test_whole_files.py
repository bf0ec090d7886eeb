"""Excel files and JSON lines are the same rows as the table they were written from."""

import json

import numpy as np
import pandas as pd
import pytest

from tensorae import Batches
from tensorae.data import ReadOptions, as_table
from tensorae.exceptions import InvalidInputError

openpyxl = pytest.importorskip("openpyxl")


@pytest.fixture
def frame(rng):
    table = pd.DataFrame(
        {
            "a": rng.randn(50).round(3),
            "n": rng.randint(0, 9, 50),
            "kind": rng.choice(["x", "y"], 50),
            "day": pd.date_range("2024-01-01", periods=50),
        }
    )
    table.loc[3, "a"] = np.nan
    table.loc[5, "kind"] = None
    return table


def test_an_excel_sheet_is_a_table(frame, tmp_path):
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as book:
        frame.to_excel(book, sheet_name="data", index=False)
        frame[:10].to_excel(book, sheet_name="few", index=False)
    found = as_table(path)
    assert found.columns == list(frame)
    assert [found.profile(name).kind for name in found.columns] == ["number"] * 2 + ["text", "date"]
    np.testing.assert_array_equal(found.frame["a"].to_numpy(), frame["a"])
    assert found.frame["kind"].to_pylist()[5] is None
    assert as_table(path, ReadOptions(sheet="few")).n_rows == 10
    batches = Batches(path, columns=["n"], batch_rows=8)
    np.testing.assert_array_equal(np.concatenate(list(batches))[:, 0], frame["n"])
    with pytest.raises(InvalidInputError, match="sheet"):
        as_table(path, ReadOptions(sheet="none"))


def test_headings_and_rows_may_be_missing_in_excel(tmp_path):
    book = openpyxl.Workbook()
    for row in ([], ["a", None, "c"], [1, "x", 2.5], [2, 3, None], []):
        book.active.append(row)
    book.save(tmp_path / "odd.xlsx")
    found = as_table(tmp_path / "odd.xlsx").frame
    assert found.to_pydict() == {"a": [1, 2], "column 2": ["x", "3"], "c": [2.5, None]}


@pytest.mark.parametrize("ending", [".jsonl", ".ndjson", ".jsonl.gz"])
def test_json_lines_are_a_table(frame, tmp_path, ending):
    path = tmp_path / f"rows{ending}"
    frame.drop(columns="day").to_json(path, orient="records", lines=True)
    found = as_table(path)
    np.testing.assert_allclose(found.frame["a"].to_numpy(), frame["a"])
    assert found.frame["kind"].to_pylist()[:5] == frame["kind"].tolist()[:5]


def test_nested_values_are_no_numbers(tmp_path):
    lines = [{"a": i, "b": {"c": i}} for i in range(12)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = as_table(tmp_path / "rows.jsonl")
    assert found.profile("b").kind == "other"


@pytest.mark.parametrize(("name", "content"), [("a.xlsx", b"no zip"), ("a.jsonl", b"{no json")])
def test_damaged_files_are_one_sentence(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInputError, match=name):
        as_table(tmp_path / name)


def test_lazy_frames_are_collected(frame):
    pl = pytest.importorskip("polars")
    lazy = pl.from_pandas(frame[["a", "n"]]).lazy()
    assert as_table(lazy).n_rows == 50
