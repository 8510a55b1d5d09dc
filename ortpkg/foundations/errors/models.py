"""Errors of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ortpkg.foundations.errors.base import OrtpkgError
from ortpkg.foundations.errors.codes import ExitCode, StatusCode
from ortpkg.foundations.errors.onnxruntime_exceptions import Fail, InvalidArgument, InvalidGraph
from ortpkg.foundations.errors.onnxruntime_exceptions import NotImplemented as OrtNotImplemented


class ModelError(OrtpkgError):
    """A model file is wrong or cannot be run.

    Attributes:
        node_name: Node concerned, or None.
    """

    code = StatusCode.FAIL
    exit_code = ExitCode.MODEL

    def __init__(self, message: str, *, node_name: str | None = None) -> None:
        super().__init__(message)
        self.node_name = node_name


class ModelFileError(ModelError):
    """The model file or its external data is missing, empty, truncated or not ONNX."""

    code = StatusCode.INVALID_PROTOBUF
    further: ClassVar[tuple[type[Exception], ...]] = (InvalidArgument, Fail)


class ModelNotFoundError(ModelFileError):
    """There is no model file at that path."""

    code = StatusCode.NO_SUCHFILE
    further: ClassVar[tuple[type[Exception], ...]] = ()


class ExternalDataNotFoundError(ModelNotFoundError):
    """A file that a model names for its data is not there."""

    further = (Fail,)


class AdapterFileError(ModelFileError, RuntimeError):
    """The file of a LoRA adapter is missing, damaged or something else."""


class InvalidGraphError(ModelError, InvalidArgument, Fail):
    """The graph breaks a rule of ONNX: a cycle, a missing value, a wrong type."""

    code = StatusCode.INVALID_GRAPH


class KernelNotFoundError(ModelError, OrtNotImplemented, InvalidGraph, Fail):
    """No execution provider of the session has a kernel for a node.

    Its status is FAIL, as in ONNX Runtime's design documents (ADR 15). onnxruntime says
    NOT_IMPLEMENTED, and ``except NotImplemented`` catches it, too.

    Attributes:
        op_type, opset: Operator, and the opset of its domain that the model imports.
        types: Types of the node's inputs, if no kernel supports them.
    """

    def __init__(
        self,
        message: str,
        *,
        op_type: str,
        opset: int,
        types: Sequence[str] = (),
        node_name: str | None = None,
    ) -> None:
        super().__init__(message, node_name=node_name)
        self.op_type = op_type
        self.opset = opset
        self.types = tuple(types)
