"""Imports point down, also those inside functions, and no two modules need each other."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
# From top to bottom; storage knows what it stores, and deep models begin as linear ones.
LAYERS = [
    ["__main__"],
    ["cli"],
    ["exploration"],
    ["datasets"],
    ["estimators"],
    ["report"],
    ["plotting"],
    ["explain"],
    ["photos"],
    ["storage"],
    ["outliers"],
    ["deep"],
    ["linear"],
    ["rows"],
    ["data"],
    ["assignment"],
    ["_files", "_optional", "_fields", "_numbers", "_torch"],
    ["_threads", "_warnings"],
    ["exceptions"],
]
DEPTH = {room: depth for depth, layer in enumerate(LAYERS) for room in layer}
# Used by examples alone: it knows files but no models.
DATASETS_MAY_USE = {"data", "_files", "_optional", "exceptions"}


def modules() -> dict[str, Path]:
    """Full name -> file; the front, which hands out public names when asked for, is left out."""
    found = {}
    for path in sorted(SOURCE.rglob("tensorae/**/*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    del found["tensorae"]
    return found


MODULES = modules()


def running_code(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes, at the top and inside functions, but for what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from running_code(child)


def imports_of(path: Path) -> set[str]:
    """Modules of the package that a file imports."""
    found = set()
    for node in running_code(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relative to itself"
            full_names = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(name if name in MODULES else str(node.module) for name in full_names)
    return found & set(MODULES)


def names_of_the_front(path: Path) -> set[str]:
    """What a file takes from ``tensorae`` itself, such as its version."""
    found = set()
    for node in running_code(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "tensorae":
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "tensorae":
            found.add(node.attr)
    return {name for name in found if f"tensorae.{name}" not in MODULES}


def room_of(module: str) -> str:
    return module.split(".")[1]


def points_down(room: str, other: str) -> bool:
    if room == "datasets":
        return other in DATASETS_MAY_USE
    return DEPTH[room] < DEPTH[other]


def test_every_room_has_its_layer():
    assert {room_of(module) for module in MODULES} == set(DEPTH)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module):
    room = room_of(module)
    others = {other for other in imports_of(MODULES[module]) if room_of(other) != room}
    assert not {other for other in others if not points_down(room, room_of(other))}


def test_only_the_command_line_uses_public_names_as_a_user_does():
    for module, path in MODULES.items():
        if room_of(module) != "cli":
            assert names_of_the_front(path) <= {"__version__", "__file__"}, module


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen, waiting = set(), [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting.extend(new)
    return seen


def test_no_modules_need_each_other():
    graph = {module: imports_of(path) - {module} for module, path in MODULES.items()}
    in_a_circle = [module for module in MODULES if module in reached(graph, module)]
    assert not in_a_circle
