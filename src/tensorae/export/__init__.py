"""Fitted models for other programs: ``nn.Module``s, ONNX files and model cards."""

from __future__ import annotations

from tensorae.export.modules import FittedModule, Outputs, to_torch
from tensorae.export.onnx import to_onnx

__all__ = ["FittedModule", "Outputs", "to_onnx", "to_torch"]
