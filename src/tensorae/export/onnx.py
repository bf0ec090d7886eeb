"""Fitted models as ONNX files: the module of ``to_torch``, traced by ``torch.onnx``.

Rows with and without missing values take different paths, which become the branches of an ``If``;
text becomes codes by tables in the file.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from tensorae import __version__
from tensorae._files import write_atomically
from tensorae._optional import import_optional
from tensorae._torch import isolated_torch
from tensorae.data.categories import CategoryEncoder, column_values
from tensorae.deep_tae import TAE
from tensorae.exceptions import InvalidParameterError, TensoraeError
from tensorae.export.modules import FittedModule, Outputs, fitted_dtype, last_estimator, to_torch
from tensorae.table_model import TableModel

__all__ = ["to_onnx"]

OPSET = 20
ML, ML_OPSET = "ai.onnx.ml", 4
# Largest difference between the results of the file and of the model, as a share of their size.
TOLERANCE = 1e-5


@isolated_torch()
def to_onnx(
    model: Any,
    path: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    check: Any = None,
) -> None:
    """Write a fitted model to an ONNX file; see :meth:`tensorae.LinearTAE.to_onnx`.

    Parameters
    ----------
    model : LinearTAE, TAE, TableModel of one, or Pipeline that ends with one
        Other steps of a Pipeline may be Scattering, scalers of scikit-learn and PCA.
    path : path-like
        An existing file is replaced.
    dtype : {"float32", "float64"}, optional
        Type of the input. By default float32 for a ``TAE``, because onnxruntime lacks some steps of
        networks in double precision, and that of the fit for a ``LinearTAE``.
    check : array-like or data frame of shape (n, d), optional
        Rows to compare the results of the file, run by onnxruntime, with those of the model.
    """
    onnx = import_optional("onnx", extra="onnx")
    for package in ("onnxscript", "onnxruntime") if check is not None else ("onnxscript",):
        import_optional(package, extra="onnx")
    kind = dtype or _input_dtype(model)
    module = to_torch(model, dtype=kind)
    whole = _joined(onnx, module, getattr(torch, kind))
    encoder = _encoder(model)
    if encoder is not None:
        whole = _with_tables(onnx, whole, encoder, kind)
    _describe(whole, model)
    onnx.checker.check_model(whole, full_check=True)
    if check is not None:
        _compare(whole, model, check, kind)
    write_atomically(path, whole.SerializeToString())


# The graph --------------------------------------------------------------------------------------


class _Path(nn.Module):
    """One of the two paths through a module."""

    def __init__(self, module: FittedModule, name: str) -> None:
        super().__init__()
        self.module, self.name = module, name

    def forward(self, x: torch.Tensor) -> Outputs:
        found: Outputs = getattr(self.module, self.name)(x)
        return found


def _joined(onnx: Any, module: FittedModule, dtype: torch.dtype) -> Any:
    """The model of a module: one graph, or two of which ``If`` takes one."""
    complete = _traced(module, "complete", dtype)
    if not module.allow_missing:
        return complete
    incomplete = _traced(module, "incomplete", dtype)
    branches = {"else_branch": complete.graph, "then_branch": incomplete.graph}
    helper = onnx.helper
    inputs, outputs = copy.deepcopy((list(complete.graph.input), list(complete.graph.output)))
    for name, graph in branches.items():
        # A branch sees the input of the whole; its own results need names of their own.
        _renamed(graph, {output.name: f"{name}/{output.name}" for output in graph.output})
        del graph.input[:]
        graph.name = name
    axes = list(range(1 + len(module.input_shape)))
    nodes = [
        helper.make_node("IsNaN", ["X"], ["is_nan"]),
        helper.make_node("IsInf", ["X"], ["is_inf"]),
        helper.make_node("Or", ["is_nan", "is_inf"], ["not_finite"]),
        helper.make_node("Cast", ["not_finite"], ["counted"], to=onnx.TensorProto.INT64),
        helper.make_node("ReduceSum", ["counted", "axes"], ["count"], keepdims=0),
        helper.make_node("Greater", ["count", "zero"], ["incomplete"]),
        helper.make_node("If", ["incomplete"], [output.name for output in outputs], **branches),
    ]
    constants = [
        onnx.numpy_helper.from_array(np.array(axes, dtype=np.int64), "axes"),
        onnx.numpy_helper.from_array(np.array(0, dtype=np.int64), "zero"),
    ]
    graph = helper.make_graph(nodes, "tensorae", inputs, outputs, constants)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=complete.ir_version
    )


def _traced(module: FittedModule, path: str, dtype: torch.dtype) -> Any:
    """The ONNX model of one path."""
    x = torch.zeros(3, *module.input_shape, dtype=dtype)
    rows = torch.export.Dim("rows")
    with _quiet():
        try:
            program = torch.onnx.export(
                _Path(module, path),
                (x,),
                dynamo=True,
                dynamic_shapes=({0: rows},),
                input_names=["X"],
                output_names=list(Outputs._fields),
                opset_version=OPSET,
                external_data=False,
                verbose=False,
            )
        except Exception as error:  # whatever tracing the code of a user raises
            cause = next(iter(str(error.__cause__ or error).strip().splitlines()), "")
            raise InvalidParameterError(
                "architecture must be modules that torch.onnx can export, with steps that do not "
                f"depend on values: {type(error).__name__}: {cause:.200}; change their forward "
                "pass, or use to_torch()."
            ) from error
    assert program is not None
    whole = program.model_proto
    if not whole.graph.input[0].type.tensor_type.shape.dim[0].dim_param:
        raise InvalidParameterError(
            "architecture must be modules that take any number of rows, got one whose forward pass "
            "turns that number into a constant while it is traced; use x.shape[0] instead of "
            "len(x) there."
        )
    for part in (whole, whole.graph, *whole.graph.node, *whole.graph.value_info):
        del part.metadata_props[:]  # traces of this machine's files
    return whole


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's exporter from logging and warning about itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _renamed(graph: Any, names: Mapping[str, str]) -> None:
    """Give values of a graph other names, in place."""
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)
        for place, name in enumerate(node.output):
            node.output[place] = names.get(name, name)
        for attribute in node.attribute:
            if attribute.HasField("g"):  # branches use values from outside
                _renamed(attribute.g, names)
    for value in [*graph.output, *graph.value_info]:
        value.name = names.get(value.name, value.name)


# Categories -------------------------------------------------------------------------------------


def _with_tables(onnx: Any, whole: Any, encoder: CategoryEncoder, kind: str) -> Any:
    """The model with an input and an output of its own for each column that is no plain number.

    They hold text, truth values or, for levels that are numbers, doubles.
    """
    helper, types, arrays = onnx.helper, onnx.TensorProto, onnx.numpy_helper
    number = types.FLOAT if kind == "float32" else types.DOUBLE
    graph = whole.graph
    _renamed(graph, {"X": "coded", "reconstruction": "coded_reconstruction"})
    taken = {name for node in graph.node for name in node.output} | {"X", "reconstruction"}
    inputs, before, after, parts, constants = [], [], [], [], []
    outputs = [output for output in graph.output if output.name != "coded_reconstruction"]

    def constant(name: str, values: Any) -> str:
        constants.append(arrays.from_array(np.asarray(values), name))
        return name

    def node(kind: str, given: list[str], result: str, **attributes: Any) -> Any:
        return helper.make_node(kind, given, [result], **attributes)

    def encode(given: str, result: str, table: Mapping[Any, Any], default: Any) -> Any:
        tensors = {"keys": list(table), "values": list(table.values()), "default": [default]}
        found = {}
        for name, entries in tensors.items():
            dtype = object if isinstance(entries[-1], str) else np.float64
            found[f"{name}_tensor"] = arrays.from_array(np.array(entries, dtype=dtype))
        return node("LabelEncoder", [given], result, domain=ML, **found)

    tables: dict[int, tuple[Mapping[Any, int], Sequence[Any], float]] = {
        column.place: (column.codes, column.named_levels, column.n_codes - 1.0)
        for column in encoder.columns
    }
    for place, order in encoder.ordered.items():
        tables[place] = {level: code for code, level in enumerate(order)}, order, np.nan
    plain = [place for place in range(encoder.n_columns) if place not in tables]
    if plain:
        parts.append("X")
        inputs.append(helper.make_tensor_value_info("X", number, ["rows", len(plain)]))
        shown = helper.make_tensor_value_info("reconstruction", number, ["rows", len(plain)])
        outputs.append(shown)
        columns = ["coded_reconstruction", constant("plain", plain)]
        after.append(node("Gather", columns, "reconstruction", axis=1))
    for place, (codes, levels, unknown) in tables.items():
        name = encoder.names[place] if encoder.names else f"column{place}"
        while name in taken:
            name += "_"
        taken.add(name)
        result, decoded = f"reconstruction:{name}", f"{name}/decoded"
        kind_of = type(levels[0])
        shown_type = {str: types.STRING, bool: types.BOOL}.get(kind_of, types.DOUBLE)
        inputs.append(helper.make_tensor_value_info(name, shown_type, ["rows", 1]))
        outputs.append(helper.make_tensor_value_info(result, shown_type, ["rows", 1]))
        # Empty text, and NaN, are missing.
        key: Any = str if kind_of is str else float
        table: dict[Any, Any] = {"" if key is str else np.nan: np.nan}
        table |= {key(level): float(code) for level, code in codes.items()}
        number_type = types.STRING if key is str else types.DOUBLE
        before += [
            node("Cast", [name], f"{name}/key", to=number_type),
            encode(f"{name}/key", f"{name}/code", table, unknown),
            node("Cast", [f"{name}/code"], f"{name}/part", to=number),
        ]
        parts.append(f"{name}/part")
        # A place in an order becomes the nearest level.
        bounds = [constant(f"{name}/first", 0.0), constant(f"{name}/last", len(levels) - 1.0)]
        chosen = ["coded_reconstruction", constant(f"{name}/place", [place])]
        back = {float(code): key(level) for code, level in enumerate(levels)}
        after += [
            node("Gather", chosen, f"{name}/one", axis=1),
            node("Cast", [f"{name}/one"], f"{name}/double", to=types.DOUBLE),
            node("Round", [f"{name}/double"], f"{name}/round"),
            node("Clip", [f"{name}/round", *bounds], f"{name}/clip"),
            encode(f"{name}/clip", decoded, back, key(levels[0])),
            node("Cast", [decoded], result, to=shown_type),
        ]
    # Columns in the order of the fit.
    in_order = constant("order", np.argsort([*plain, *tables]))
    before += [
        node("Concat", parts, "parts", axis=1),
        node("Gather", ["parts", in_order], "coded", axis=1),
    ]
    nodes, known = [*before, *graph.node, *after], [*graph.initializer, *constants]
    joined = helper.make_graph(nodes, "tensorae", inputs, outputs, known)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
    return helper.make_model(joined, opset_imports=opsets, ir_version=whole.ir_version)


def _encoder(model: Any) -> CategoryEncoder | None:
    """The categories of the table that a model takes, if any."""
    encoder: CategoryEncoder | None = getattr(last_estimator(model), "_categories", None)
    return encoder


def _input_dtype(model: Any) -> str:
    return "float32" if isinstance(last_estimator(model), TAE) else fitted_dtype(model)


# Check ------------------------------------------------------------------------------------------


def _compare(whole: Any, model: Any, X: Any, kind: str) -> None:
    """Refuse a file whose results on rows X are not those of the model."""
    runtime = import_optional("onnxruntime", extra="onnx")
    session = runtime.InferenceSession(
        whole.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = ["label", "probabilities", "code", "score"]
    label, *found = session.run(names, _feeds(session, model, X, kind))
    expected = [model.predict_proba(X), model.transform(X), model.score_samples(X)]
    own = np.asarray(model.predict(X))
    for name, here, there in zip(names[1:], found, expected, strict=True):
        # Of clusters that are equally probable, rounding decides.
        rows = label == own if name == "code" else slice(None)
        there = np.asarray(there, dtype=np.float64)[rows]
        largest = max(np.abs(there).max(initial=0), 1)
        off = float(np.abs(here[rows] - there).max(initial=0) / largest)
        if not off <= TOLERANCE:
            raise TensoraeError(
                f"the ONNX file must give the results of the model, but its {name} differs by "
                f"{off:.1e} on the {len(label)} rows of check; use to_torch(), and report it."
            )


def _feeds(session: Any, model: Any, X: Any, kind: str) -> dict[str, Any]:
    """Inputs of the file for rows X."""
    encoder = _encoder(model)
    if encoder is None:
        rows = model.prepare(X).values if isinstance(model, TableModel) else np.asarray(X)
        shape = session.get_inputs()[0].shape[1:]
        return {"X": np.ascontiguousarray(rows.reshape(-1, *shape), dtype=kind)}
    tables = {*encoder.places, *encoder.ordered}
    columns = [column_values(X, place) for place in range(encoder.n_columns)]
    plain = [values for place, values in enumerate(columns) if place not in tables]
    feeds, inputs = {}, session.get_inputs()
    if plain:
        feeds["X"] = np.array(plain, dtype=kind).T
        inputs = inputs[1:]
    for one, place in zip(inputs, [*encoder.places, *encoder.ordered], strict=True):
        values = columns[place]
        if one.type == "tensor(string)":
            column = np.array(["" if v is None else v for v in values], dtype=object)
        else:
            column = np.array(values, dtype=bool if one.type == "tensor(bool)" else np.float64)
        feeds[one.name] = column[:, None]
    return feeds


def _describe(whole: Any, model: Any) -> None:
    """Put into the file what it is."""
    names = getattr(model, "feature_names_in_", None)
    facts = {
        "tensorae_version": __version__,
        "model": type(last_estimator(model)).__name__,
        "feature_names": "" if names is None else json.dumps([str(name) for name in names]),
    }
    whole.producer_name, whole.producer_version = "tensorae", __version__
    del whole.metadata_props[:]
    for key, value in facts.items():
        if value:
            whole.metadata_props.add(key=key, value=value)
