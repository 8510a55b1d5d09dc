"""Packages as OCI artifacts: a manifest, a layer of documents, and a layer for each other file.

docs/registry.md describes the format.

The digest of a file's layer is the SHA-256 that ``digests.json`` records. Equal files of different
variants, versions and packages are therefore stored in a registry once, and a download is verified
against the digest that names it. Manifest, config, media types and annotations follow the CNCF
model specification (ModelPack, docs/spec.md); what only ortpkg needs is in annotations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ortpkg.distribution.registry.descriptors import Descriptor, parse_annotations, parse_descriptor
from ortpkg.distribution.registry.repository import MANIFEST_MEDIA_TYPE, MOST_MANIFEST_NBYTES
from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.documents.json_limits import parse_counted_json
from ortpkg.foundations.errors import ArtifactFormatError, PackageFormatError, quoted
from ortpkg.package.integrity.digests import check_recordable
from ortpkg.package.paths.path_text import why_not_portable

ARTIFACT_TYPE = "application/vnd.cncf.model.manifest.v1+json"
CONFIG_MEDIA_TYPE = "application/vnd.cncf.model.config.v1+json"
DOCUMENTS_MEDIA_TYPE = "application/vnd.cncf.model.weight.config.v1.tar+gzip"
_LAYER_PREFIX = "application/vnd.cncf.model."
_RAW_SUFFIX = ".v1.raw"

_FILE_PATH = "org.cncf.model.filepath"
_FILE_METADATA = "org.cncf.model.file.metadata+json"
_TITLE = "org.opencontainers.image.title"
_VERSION = "org.opencontainers.image.version"
_DESCRIPTION = "org.opencontainers.image.description"
_UNPACK = "io.deis.oras.content.unpack"
_UNPACKED_DIGEST = "io.deis.oras.content.digest"
_PACKAGE_DIGEST = "dev.ortpkg.package-digest"
_LAYER = "dev.ortpkg.layer"
_DOCUMENTS = "documents"
_VARIANTS = "dev.ortpkg.variants"

_MOST_LAYERS = 100_000
_MOST_DESCRIPTION_CHARACTERS = 1000
_LIMITS = DocumentLimits(nbytes=MOST_MANIFEST_NBYTES, depth=16, values=2_000_000)
_CONFIGURATIONS = (".json", ".txt", ".model", ".jinja", ".yaml", ".yml")
_DOCUMENTATION = (".md", ".rst", ".pdf")
_DOCUMENTATION_NAMES = ("license", "notice", "readme", "copying")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """File of a package that has a layer of its own.

    Attributes:
        path: Path in the package.
        layer: Descriptor of its bytes; the digest is the one in ``digests.json``.
        variants: ``component/variant`` of the variants that need the file. None if the author of
            the artifact does not say; then the file's path decides.
    """

    path: str
    layer: Descriptor
    variants: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageArtifact:
    """Package as its manifest describes it.

    Attributes:
        name, version, description: Shown to people; "" if the package has none.
        package_digest: SHA-256 over all files, as in ``digests.json``.
        config: Descriptor of the ModelPack configuration.
        documents: Descriptor of the layer of documents.
        files: All other files by path.
        annotations: Annotations of the manifest, including those of other tools.
    """

    name: str
    version: str
    description: str
    package_digest: str
    config: Descriptor
    documents: Descriptor
    files: Mapping[str, PackageFile]
    annotations: Mapping[str, str] = field(default=EMPTY)

    @property
    def nbytes(self) -> int:
        """Size of all layers in bytes; files with equal content share one layer and count once."""
        layers = {file.layer.digest: file.layer.nbytes for file in self.files.values()}
        return self.documents.nbytes + sum(layers.values())


def documents_descriptor(*, digest: str, nbytes: int, tar_digest: str) -> Descriptor:
    """Return the descriptor of the layer of documents.

    oras unpacks the layer when it pulls; tools of the model specification recognize it by its media
    type.

    Args:
        digest: Digest of the layer.
        nbytes: Size of the layer.
        tar_digest: Digest of the tar archive inside the gzip frame.
    """
    annotations = {
        _FILE_PATH: ".",
        _TITLE: ".",
        _UNPACK: "true",
        _UNPACKED_DIGEST: tar_digest,
        _LAYER: _DOCUMENTS,
    }
    return Descriptor(
        media_type=DOCUMENTS_MEDIA_TYPE, digest=digest, nbytes=nbytes, annotations=annotations
    )


def file_descriptor(
    path: str, *, sha256: str, nbytes: int, variants: tuple[str, ...] | None = None
) -> Descriptor:
    """Return the descriptor of one file's layer; equal files always give equal descriptors."""
    metadata = {
        "name": path.rpartition("/")[2],
        "mode": 0o644,
        "uid": 0,
        "gid": 0,
        "size": nbytes,
        "mtime": "1970-01-01T00:00:00Z",
        "typeflag": ord("0"),
    }
    annotations = {
        _FILE_PATH: path,
        _TITLE: path,
        _FILE_METADATA: json.dumps(metadata, separators=(",", ":")),
    }
    if variants is not None:
        annotations[_VARIANTS] = json.dumps(variants, separators=(",", ":"))
    return Descriptor(
        media_type=f"{_LAYER_PREFIX}{_kind_of(path)}{_RAW_SUFFIX}",
        digest=f"sha256:{sha256}",
        nbytes=nbytes,
        annotations=annotations,
    )


def model_config(
    *, name: str, version: str, description: str, precision: str, diff_ids: tuple[str, ...]
) -> bytes:
    """Return the ModelPack configuration of a package.

    It has no times: equal packages, equal bytes.
    """
    texts = {"name": name, "version": version, "description": description}
    document = {
        "descriptor": {key: text for key, text in texts.items() if text},
        "config": {"format": "onnx"} | ({"precision": precision} if precision else {}),
        "modelfs": {"type": "layers", "diffIds": list(diff_ids)},
    }
    return _canonical(document)


def dump_artifact(artifact: PackageArtifact) -> bytes:
    """Return the bytes of the manifest.

    Raises:
        ArtifactFormatError: The manifest is larger than registries must accept.
    """
    texts = {
        _TITLE: artifact.name,
        _VERSION: artifact.version,
        _DESCRIPTION: artifact.description[:_MOST_DESCRIPTION_CHARACTERS],
        _PACKAGE_DIGEST: artifact.package_digest,
    }
    layers = [artifact.documents, *(file.layer for _, file in sorted(artifact.files.items()))]
    content = _canonical(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_MEDIA_TYPE,
            "artifactType": ARTIFACT_TYPE,
            "config": artifact.config.to_json(),
            "layers": [layer.to_json() for layer in layers],
            "annotations": {
                **artifact.annotations,
                **{key: text for key, text in texts.items() if text},
            },
        }
    )
    if len(content) > MOST_MANIFEST_NBYTES:
        raise ArtifactFormatError(
            f"a manifest of {len(layers)} layers has {len(content)} bytes, and registries need not"
            f" take more than {MOST_MANIFEST_NBYTES}: make one package of fewer files",
            registry="",
        )
    return content


def parse_artifact(content: bytes, *, registry: str) -> PackageArtifact:
    """Parse a package's manifest; the manifest is not trusted.

    Args:
        content: Bytes of the manifest; the caller has verified their digest.
        registry: Source of the manifest, for messages.

    Raises:
        ArtifactFormatError: The manifest does not describe a package, contains a path that is
            unsafe or not portable, or exceeds a limit. The error names the layer.
    """
    try:
        document = parse_document(content, document="the manifest", limits=_LIMITS)
    except PackageFormatError as error:
        raise ArtifactFormatError(
            f"{registry} has a manifest that is no JSON document: {error}", registry=registry
        ) from None  # it quotes the manifest
    artifact_type = document.get("artifactType")
    if artifact_type != ARTIFACT_TYPE:
        media_type = artifact_type or document.get("mediaType")
        raise ArtifactFormatError(
            f"{registry} is no model package: its manifest is of type {quoted(media_type)}, a"
            f" package's is {ARTIFACT_TYPE}",
            registry=registry,
        )
    return _ArtifactParser(registry).parse(document)


class _ArtifactParser:
    def __init__(self, registry: str) -> None:
        self._registry = registry

    def parse(self, document: Mapping[str, Any]) -> PackageArtifact:
        """Return the artifact of a manifest; the first problem raises an error."""
        layers = document.get("layers")
        if not isinstance(layers, list) or not 0 < len(layers) <= _MOST_LAYERS:
            raise self._wrong(f"layers is not a list of 1 to {_MOST_LAYERS} descriptors")
        config = self._descriptor(document.get("config"), "config")
        if config.media_type != CONFIG_MEDIA_TYPE:
            raise self._wrong(f"config is of type {quoted(config.media_type)}", config.digest)
        documents: Descriptor | None = None
        files: dict[str, PackageFile] = {}
        paths: dict[str, str] = {}
        for number, value in enumerate(layers):
            layer = self._descriptor(value, f"layers/{number}")
            if layer.annotations.get(_LAYER) == _DOCUMENTS:
                if documents is not None or layer.media_type != DOCUMENTS_MEDIA_TYPE:
                    raise self._wrong(
                        f"layer {number} is a second layer of documents, or is not of type"
                        f" {DOCUMENTS_MEDIA_TYPE}",
                        layer.digest,
                    )
                documents = layer
                continue
            file = self._file(layer, number)
            if other := paths.get(file.path.casefold()):
                raise self._wrong(
                    f"layer {number} is {quoted(file.path)}, and so is another ({quoted(other)})",
                    file.path,
                )
            paths[file.path.casefold()] = file.path
            files[file.path] = file
        if documents is None:
            raise self._wrong(
                f'no layer has the annotation {_LAYER}: "{_DOCUMENTS}": the artifact was not'
                " published by ortpkg push"
            )
        return self._artifact(document, config, documents, files)

    def _artifact(
        self,
        document: Mapping[str, Any],
        config: Descriptor,
        documents: Descriptor,
        files: Mapping[str, PackageFile],
    ) -> PackageArtifact:
        try:
            annotations = parse_annotations(document.get("annotations"))
        except ValueError as error:
            raise self._wrong(str(error)) from error
        return PackageArtifact(
            name=annotations.get(_TITLE, ""),
            version=annotations.get(_VERSION, ""),
            description=annotations.get(_DESCRIPTION, ""),
            package_digest=annotations.get(_PACKAGE_DIGEST, ""),
            config=config,
            documents=documents,
            files=files,
            annotations=annotations,
        )

    def _file(self, layer: Descriptor, number: int) -> PackageFile:
        path = layer.annotations.get(_FILE_PATH, "")
        if not layer.media_type.startswith(_LAYER_PREFIX) or not layer.media_type.endswith(
            _RAW_SUFFIX
        ):
            raise self._wrong(
                f"layer {number} ({quoted(path)}) is of type {quoted(layer.media_type)}: a file of"
                f" a package is of a type {_LAYER_PREFIX}...{_RAW_SUFFIX}",
                path or layer.digest,
            )
        reason = "has no path" if not path else why_not_portable(path)
        try:
            check_recordable(Path(), [path])
        except PackageFormatError:
            reason = reason or "is not a plain relative path"
        if reason:
            raise self._wrong(f"layer {number} is {quoted(path)}, which {reason}", path)
        return PackageFile(path=path, layer=layer, variants=self._variants(layer, path))

    def _variants(self, layer: Descriptor, path: str) -> tuple[str, ...] | None:
        text = layer.annotations.get(_VARIANTS)
        if text is None:
            return None
        try:
            names = parse_counted_json(text.encode(), "the annotation", _LIMITS).value
        except PackageFormatError:
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise self._wrong(
                f"annotation {_VARIANTS} of {quoted(path)} is not a JSON list of names", path
            )
        return tuple(names)

    def _descriptor(self, value: Any, where: str) -> Descriptor:
        try:
            return parse_descriptor(value)
        except ValueError as error:
            raise self._wrong(f"{where}: {error}", where) from None

    def _wrong(self, what: str, layer: str = "") -> ArtifactFormatError:
        return ArtifactFormatError(
            f"the manifest of {self._registry} is wrong: {what}",
            registry=self._registry,
            layer=layer,
        )


def _kind_of(path: str) -> str:
    """Return the layer kind of the model specification that fits a file."""
    name = path.rpartition("/")[2].lower()
    if name.endswith(_DOCUMENTATION) or name.partition(".")[0] in _DOCUMENTATION_NAMES:
        return "doc"
    if path.startswith("samples/"):
        return "dataset"
    return "weight.config" if name.endswith(_CONFIGURATIONS) else "weight"


def _canonical(document: Mapping[str, Any]) -> bytes:
    """Return JSON with sorted keys and no spaces, so that equal documents have equal digests."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()
