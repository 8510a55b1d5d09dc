"""The exceptions that programs written for onnxruntime catch, one per status of its C API.

Every error of ortpkg is also an instance of the one that its ``code`` names, so that ``except
InvalidArgument`` written for onnxruntime catches here what it catches there.
``ortpkg.capi.onnxruntime_pybind11_state`` has them under the names that programs import. Source of
the names: that module of onnxruntime 1.31.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.errors.codes import StatusCode


class Fail(Exception):
    """FAIL: anything that no other status names."""


class InvalidArgument(Exception):
    """INVALID_ARGUMENT."""


class NoSuchFile(Exception):
    """NO_SUCHFILE."""


class NoModel(Exception):
    """NO_MODEL: ortpkg never raises it."""


class EngineError(Exception):
    """ENGINE_ERROR: ortpkg never raises it."""


class RuntimeException(Exception):
    """RUNTIME_EXCEPTION."""


class InvalidProtobuf(Exception):
    """INVALID_PROTOBUF."""


class ModelLoaded(Exception):
    """MODEL_LOADED: ortpkg never raises it."""


class NotImplemented(Exception):  # noqa: A001 - onnxruntime's name
    """NOT_IMPLEMENTED."""


class InvalidGraph(Exception):
    """INVALID_GRAPH."""


class EPFail(Exception):
    """EP_FAIL."""


class ModelLoadCanceled(Exception):
    """MODEL_LOAD_CANCELED."""


class ModelRequiresCompilation(Exception):
    """MODEL_REQUIRES_COMPILATION: ortpkg never raises it."""


class NotFound(Exception):
    """NOT_FOUND."""


class DeviceReset(Exception):
    """DEVICE_RESET: ortpkg never raises it."""


#: Status → exception.
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
