"""Exceptions that programs written for onnxruntime catch, one for each status of its C API.

Every error of ortpkg is also an instance of the one that its ``code`` names, so that ``except
InvalidArgument`` written for onnxruntime catches the same here.
``ortpkg.capi.onnxruntime_pybind11_state`` has them under the names that programs import. Source of
the names: that module of onnxruntime 1.31.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.foundations.errors.codes import StatusCode


class Fail(Exception):
    """FAIL: anything that no other status names."""


class InvalidArgument(Exception):
    """Status INVALID_ARGUMENT of onnxruntime."""


class NoSuchFile(Exception):
    """Status NO_SUCHFILE of onnxruntime."""


class NoModel(Exception):
    """NO_MODEL: ortpkg never raises it."""


class EngineError(Exception):
    """ENGINE_ERROR: ortpkg never raises it."""


class RuntimeException(Exception):
    """Status RUNTIME_EXCEPTION of onnxruntime."""


class InvalidProtobuf(Exception):
    """Status INVALID_PROTOBUF of onnxruntime."""


class ModelLoaded(Exception):
    """MODEL_LOADED: ortpkg never raises it."""


class NotImplemented(Exception):  # noqa: A001 - onnxruntime's name
    """Status NOT_IMPLEMENTED of onnxruntime."""


class InvalidGraph(Exception):
    """Status INVALID_GRAPH of onnxruntime."""


class EPFail(Exception):
    """Status EP_FAIL of onnxruntime."""


class ModelLoadCanceled(Exception):
    """Status MODEL_LOAD_CANCELED of onnxruntime."""


class ModelRequiresCompilation(Exception):
    """MODEL_REQUIRES_COMPILATION: ortpkg never raises it."""


class NotFound(Exception):
    """Status NOT_FOUND of onnxruntime."""


class DeviceReset(Exception):
    """DEVICE_RESET: ortpkg never raises it."""


#: Exception of each status.
EXCEPTION_OF_STATUS: Mapping[StatusCode, type[Exception]] = {
    StatusCode.FAIL: Fail,
    StatusCode.INVALID_ARGUMENT: InvalidArgument,
    StatusCode.NO_SUCHFILE: NoSuchFile,
    StatusCode.NO_MODEL: NoModel,
    StatusCode.ENGINE_ERROR: EngineError,
    StatusCode.RUNTIME_EXCEPTION: RuntimeException,
    StatusCode.INVALID_PROTOBUF: InvalidProtobuf,
    StatusCode.MODEL_LOADED: ModelLoaded,
    StatusCode.NOT_IMPLEMENTED: NotImplemented,
    StatusCode.INVALID_GRAPH: InvalidGraph,
    StatusCode.EP_FAIL: EPFail,
    StatusCode.MODEL_LOAD_CANCELED: ModelLoadCanceled,
    StatusCode.MODEL_REQUIRES_COMPILATION: ModelRequiresCompilation,
    StatusCode.NOT_FOUND: NotFound,
    StatusCode.DEVICE_RESET: DeviceReset,
}
