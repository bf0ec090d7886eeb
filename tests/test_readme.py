"""The README's Python blocks run as they stand, one after another."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_every_python_block_runs():
    blocks = re.findall(
        r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert blocks, "README.md has no python blocks"
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"README.md, python block {number}", "exec"), namespace)
