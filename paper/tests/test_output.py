"""What a run leaves behind: pictures, a tidy table, and a page that needs nothing else."""

import base64
import csv
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest

from paper.experiment import Finding, ResultTable, Settings
from paper.output import Section, save_pictures, write_page
from paper.reproduction import FIGURES


class Page(HTMLParser):
    """Collects tags with their attributes, the text, and the tags that are still open."""

    VOID = ("meta", "img", "br", "link", "hr", "input")

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="session")
def html(tiny):
    return tiny.page.read_text("utf-8")


def test_every_number_is_in_the_tidy_table(tiny):
    with tiny.numbers.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["figure", "dataset", "method", "seed", "metric", "value", "seconds"]
    told = {
        (int(r["figure"]), r["dataset"], r["method"], int(r["seed"]), r["metric"]): (
            float(r["value"]),
            float(r["seconds"]),
        )
        for r in rows
    }
    assert len(told) == len(rows)
    known = {
        (number, r.trial.dataset, r.trial.method, r.trial.seed, metric): (value, r.seconds)
        for number, results in tiny.results.items()
        for r in results.all
        for metric, value in r.values.items()
    }
    assert set(told) == set(known)
    for key, (value, seconds) in known.items():
        np.testing.assert_allclose(told[key][0], value, rtol=1e-6)
        assert told[key][1] == pytest.approx(seconds, abs=1e-3)
    assert {key[0] for key in told} == {1, 2, 3, 4, 5, 8}


def test_tables_show_the_numbers_of_the_results(tiny, values_of):
    table = next(one for one in tiny.tables(4) if one.title == "Clustering, ARI")
    (row,) = [row for row in table.rows if row[0] == "iris"]
    cells = dict(zip(table.columns, row, strict=True))
    found = values_of(tiny.results[4], "iris", "ARI")
    for method, value in found.items():
        assert float(cells[method].strip("*")) == pytest.approx(value, abs=5e-4)
    best = max(found.values())
    for method, value in found.items():
        assert ("**" in cells[method]) == (best - value < 5e-4)


def test_every_figure_is_there_as_png_and_svg(tiny):
    pictures = [picture for section in tiny.sections for picture in section.pictures]
    names = {picture.stem for picture in pictures}
    assert names == {
        "figure1_simpson", "figure2_planted_scatter", "figure2_planted_bars", "figure3_penguins",
        "figure4_clustering", "figure5_denoising", "figure5b_normalised", "figure6_diagram",
        "figure8_em",
    }  # fmt: skip
    for picture in pictures:
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG")
        if picture.stem != "figure2_planted_scatter":  # as wide as there are data sets
            assert int.from_bytes(content[16:20], "big") >= 1200  # pixels: fit for a slide
        root = ET.fromstring(picture.with_suffix(".svg").read_text("utf-8"))
        assert root.tag.endswith("svg")


def test_equal_figures_are_equal_files(tiny, tmp_path):
    for name in ("one", "other"):
        save_pictures(FIGURES[6], tiny.results[6], tmp_path / name)
    for suffix in ("png", "svg"):
        file = f"figure6_diagram.{suffix}"
        one, other = ((tmp_path / name / file).read_bytes() for name in ("one", "other"))
        assert one == other


def test_bars_are_means_with_spread_over_the_seeds():
    from paper.drawing import bars, canvas

    _, ((ax,),) = canvas()
    values = np.array([0.2, 0.4, 0.9])
    bars(ax, ["iris", "wine"], {"TAE": [values, np.array([])], "AE1": [values + 1, values]})
    heights = sorted(patch.get_height() for patch in ax.patches)
    assert heights == pytest.approx([0.5, 0.5, 1.5])
    whisker = ax.containers[1].lines[2][0].get_segments()[0][:, 1]
    assert whisker == pytest.approx([0.5 - values.std(), 0.5 + values.std()])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["iris", "wine"]


def test_the_page_holds_together_and_needs_nothing_else(html, tiny):
    page = Page(html)
    assert page.open == []
    links = [
        value
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "action", "data")
    ]
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in links)
    assert not re.search(r"url\(|@import|<script|<link", html)
    anchors = {attributes.get("id") for _, attributes in page.tags}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors


def test_pictures_in_the_page_are_the_files(html, tiny):
    images = [attributes for tag, attributes in Page(html).tags if tag == "img"]
    assert all(image["alt"] for image in images)
    embedded = [base64.b64decode(image["src"].partition(",")[2]) for image in images]
    files = [picture.read_bytes() for section in tiny.sections for picture in section.pictures]
    assert embedded == files


def test_the_page_tells_claims_findings_tables_and_how_it_was_made(html, tiny):
    text = " ".join(Page(html).text.split())
    for section in tiny.sections:
        assert section.title in text
        for finding in section.findings:
            for words in (finding.claim, finding.seen, finding.verdict):
                assert " ".join(words.split()) in text
        for table in section.tables:
            assert table.title in text
            for cell in (cell for row in table.rows for cell in row):
                assert cell.strip("*") in text
    assert "1 seed for each method" in text
    assert "iris (scikit-learn)" in text
    assert "triangle (drawn anew for each seed)" in text
    assert "150 x 5" in text
    assert "“Published”" not in text


def test_text_is_escaped_and_the_best_cell_stands_out(tmp_path):
    nasty = '<script>alert("&")</script>'
    section = Section(
        1, nasty, nasty, [], [ResultTable(nasty, [nasty], [[nasty, "**0.9**"]])],
        [Finding(nasty, nasty, [False])],
    )  # fmt: skip
    file = write_page(tmp_path / "page.html", nasty, [section], Settings(), [], 1.0)
    html = file.read_text("utf-8")
    page = Page(html)
    assert "script" not in [tag for tag, _ in page.tags]
    assert page.text.count(nasty) >= 7
    assert "<strong>0.9</strong>" in html
    assert "**" not in html
    assert 'class="verdict no"' in html


def test_a_quick_run_says_that_it_is_no_measurement(tmp_path):
    pages = [
        write_page(tmp_path / "page.html", "t", [], Settings(quick=quick), [], 1.0).read_text()
        for quick in (True, False)
    ]
    assert ["rather than a measurement" in page for page in pages] == [True, False]
