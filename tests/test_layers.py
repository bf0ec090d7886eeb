"""Imports point down the layers of the package, and no two modules import each other."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tensorae"
# From top to bottom. Estimators call upwards only inside methods such as `model.plot`.
LAYERS = [
    ["__main__", "cli"],
    ["exploration"],
    ["datasets"],
    ["report"],
    ["plot"],
    ["inspect", "export"],
    ["table_model"],
    [
        "linear_tae",
        "deep_tae",
        "imputer",
        "outliers",
        "model_selection",
        "embedding",
        "scattering",
        "_base",
    ],
    ["anomaly", "photos", "persist"],
    ["deep"],
    ["core"],
    ["data"],
    ["assignment"],
    ["exceptions"],
]
SHOWN = {"report", "plot", "inspect", "export"}  # what estimators may call lazily


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules of the package that a file imports, and whether it does so inside a function."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("tensorae."):
                for alias in child.names:
                    name = f"{child.module}.{alias.name}".removeprefix("tensorae.")
                    file = SOURCE / f"{name.replace('.', '/')}.py"
                    yield name if file.exists() else name.rpartition(".")[0], lazy
            yield from visit(child, lazy or isinstance(child, ast.FunctionDef))

    return visit(ast.parse(path.read_text("utf-8")), False)


def test_imports_point_down():
    depth = {name: level for level, names in enumerate(LAYERS) for name in names}
    wrong, graph = [], {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        if not module:
            continue  # the front hands out public names on demand
        graph[module] = {other for other, lazy in imports(path) if not lazy}
        for other, lazy in imports(path):
            here, there = module.partition(".")[0], other.partition(".")[0]
            if here not in depth or there not in depth or here == there:
                continue  # private helpers such as _files are below everything
            if depth[here] > depth[there] and not (lazy and there in SHOWN):
                wrong.append((module, other))
    assert not wrong
    TopologicalSorter(graph).prepare()  # raises CycleError where modules import each other
