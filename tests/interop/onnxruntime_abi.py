"""The part of onnxruntime's C ABI that interop tests call: slots of tables, prototypes.

A slot of ``OrtApi`` never changes once a release has shipped it, so one table serves every release;
functions that came later say since when. The experimental functions of 1.28 to 1.30 have the
prototypes of 1.31's stable table, in whose order :class:`PackageSlot` numbers them.
"""

from __future__ import annotations

import ctypes
import os
from enum import IntEnum
from typing import Any

PATH = ctypes.c_wchar_p if os.name == "nt" else ctypes.c_char_p
"""``const ORTCHAR_T*``: UTF-16 on Windows, bytes elsewhere."""

_HANDLE = ctypes.c_void_p
_OUT = ctypes.POINTER(ctypes.c_void_p)
_TEXT = ctypes.c_char_p
_STATUS = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_OUT_SIZE = ctypes.POINTER(ctypes.c_size_t)
_OUT_INT64 = ctypes.POINTER(ctypes.c_int64)

Prototype = tuple[Any, tuple[Any, ...]]
"""The ctypes of a function's result and of its parameters."""


class ApiSlot(IntEnum):
    """Positions in ``OrtApi``."""

    GET_ERROR_CODE = 1
    GET_ERROR_MESSAGE = 2
    CREATE_ENV = 3
    CREATE_SESSION = 7
    RUN = 9
    CREATE_SESSION_OPTIONS = 10
    SESSION_GET_OUTPUT_COUNT = 31
    SESSION_GET_OUTPUT_NAME = 37
    CREATE_TENSOR_WITH_DATA_AS_ORT_VALUE = 49
    GET_TENSOR_MUTABLE_DATA = 51
    GET_TENSOR_ELEMENT_TYPE = 60
    GET_DIMENSIONS_COUNT = 61
    GET_DIMENSIONS = 62
    GET_TENSOR_SHAPE_ELEMENT_COUNT = 64
    GET_TENSOR_TYPE_AND_SHAPE = 65
    CREATE_CPU_MEMORY_INFO = 69
    ALLOCATOR_FREE = 76
    GET_ALLOCATOR_WITH_DEFAULT_OPTIONS = 78
    RELEASE_ENV = 92
    RELEASE_STATUS = 93
    RELEASE_MEMORY_INFO = 94
    RELEASE_SESSION = 95
    RELEASE_VALUE = 96
    RELEASE_TENSOR_TYPE_AND_SHAPE_INFO = 99
    RELEASE_SESSION_OPTIONS = 100
    ADD_SESSION_CONFIG_ENTRY = 130
    SESSION_OPTIONS_APPEND_EXECUTION_PROVIDER = 216
    GET_EP_DEVICES = 303
    SESSION_OPTIONS_APPEND_EXECUTION_PROVIDER_V2 = 304
    SESSION_OPTIONS_SET_EP_SELECTION_POLICY = 305
    EP_DEVICE_EP_NAME = 312
    GET_EXPERIMENTAL_FUNCTION = 422  # since 1.28
    GET_MODEL_PACKAGE_API = 427  # since 1.31


API_PROTOTYPES: dict[ApiSlot, Prototype] = {
    ApiSlot.GET_ERROR_CODE: (ctypes.c_int, (_STATUS,)),
    ApiSlot.GET_ERROR_MESSAGE: (_TEXT, (_STATUS,)),
    ApiSlot.CREATE_ENV: (_STATUS, (ctypes.c_int, _TEXT, _OUT)),
    ApiSlot.CREATE_SESSION: (_STATUS, (_HANDLE, PATH, _HANDLE, _OUT)),
    ApiSlot.RUN: (
        _STATUS,
        (_HANDLE, _HANDLE, ctypes.POINTER(_TEXT), _OUT, _SIZE, ctypes.POINTER(_TEXT), _SIZE, _OUT),
    ),
    ApiSlot.CREATE_SESSION_OPTIONS: (_STATUS, (_OUT,)),
    ApiSlot.SESSION_GET_OUTPUT_COUNT: (_STATUS, (_HANDLE, _OUT_SIZE)),
    ApiSlot.SESSION_GET_OUTPUT_NAME: (_STATUS, (_HANDLE, _SIZE, _HANDLE, _OUT)),
    ApiSlot.CREATE_TENSOR_WITH_DATA_AS_ORT_VALUE: (
        _STATUS,
        (_HANDLE, ctypes.c_void_p, _SIZE, _OUT_INT64, _SIZE, ctypes.c_int, _OUT),
    ),
    ApiSlot.GET_TENSOR_MUTABLE_DATA: (_STATUS, (_HANDLE, _OUT)),
    ApiSlot.GET_TENSOR_ELEMENT_TYPE: (_STATUS, (_HANDLE, ctypes.POINTER(ctypes.c_int))),
    ApiSlot.GET_DIMENSIONS_COUNT: (_STATUS, (_HANDLE, _OUT_SIZE)),
    ApiSlot.GET_DIMENSIONS: (_STATUS, (_HANDLE, _OUT_INT64, _SIZE)),
    ApiSlot.GET_TENSOR_SHAPE_ELEMENT_COUNT: (_STATUS, (_HANDLE, _OUT_SIZE)),
    ApiSlot.GET_TENSOR_TYPE_AND_SHAPE: (_STATUS, (_HANDLE, _OUT)),
    ApiSlot.CREATE_CPU_MEMORY_INFO: (_STATUS, (ctypes.c_int, ctypes.c_int, _OUT)),
    ApiSlot.ALLOCATOR_FREE: (_STATUS, (_HANDLE, ctypes.c_void_p)),
    ApiSlot.GET_ALLOCATOR_WITH_DEFAULT_OPTIONS: (_STATUS, (_OUT,)),
    ApiSlot.RELEASE_ENV: (None, (_HANDLE,)),
    ApiSlot.RELEASE_STATUS: (None, (_HANDLE,)),
    ApiSlot.RELEASE_MEMORY_INFO: (None, (_HANDLE,)),
    ApiSlot.RELEASE_SESSION: (None, (_HANDLE,)),
    ApiSlot.RELEASE_VALUE: (None, (_HANDLE,)),
    ApiSlot.RELEASE_TENSOR_TYPE_AND_SHAPE_INFO: (None, (_HANDLE,)),
    ApiSlot.RELEASE_SESSION_OPTIONS: (None, (_HANDLE,)),
    ApiSlot.ADD_SESSION_CONFIG_ENTRY: (_STATUS, (_HANDLE, _TEXT, _TEXT)),
    ApiSlot.SESSION_OPTIONS_APPEND_EXECUTION_PROVIDER: (
        _STATUS,
        (_HANDLE, _TEXT, ctypes.POINTER(_TEXT), ctypes.POINTER(_TEXT), _SIZE),
    ),
    ApiSlot.GET_EP_DEVICES: (_STATUS, (_HANDLE, _OUT, _OUT_SIZE)),
    ApiSlot.SESSION_OPTIONS_APPEND_EXECUTION_PROVIDER_V2: (
        _STATUS,
        (_HANDLE, _HANDLE, _OUT, _SIZE, ctypes.POINTER(_TEXT), ctypes.POINTER(_TEXT), _SIZE),
    ),
    ApiSlot.SESSION_OPTIONS_SET_EP_SELECTION_POLICY: (_STATUS, (_HANDLE, ctypes.c_int)),
    ApiSlot.EP_DEVICE_EP_NAME: (_TEXT, (_HANDLE,)),
    ApiSlot.GET_EXPERIMENTAL_FUNCTION: (ctypes.c_void_p, (_TEXT,)),
    ApiSlot.GET_MODEL_PACKAGE_API: (ctypes.c_void_p, ()),
}


class PackageSlot(IntEnum):
    """Positions in the ``OrtModelPackageApi`` of 1.31."""

    CREATE_OPTIONS_FROM_SESSION_OPTIONS = 0
    RELEASE_OPTIONS = 1
    CREATE_CONTEXT = 2
    RELEASE_CONTEXT = 3
    GET_SCHEMA_VERSION = 4
    GET_COMPONENT_NAMES = 6
    GET_VARIANT_NAMES = 8
    GET_VARIANT_EP_NAME = 9
    RESOLVE_STRING_REF = 10
    SELECT_COMPONENT = 11
    RELEASE_COMPONENT_CONTEXT = 12
    GET_SELECTED_VARIANT_NAME = 13
    GET_SELECTED_VARIANT_FOLDER_PATH = 14
    CREATE_SESSION = 15


PACKAGE_PROTOTYPES: dict[PackageSlot, Prototype] = {
    PackageSlot.CREATE_OPTIONS_FROM_SESSION_OPTIONS: (_STATUS, (_HANDLE, _HANDLE, _OUT)),
    PackageSlot.RELEASE_OPTIONS: (None, (_HANDLE,)),
    PackageSlot.CREATE_CONTEXT: (_STATUS, (PATH, _OUT)),
    PackageSlot.RELEASE_CONTEXT: (None, (_HANDLE,)),
    PackageSlot.GET_SCHEMA_VERSION: (_STATUS, (_HANDLE, _OUT_INT64)),
    PackageSlot.GET_COMPONENT_NAMES: (_STATUS, (_HANDLE, _OUT, _OUT_SIZE)),
    PackageSlot.GET_VARIANT_NAMES: (_STATUS, (_HANDLE, _TEXT, _OUT, _OUT_SIZE)),
    PackageSlot.GET_VARIANT_EP_NAME: (_STATUS, (_HANDLE, _TEXT, _TEXT, ctypes.POINTER(_TEXT))),
    PackageSlot.RESOLVE_STRING_REF: (
        _STATUS,
        (_HANDLE, _TEXT, _TEXT, ctypes.c_int, ctypes.POINTER(_TEXT)),
    ),
    PackageSlot.SELECT_COMPONENT: (_STATUS, (_HANDLE, _TEXT, _HANDLE, _OUT)),
    PackageSlot.RELEASE_COMPONENT_CONTEXT: (None, (_HANDLE,)),
    PackageSlot.GET_SELECTED_VARIANT_NAME: (_STATUS, (_HANDLE, ctypes.POINTER(_TEXT))),
    PackageSlot.GET_SELECTED_VARIANT_FOLDER_PATH: (_STATUS, (_HANDLE, ctypes.POINTER(PATH))),
    PackageSlot.CREATE_SESSION: (_STATUS, (_HANDLE, _HANDLE, _HANDLE, _OUT)),
}

#: The names by which 1.28 to 1.30 find the same functions.
EXPERIMENTAL_NAMES: dict[PackageSlot, str] = {
    PackageSlot.CREATE_OPTIONS_FROM_SESSION_OPTIONS: "CreateModelPackageOptionsFromSessionOptions",
    PackageSlot.RELEASE_OPTIONS: "ReleaseModelPackageOptions",
    PackageSlot.CREATE_CONTEXT: "CreateModelPackageContext",
    PackageSlot.RELEASE_CONTEXT: "ReleaseModelPackageContext",
    PackageSlot.GET_SCHEMA_VERSION: "ModelPackage_GetSchemaVersion",
    PackageSlot.GET_COMPONENT_NAMES: "ModelPackage_GetComponentNames",
    PackageSlot.GET_VARIANT_NAMES: "ModelPackage_GetVariantNames",
    PackageSlot.GET_VARIANT_EP_NAME: "ModelPackage_GetVariantEpName",
    PackageSlot.RESOLVE_STRING_REF: "ModelPackage_ResolveStringRef",
    PackageSlot.SELECT_COMPONENT: "SelectComponent",
    PackageSlot.RELEASE_COMPONENT_CONTEXT: "ReleaseModelPackageComponentContext",
    PackageSlot.GET_SELECTED_VARIANT_NAME: "ModelPackageComponent_GetSelectedVariantName",
    PackageSlot.GET_SELECTED_VARIANT_FOLDER_PATH: (
        "ModelPackageComponent_GetSelectedVariantFolderPath"
    ),
    PackageSlot.CREATE_SESSION: "CreateSession",
}


def experimental_name(slot: PackageSlot) -> str:
    """The full name that ``OrtApi::GetExperimentalFunction`` of 1.28 to 1.30 knows."""
    return f"OrtModelPackageApi_{EXPERIMENTAL_NAMES[slot]}_SinceV28"
