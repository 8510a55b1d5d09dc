"""Names that onnxruntime writes in Python, most as ``capi.onnxruntime_pybind11_state`` has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ortpkg.capi import onnxruntime_pybind11_state

#: Under the name that onnxruntime gives the native module.
C = onnxruntime_pybind11_state


def __getattr__(name: str) -> Any:
    return getattr(onnxruntime_pybind11_state, "InferenceSession" if name == "Session" else name)


def get_ort_device_type(device_type: str) -> int:
    """The number of the kind of device that a name such as "cuda" means.

    UsageError for an unknown name.
    """
    from ortpkg.runtime.session.values.ort_device import (
        OrtDevice,  # with the session, not with its exceptions
    )

    return OrtDevice.dml() if device_type == "dml" else OrtDevice.make(device_type, 0).device_type()


def check_and_normalize_provider_args(
    providers: Sequence[Any] | None,
    provider_options: Sequence[Mapping[Any, Any]] | None,
    available_provider_names: Sequence[str],
) -> tuple[list[str], list[dict[str, str]]]:
    """Names and options as two lists: each provider once, and only the available ones.

    Raises InvalidSessionOptionError (a ValueError too) where the arguments have no such form.
    """
    from ortpkg.runtime.session.caller_warnings import (
        warn_caller,  # with the session, not with its exceptions
    )
    from ortpkg.runtime.session.session_providers import normalized_providers

    kept: dict[str, dict[str, str]] = {}
    for name, options in normalized_providers(
        providers or (), provider_options if providers else None
    ):
        if name in kept:
            warn_caller(f"execution provider {name!r} is named twice")
        elif name not in available_provider_names:
            warn_caller(
                f"execution provider {name!r} is left out; available are"
                f" {', '.join(available_provider_names)}"
            )
        else:
            kept[name] = options
    return list(kept), list(kept.values())
