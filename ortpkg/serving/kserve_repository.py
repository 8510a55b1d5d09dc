"""KServe's repository and data plane over our versions: they find, and never load or unload."""

from __future__ import annotations

from typing import Any

from kserve import ModelRepository
from kserve.protocol.dataplane import DataPlane

from ortpkg.serving.answering import Answering
from ortpkg.serving.kserve_model import PackageModel
from ortpkg.serving.served_versions import ServedVersions
from ortpkg.version import __version__

#: Between the name and the version of a key of the repository, as in the protocol's paths.
_VERSIONS = "/versions/"


def key_of(name: str, version: str | None) -> str:
    """Under what a version of a model stands in the repository; without one, its default."""
    return f"{name}{_VERSIONS}{version or ''}"


class VersionedRepository(ModelRepository):
    """The models of a server by :func:`key_of`."""

    def __init__(self, versions: ServedVersions, answering: Answering) -> None:
        super().__init__()
        self.versions = versions
        self.answering = answering

    def get_model(self, name: str) -> PackageModel:
        """The model of a key. UnknownModelError where there is none."""
        model_name, _, version = name.rpartition(_VERSIONS)
        return PackageModel(self.versions.find(model_name, version or None))

    def get_models(self) -> dict[str, PackageModel]:
        """Name → the version that answers by default."""
        return {name: self.get_model(key_of(name, None)) for name in self.versions.names()}


class PackageDataPlane(DataPlane):
    """KServe's data plane, over the models of this server and under ortpkg's name.

    Attributes:
        is_ready: whether every model has had its first run, and the server is not about to end.
    """

    def __init__(self, repository: VersionedRepository) -> None:
        super().__init__(repository)
        self.versions = repository.versions
        self.answering = repository.answering
        self.is_ready = False

    def metadata(self) -> dict[str, Any]:
        """The server's name, version and the extensions of the protocol that it has."""
        return {
            "name": "ortpkg",
            "version": __version__,
            "extensions": ["binary_tensor_data", "generate"],
        }

    async def ready(self) -> bool:
        """See ``is_ready``."""
        return self.is_ready

    async def get_model(self, name: str) -> PackageModel:
        """The model of a key; it is ready, or it would not be there."""
        model: PackageModel = self.model_registry.get_model(name)
        return model

    async def versioned_metadata(self, name: str, version: str | None) -> dict[str, Any]:
        """The metadata of a model: its versions, inputs and outputs."""
        told = await self.model_metadata(key_of(name, version))
        return {
            **told,
            "name": name,
            "platform": "onnx_ortpkg",
            "versions": list(self.versions.versions(name)),
        }
