"""A session as a backend of the onnx package."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx.backend.base import BackendRep as _Prepared

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import RunOptions, SessionOptions

Model = onnx.ModelProto | bytes | str | os.PathLike[str]


class BackendRep(_Prepared):  # type: ignore[misc]  # onnx has no types here
    """A session that takes its inputs by position."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> Sequence[Any]:
        """The outputs for inputs in a list by position, a mapping by name, or a single array.

        ``kwargs``: attributes of the run options. UsageError for too many or too few inputs, or no
            such attribute.
        """
        options = _with_attributes(RunOptions(), kwargs)
        return self._session.run(None, self._feeds(inputs), options)

    def _feeds(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        names = [declared.name for declared in self._session.get_inputs()]
        if isinstance(inputs, list | tuple):
            if len(inputs) != len(names):
                raise UsageError(f"the model has {len(names)} inputs, not {len(inputs)}")
            return dict(zip(names, inputs, strict=True))
        if len(names) != 1:
            raise UsageError(f"the model has {len(names)} inputs; give them as a list")
        return {names[0]: inputs}


def prepare(
    model: Model | InferenceSession | BackendRep, device: str | None = None, **kwargs: Any
) -> BackendRep:
    """Makes a model ready to run.

    Args:
        model: a path, bytes, a ModelProto, or a session.
        device: "CPU", or None.
        kwargs: attributes of the session options.

    Raises UsageError for another device, or no such attribute; else as sessions do.
    """
    if isinstance(model, BackendRep):
        return model
    if isinstance(model, InferenceSession):
        return BackendRep(model)
    if device is not None and not supports_device(device):
        raise UsageError(
            f"device {quoted(device)} is not supported: the embedded engine computes on the CPU"
        )
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    return BackendRep(
        InferenceSession(source, _with_attributes(SessionOptions(), kwargs), [CPU_EP])
    )


def run_model(model: Model, inputs: Any, device: str | None = None, **kwargs: Any) -> Sequence[Any]:
    """:func:`prepare` and run, once."""
    return prepare(model, device, **kwargs).run(inputs)


def supports_device(device: str) -> bool:
    """Return True if a model can be prepared for ``device`` ("CPU", or with a number "CPU:0")."""
    return device.partition(":")[0].upper() == "CPU"


def is_compatible(model: Model, device: str | None = None, **kwargs: Any) -> bool:
    """Return True if the device is supported; :func:`prepare` tells if a model can run."""
    del model, kwargs  # as onnxruntime's
    return device is None or supports_device(device)


def _with_attributes(options: Any, attributes: Mapping[str, Any]) -> Any:
    for name, value in attributes.items():
        if name.startswith("_") or not hasattr(options, name):
            raise UsageError(f"{type(options).__name__} has no attribute {quoted(name)}")
        setattr(options, name, value)
    return options
