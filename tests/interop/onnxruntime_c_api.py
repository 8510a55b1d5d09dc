"""onnxruntime's C functions by ctypes: environment, options, sessions of float tensors.

Made for a child process: a wrong call here ends the process that makes it, so nothing but
    ``child.py`` imports this.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.interop.onnxruntime_abi import API_PROTOTYPES, ApiSlot, Prototype
from tests.interop.protocol import Eps, FloatTensor

_LOG_ONLY_FATAL = 4
_DEVICE_ALLOCATOR, _DEFAULT_MEMORY = 0, 0
_FLOAT = 1
_FLOAT_NBYTES = 4


class OrtStatusError(Exception):
    """A call that returned an ``OrtStatus``: its code (``OrtErrorCode``) and its text."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"onnxruntime status {code}: {message}")
        self.code = code
        self.message = message


def path_argument(path: Path) -> Any:
    """``path`` as the C functions take it (``ORTCHAR_T``)."""
    return str(path) if os.name == "nt" else os.fsencode(path)


class OnnxRuntime:
    """One loaded release with an environment of its own."""

    def __init__(self, library: Path) -> None:
        loaded = ctypes.CDLL(str(library))
        loaded.OrtGetApiBase.restype = ctypes.c_void_p
        base = ctypes.cast(loaded.OrtGetApiBase(), ctypes.POINTER(ctypes.c_void_p))
        self.version: str = ctypes.CFUNCTYPE(ctypes.c_char_p)(base[1] or 0)().decode()
        api_version = int(self.version.split(".")[1])
        self._table = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(base[0] or 0)(api_version)
        self._functions: dict[ApiSlot, Callable[..., Any]] = {}
        self.env = self.create(ApiSlot.CREATE_ENV, _LOG_ONLY_FATAL, b"interop")
        self._allocator = self.create(ApiSlot.GET_ALLOCATOR_WITH_DEFAULT_OPTIONS)

    def call(self, slot: ApiSlot, *arguments: Any) -> Any:
        """Calls a function that cannot fail."""
        if slot not in self._functions:
            self._functions[slot] = function_in_table(self._table, slot, API_PROTOTYPES[slot])
        return self._functions[slot](*arguments)

    def check(self, status: int | None) -> None:
        """Raises what ``status`` says, and releases it."""
        if status is None:
            return
        code = int(self.call(ApiSlot.GET_ERROR_CODE, status))
        message = self.call(ApiSlot.GET_ERROR_MESSAGE, status).decode(errors="replace")
        self.call(ApiSlot.RELEASE_STATUS, status)
        raise OrtStatusError(code, message)

    def create(self, slot: ApiSlot, *arguments: Any) -> int:
        """Calls a function whose last parameter receives a handle, and returns the handle."""
        handle = ctypes.c_void_p()
        self.check(self.call(slot, *arguments, ctypes.byref(handle)))
        assert handle.value, f"{slot.name} gave no handle"
        return handle.value

    @contextmanager
    def session_options(self, eps: Eps, entries: Mapping[str, str] | None = None) -> Iterator[int]:
        """Session options with the EPs of ``eps`` and these config entries."""
        options = self.create(ApiSlot.CREATE_SESSION_OPTIONS)
        try:
            for name in eps.appended:
                append = ApiSlot.SESSION_OPTIONS_APPEND_EXECUTION_PROVIDER
                self.check(self.call(append, options, name.encode(), None, None, 0))
            for name in eps.devices_of:
                self._append_devices(options, name)
            if eps.policy is not None:
                self.check(
                    self.call(ApiSlot.SESSION_OPTIONS_SET_EP_SELECTION_POLICY, options, eps.policy)
                )
            for key, value in (entries or {}).items():
                self.check(
                    self.call(
                        ApiSlot.ADD_SESSION_CONFIG_ENTRY, options, key.encode(), value.encode()
                    )
                )
            yield options
        finally:
            self.call(ApiSlot.RELEASE_SESSION_OPTIONS, options)

    def _append_devices(self, options: int, ep_name: str) -> None:
        devices, count = ctypes.c_void_p(), ctypes.c_size_t()
        self.check(
            self.call(ApiSlot.GET_EP_DEVICES, self.env, ctypes.byref(devices), ctypes.byref(count))
        )
        known = (
            list((ctypes.c_void_p * count.value).from_address(devices.value))
            if devices.value
            else []
        )
        wanted = [
            device
            for device in known
            if self.call(ApiSlot.EP_DEVICE_EP_NAME, device) == ep_name.encode()
        ]
        assert wanted, f"{ep_name} has no device here"
        array = (ctypes.c_void_p * len(wanted))(*wanted)
        append = ApiSlot.SESSION_OPTIONS_APPEND_EXECUTION_PROVIDER_V2
        self.check(self.call(append, options, self.env, array, len(wanted), None, None, 0))

    def create_session(self, path: Path, options: int) -> Session:
        """A session over ``path``: a model file, for 1.26 and 1.27 a package too."""
        return Session(
            self, self.create(ApiSlot.CREATE_SESSION, self.env, path_argument(path), options)
        )

    def output_names(self, session: int) -> list[bytes]:
        """Names of the session's outputs, in order."""
        count = ctypes.c_size_t()
        self.check(self.call(ApiSlot.SESSION_GET_OUTPUT_COUNT, session, ctypes.byref(count)))
        names = []
        for index in range(count.value):
            text = self.create(ApiSlot.SESSION_GET_OUTPUT_NAME, session, index, self._allocator)
            names.append(ctypes.string_at(text))
            self.check(self.call(ApiSlot.ALLOCATOR_FREE, self._allocator, text))
        return names

    @contextmanager
    def tensor(self, value: FloatTensor) -> Iterator[int]:
        """An OrtValue over a copy of ``value`` that lives as long as the context."""
        elements = (ctypes.c_float * len(value.elements))(*value.elements)
        shape = (ctypes.c_int64 * len(value.shape))(*value.shape)
        memory = self.create(ApiSlot.CREATE_CPU_MEMORY_INFO, _DEVICE_ALLOCATOR, _DEFAULT_MEMORY)
        make, nbytes = (
            ApiSlot.CREATE_TENSOR_WITH_DATA_AS_ORT_VALUE,
            _FLOAT_NBYTES * len(value.elements),
        )
        try:
            handle = self.create(make, memory, elements, nbytes, shape, len(value.shape), _FLOAT)
        finally:
            self.call(ApiSlot.RELEASE_MEMORY_INFO, memory)
        try:
            yield handle
        finally:
            self.call(ApiSlot.RELEASE_VALUE, handle)

    def read_tensor(self, value: int) -> FloatTensor:
        """A copy of a float OrtValue."""
        info = self.create(ApiSlot.GET_TENSOR_TYPE_AND_SHAPE, value)
        element_type, rank, count = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
        try:
            self.check(self.call(ApiSlot.GET_TENSOR_ELEMENT_TYPE, info, ctypes.byref(element_type)))
            self.check(self.call(ApiSlot.GET_DIMENSIONS_COUNT, info, ctypes.byref(rank)))
            shape = (ctypes.c_int64 * rank.value)()
            self.check(self.call(ApiSlot.GET_DIMENSIONS, info, shape, rank.value))
            self.check(self.call(ApiSlot.GET_TENSOR_SHAPE_ELEMENT_COUNT, info, ctypes.byref(count)))
        finally:
            self.call(ApiSlot.RELEASE_TENSOR_TYPE_AND_SHAPE_INFO, info)
        assert element_type.value == _FLOAT, (
            f"an output of element type {element_type.value}: only float is read here"
        )
        data = self.create(ApiSlot.GET_TENSOR_MUTABLE_DATA, value)
        elements = (ctypes.c_float * count.value).from_address(data)
        return FloatTensor(shape=tuple(shape), elements=tuple(elements))


class Session:
    """An ``OrtSession``; a context manager that releases it."""

    def __init__(self, runtime: OnnxRuntime, handle: int) -> None:
        self._runtime = runtime
        self._handle = handle

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._runtime.call(ApiSlot.RELEASE_SESSION, self._handle)

    def run(self, feeds: Mapping[str, FloatTensor]) -> dict[str, FloatTensor]:
        """All outputs by name."""
        runtime = self._runtime
        output_names = runtime.output_names(self._handle)
        outputs = (ctypes.c_void_p * len(output_names))()
        with _all_entered([runtime.tensor(value) for value in feeds.values()]) as values:
            inputs = (ctypes.c_void_p * len(values))(*values)
            status = runtime.call(
                ApiSlot.RUN,
                self._handle,
                None,
                _texts([name.encode() for name in feeds]),
                inputs,
                len(values),
                _texts(output_names),
                len(output_names),
                outputs,
            )
            runtime.check(status)
        found = {
            name.decode(): runtime.read_tensor(value)
            for name, value in zip(output_names, outputs, strict=True)
        }
        for value in outputs:
            runtime.call(ApiSlot.RELEASE_VALUE, value)
        return found


def function_in_table(table: int, slot: int, prototype: Prototype) -> Callable[..., Any]:
    """The function at ``slot`` of the table of function pointers at address ``table``."""
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[slot]
    return function_at(address, prototype)


def function_at(address: int | None, prototype: Prototype) -> Callable[..., Any]:
    """The function at ``address``."""
    assert address, "the release has no such function"
    result, parameters = prototype
    return ctypes.CFUNCTYPE(result, *parameters)(address)


def _texts(names: Sequence[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(names))(*names)


@contextmanager
def _all_entered(contexts: Sequence[Any]) -> Iterator[list[int]]:
    if not contexts:
        yield []
        return
    with contexts[0] as first, _all_entered(contexts[1:]) as rest:
        yield [first, *rest]
