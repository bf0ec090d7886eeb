"""The Python blocks of README and documentation run as they stand, one after another."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks_of(page):
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=lambda p: p.name)
def test_every_python_block_runs(page):
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks_of(page), start=1):
        exec(compile(block, f"{page.name}, python block {number}", "exec"), namespace)


def test_there_are_blocks_to_run():
    assert {"README.md", "index.md", "custom_architectures.md"} <= {
        page.name for page in PAGES if blocks_of(page)
    }
