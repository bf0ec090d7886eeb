"""The Python blocks of README and documentation run as they stand; the reference is complete."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SLOW = ("images.md",)  # embeds by UMAP, which is compiled for ten seconds
MADE = {"_build", "gallery", "generated"}  # by the documentation build
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in MADE),
]
PUBLIC = (
    "tensorae",
    "tensorae.datasets",
    "tensorae.exceptions",
    "tensorae.export",
    "tensorae.inspect",
    "tensorae.photos",
    "tensorae.plot",
)
NOT_LISTED = {"tensorae.__version__"}


def blocks_of(page):
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def listed_in_reference():
    """Full names of all entries of the reference, with the module that each list names."""
    names, module = set(), ""
    for line in (DOCS / "api.rst").read_text("utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
        elif re.fullmatch(r"   [A-Za-z][\w.]*", line):
            names.add(f"{module}.{line.strip()}")
    return names


@pytest.fixture
def no_open_figures():
    yield
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")


@pytest.fixture
def short_training(monkeypatch):
    """Whether a block runs does not depend on how long its networks train."""
    from tensorae import TAE

    fit = TAE.fit

    def fit_shortly(model, *arguments, **options):
        model.max_epochs = min(model.max_epochs or 3, 3)
        return fit(model, *arguments, **options)

    monkeypatch.setattr(TAE, "fit", fit_shortly)


@pytest.mark.usefixtures("no_open_figures", "short_training")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.quality if page.name in SLOW else ())
        for page in PAGES
        if blocks_of(page)
    ],
    ids=name_of,
)
def test_every_python_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # pages may write files
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks_of(page), start=1):
        exec(compile(block, f"{page.name}, python block {number}", "exec"), namespace)


def test_there_are_blocks_to_run():
    assert {
        "README.md",
        "docs/index.md",
        "docs/custom_architectures.md",
        "docs/guide/how_many.md",
        "docs/extend/assignment_rule.md",
    } <= {name_of(page) for page in PAGES if blocks_of(page)}


def links_of(page):
    """Relative links of a page, pictures included, without what stands after a #."""
    found = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    return [link for link in found if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    assert all((page.parent / link).exists() for link in links_of(page)), links_of(page)


def test_the_readme_can_be_read_in_a_minute():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120
    assert "docs/guide/index.md" in links_of(ROOT / "README.md")


def test_pictures_of_the_guide_are_small():
    pictures = [*(DOCS / "_static").glob("*.png"), *(DOCS / "_static").glob("*.jpg")]
    assert len(pictures) >= 10
    assert max(picture.stat().st_size for picture in pictures) < 100_000


@pytest.mark.parametrize("module", PUBLIC)
def test_the_reference_lists_every_public_name(module):
    public = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    assert public - NOT_LISTED <= listed_in_reference()


def test_the_reference_lists_nothing_that_is_gone():
    for full_name in listed_in_reference():
        module, _, name = full_name.rpartition(".")
        assert hasattr(importlib.import_module(module), name), full_name


def test_the_map_of_the_code_is_complete():
    source = ROOT / "src" / "tensorae"
    text = (DOCS / "extend" / "code_map.md").read_text("utf-8")
    assert len(text.splitlines()) <= 60
    named = set(re.findall(r"(\w+\.py)", text)) - {"test_layers.py"}
    assert named <= {path.name for path in source.rglob("*.py")}
    engines = [*source.glob("core/*.py"), *source.glob("deep/*.py"), *source.glob("[a-z]*.py")]
    assert {path.name for path in engines} <= named | {"__init__.py"}


def test_every_page_is_reached_from_the_start_page():
    """A page that no table of contents names is a page that nobody finds."""
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        for toctree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            for line in toctree.splitlines():
                entry = re.sub(r".*<(.*)>", r"\1", line.strip())
                target = (page.parent / f"{entry}.md").resolve()
                if entry and not entry.startswith(":") and target.exists():
                    waiting.append(target)
    assert {page for page in PAGES if page.parent != ROOT} <= reached
