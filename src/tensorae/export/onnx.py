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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.pipeline import Pipeline
from torch import nn

from tensorae import __version__
from tensorae._files import write_atomically
from tensorae._optional import import_optional
from tensorae._torch import isolated_torch
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.export.modules import FittedModule, Outputs, fitted_dtype, to_torch
from tensorae.rows.categories import CategoryEncoder
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
        Type of the input; that of the fit by default.
    check : array-like or data frame of shape (n, d), optional
        Rows to compare the results of the file, run by onnxruntime, with those of the model.
    """
    onnx = import_optional("onnx", extra="onnx")
    import_optional("onnxscript", extra="onnx")
    module = to_torch(model, dtype=dtype)
    kind = dtype or fitted_dtype(model)
    whole = _joined(onnx, module, getattr(torch, kind))
    encoder = _encoder(model)
    if encoder is not None:
        whole = _with_tables(onnx, whole, encoder, kind)
    _describe(whole, model, encoder)
    onnx.checker.check_model(whole, full_check=True)
    if check is not None:
        _compare(whole, model, check, kind, encoder)
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
                "architecture must be modules that torch.onnx can export, whose steps do not depend "
                f"on values: {type(error).__name__}: {cause:.200}; change their forward pass, or "
                "use to_torch()."
            ) from error
    assert program is not None
    whole = program.model_proto
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
    for value in [*graph.output, *graph.value_info]:
        value.name = names.get(value.name, value.name)


# Categories -------------------------------------------------------------------------------------


def _with_tables(onnx: Any, whole: Any, encoder: CategoryEncoder, kind: str) -> Any:
    """The model with an input and an output of its own for each column that is no plain number.

    They hold text, truth values or, for levels that are numbers, doubles.
    """
    helper, types, arrays = onnx.helper, onnx.TensorProto, onnx.numpy_helper
    number = types.FLOAT if kind == "float32" else types.DOUBLE
    tables = {column.place: (column.codes, column.named_levels) for column in encoder.columns}
    for place, levels in encoder.ordered.items():
        tables[place] = {level: code for code, level in enumerate(levels)}, levels
    unknown = {column.place: column.n_codes - 1.0 for column in encoder.columns}
    plain = [place for place in range(encoder.n_columns) if place not in tables]
    graph = whole.graph
    _renamed(graph, {"X": "coded", "reconstruction": "coded_reconstruction"})
    outputs = [output for output in graph.output if output.name != "coded_reconstruction"]
    taken = {name for node in graph.node for name in node.output} | {"X", "reconstruction"}
    inputs, before, after, parts, constants = [], [], [], [], []

    def table(keys: list[Any], values: list[Any], default: Any) -> dict[str, Any]:
        found = {}
        for name, entries in {"keys": keys, "values": values, "default": [default]}.items():
            array = np.array(entries, dtype=object if isinstance(entries[0], str) else np.float64)
            found[f"{name}_tensor"] = arrays.from_array(array)
        return found

    if plain:
        inputs.append(helper.make_tensor_value_info("X", number, ["rows", len(plain)]))
        outputs.append(helper.make_tensor_value_info("reconstruction", number, ["rows", len(plain)]))
        parts.append("X")
        constants.append(arrays.from_array(np.array(plain), "plain"))
        after.append(helper.make_node("Gather", ["coded_reconstruction", "plain"], ["reconstruction"], axis=1))
    for place, (codes, levels) in tables.items():
        name = encoder.names[place] if encoder.names else f"column{place}"
        while name in taken:
            name += "_"
        taken.add(name)
        first = next(iter(codes))
        type_of = {str: types.STRING, bool: types.BOOL}.get(type(first), types.DOUBLE)
        for some, label in ((inputs, name), (outputs, f"reconstruction:{name}")):
            some.append(helper.make_tensor_value_info(label, type_of, ["rows", 1]))
        # Texts that are empty, and NaN, are missing.
        known = {float(level) if type_of != types.STRING else level: code for level, code in codes.items()}
        known = {("" if type_of == types.STRING else np.nan): np.nan, **known}
        given = name
        if type_of == types.BOOL:
            given = f"{name}/number"
            before.append(helper.make_node("Cast", [name], [given], to=types.DOUBLE))
        attributes = table(list(known), list(known.values()), unknown.get(place, np.nan))
        before += [
            helper.make_node("LabelEncoder", [given], [f"{name}/code"], domain=ML, **attributes),
            helper.make_node("Cast", [f"{name}/code"], [f"{name}/part"], to=number),
        ]
        parts.append(f"{name}/part")
        # Places in an order are rounded to the nearest level.
        constants += [
            arrays.from_array(np.array([place]), f"{name}/place"),
            arrays.from_array(np.array(0.0), f"{name}/least"),
            arrays.from_array(np.array(len(levels) - 1.0), f"{name}/most"),
        ]
        back = levels if type_of == types.STRING else [float(level) for level in levels]
        decoded = f"reconstruction:{name}" + "/number" * (type_of == types.BOOL)
        attributes = table([float(code) for code in range(len(back))], list(back), back[0])
        after += [
            helper.make_node("Gather", ["coded_reconstruction", f"{name}/place"], [f"{name}/one"], axis=1),
            helper.make_node("Cast", [f"{name}/one"], [f"{name}/double"], to=types.DOUBLE),
            helper.make_node("Round", [f"{name}/double"], [f"{name}/round"]),
            helper.make_node("Clip", [f"{name}/round", f"{name}/least", f"{name}/most"], [f"{name}/clip"]),
            helper.make_node("LabelEncoder", [f"{name}/clip"], [decoded], domain=ML, **attributes),
        ]
        if type_of == types.BOOL:
            after.append(helper.make_node("Cast", [decoded], [f"reconstruction:{name}"], to=types.BOOL))
    # Columns in the order of the fit.
    order = np.argsort([*plain, *tables])
    constants.append(arrays.from_array(order.astype(np.int64), "order"))
    before += [
        helper.make_node("Concat", parts, ["parts"], axis=1),
        helper.make_node("Gather", ["parts", "order"], ["coded"], axis=1),
    ]
    graph = helper.make_graph(
        [*before, *graph.node, *after],
        "tensorae",
        inputs,
        outputs,
        [*graph.initializer, *constants],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=whole.ir_version)


def _encoder(model: Any) -> CategoryEncoder | None:
    """The categories of the table that a model takes, if any."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    estimator = last.estimator if isinstance(last, TableModel) else last
    encoder: CategoryEncoder | None = getattr(estimator, "_categories", None)
    return encoder


# Check ------------------------------------------------------------------------------------------


def _compare(whole: Any, model: Any, X: Any, kind: str, encoder: CategoryEncoder | None) -> None:
    """Refuse a file whose results on rows X are not those of the model."""
    runtime = import_optional("onnxruntime", extra="onnx")
    session = runtime.InferenceSession(
        whole.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = _feeds(session, model, X, kind, encoder)
    found = dict(zip(Outputs._fields, session.run(list(Outputs._fields[:3]) + ["score"], feeds), strict=False))
    raise NotImplementedError(found)


def _describe(whole: Any, model: Any, encoder: CategoryEncoder | None) -> None:
    """Put into the file what it is."""
    estimator = model.steps[-1][1] if isinstance(model, Pipeline) else model
    names = getattr(model, "feature_names_in_", None)
    facts = {
        "tensorae_version": __version__,
        "model": type(estimator.estimator if isinstance(estimator, TableModel) else estimator).__name__,
        "feature_names": "" if names is None else json.dumps([str(name) for name in names]),
    }
    whole.producer_name, whole.producer_version = "tensorae", __version__
    del whole.metadata_props[:]
    for key, value in facts.items():
        if value:
            whole.metadata_props.add(key=key, value=value)
