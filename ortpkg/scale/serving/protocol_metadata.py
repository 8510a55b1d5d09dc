"""Metadata of a server and of its models, equal over HTTP and gRPC."""

from __future__ import annotations

from typing import Any

from ortpkg.foundations.version import __version__
from ortpkg.scale.serving.served_versions import ServedVersions


def server_metadata() -> dict[str, Any]:
    """Return the server's name, version and extensions of the protocol."""
    extensions = ["binary_tensor_data", "generate"]
    return {"name": "ortpkg", "version": __version__, "extensions": extensions}


def model_metadata(versions: ServedVersions, name: str, version: str | None) -> dict[str, Any]:
    """Return the versions, inputs and outputs of a model.

    Raises:
        UnknownModelError, NotServingError: See :meth:`ServedVersions.find`.
    """
    model = versions.find(name, version)
    return {
        "name": model.name,
        "versions": list(versions.versions(model.name)),
        "platform": "onnx_ortpkg",
        "inputs": [spec.metadata for spec in model.inputs],
        "outputs": [spec.metadata for spec in model.outputs],
    }
