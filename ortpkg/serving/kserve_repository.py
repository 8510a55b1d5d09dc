"""KServe's repository and data plane for our versions.

They find models and never load or unload.
"""

from __future__ import annotations

from typing import Any

from kserve import ModelRepository
from kserve.protocol.dataplane import DataPlane

from ortpkg.serving.answering import Answering
from ortpkg.serving.kserve_model import PackageModel
from ortpkg.serving.served_versions import ServedVersions
from ortpkg.version import __version__

#: Separator of name and version in a key of the repository, as in the protocol's paths.
_VERSIONS = "/versions/"


def key_of(name: str, version: str | None) -> str:
    """Return the repository key of a version of a model; without one, of its default."""
    return f"{name}{_VERSIONS}{version or ''}"


class VersionedRepository(ModelRepository):
    """Models of a server by :func:`key_of`."""

    def __init__(self, versions: ServedVersions, answering: Answering) -> None:
        super().__init__()
        self.versions = versions
        self.answering = answering

    def get_model(self, name: str) -> PackageModel:
        """Return the model of a key.

        Raises:
            UnknownModelError: There is none.
        """
        model_name, _, version = name.rpartition(_VERSIONS)
        return PackageModel(self.versions.find(model_name, version or None))

    def get_models(self) -> dict[str, PackageModel]:
        """Return the version of each name that answers by default."""
        return {name: self.get_model(key_of(name, None)) for name in self.versions.names()}


class PackageDataPlane(DataPlane):
    """KServe's data plane for the models of this server, under ortpkg's name.

    Attributes:
        is_ready: True if every model has had its first run and the server is not about to end.
    """

    def __init__(self, repository: VersionedRepository) -> None:
        super().__init__(repository)
        self.versions = repository.versions
        self.answering = repository.answering
        self.is_ready = False

    def metadata(self) -> dict[str, Any]:
        """Return the server's name, version and extensions of the protocol."""
        return {
            "name": "ortpkg",
            "version": __version__,
            "extensions": ["binary_tensor_data", "generate"],
        }

    async def ready(self) -> bool:
        """Return ``is_ready``."""
        return self.is_ready

    async def get_model(self, name: str) -> PackageModel:
        """Return the model of a key; models in the repository are ready."""
        model: PackageModel = self.model_registry.get_model(name)
        return model

    async def versioned_metadata(self, name: str, version: str | None) -> dict[str, Any]:
        """Return the versions, inputs and outputs of a model."""
        metadata = await self.model_metadata(key_of(name, version))
        return {
            **metadata,
            "name": name,
            "platform": "onnx_ortpkg",
            "versions": list(self.versions.versions(name)),
        }
