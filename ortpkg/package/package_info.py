"""Content of a model package as frozen values: package → component models → variants.

Nothing here opens a file. Vocabulary and structure: pull request 27786 of onnxruntime (model
package). A reader makes these values only from documents that passed every check, so their users
need not check again. All paths are absolute, resolved and confined to the package (or, for an
``installed`` layout, allowed by the caller).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.foundations.documents.finding_collector import json_pointer
from ortpkg.foundations.documents.frozen import EMPTY


class PackageFormat(StrEnum):
    """Generation of the format on disk (facts: README, "formats").

    METADATA: manifest.json + models/<component>/metadata.json (onnxruntime 1.26, 1.27).
    COMPONENT: schema_version 1.x, manifest.json + component.json (onnxruntime 1.28 on).
    UNIVERSAL: one directory that both can read.
    """

    METADATA = "metadata"
    COMPONENT = "component"
    UNIVERSAL = "universal"


class Constraints(NamedTuple):
    """Requirements of a variant. ``None`` means any EP, any device, any architecture.

    ``ep`` is ONNX Runtime's full name ("CPUExecutionProvider"); ``device`` is lower case ("cpu",
    "gpu", "npu"); ``ep_compatibility_info`` is the opaque string that the EP stored in the compiled
    model.
    """

    ep: str | None = None
    device: str | None = None
    architecture: str | None = None
    ep_compatibility_info: str | None = None


NO_CONSTRAINTS = Constraints()


class ValueInfo(NamedTuple):
    """Input or output of a model or of the whole package.

    ``type`` is ONNX Runtime's text form ("tensor(float)"). Each dimension of ``shape`` is a size, a
    symbol, or None for unknown; ``shape`` is None if the rank is unknown or the value is not a
    tensor. ``value_range`` are the values of black and white in an image, so that a picture can be
    fed; None if unstated.
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...] | None = None
    value_range: tuple[float, float] | None = None


class Source(NamedTuple):
    """Place of a declaration, for messages: a document and a JSON pointer into it."""

    document: str
    pointer: str = ""

    def below(self, *tokens: str | int) -> Source:
        """Return the place at ``tokens`` below this one."""
        return Source(document=self.document, pointer=self.pointer + json_pointer(*tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantInfo:
    """One way to run a component model: usually one ONNX file, or a set of files (GenAI).

    Attributes:
        name: unique within its component.
        component_name: the component that it belongs to.
        directory: absolute directory of its files.
        model_path: absolute path of the ONNX file; None for a GenAI variant, which is a set of
            files.
        constraints: its requirements.
        session_options, provider_options: as the package states them; untrusted, filtered at
            session creation.
        executor_info: executor → its options, as the component generation states them ("ort" is
            onnxruntime); opaque.
        component_constraints: the component generation's keys, exactly as written (``ep``,
            ``device``, ``ep_compatibility_info`` for ``compatibility_string``), by which
            onnxruntime 1.28 on selects. None if the package has no such keys.
        has_directory: True if ``directory`` exists; always, unless the package was read by
            compatible rules.
        is_absent: True if files that it needs are recorded in digests.json and not on the disk: the
            package is sparse.
        metadata: facts about the variant (data types, quantization, opset, file size, ...).
        additional_metadata: opaque, survives a round trip.
        source: place of its declaration.
    """

    name: str
    component_name: str
    directory: Path
    model_path: Path | None
    constraints: Constraints = NO_CONSTRAINTS
    session_options: Mapping[str, str] = EMPTY
    provider_options: Mapping[str, str] = EMPTY
    executor_info: Mapping[str, Any] = EMPTY
    component_constraints: Constraints | None = None
    has_directory: bool = True
    is_absent: bool = False
    metadata: Mapping[str, Any] = EMPTY
    additional_metadata: Any = None
    source: Source = field(default_factory=lambda: Source(document=""))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentInfo:
    """One model of the package with its variants, a tuple (or the like) in declaration order."""

    name: str
    directory: Path
    variants: Sequence[VariantInfo]
    metadata: Mapping[str, Any] = EMPTY
    additional_metadata: Any = None
    source: Source = field(default_factory=lambda: Source(document=""))

    def variant(self, name: str) -> VariantInfo | None:
        """Return the variant of that name; None if there is none."""
        return next((variant for variant in self.variants if variant.name == name), None)


class SharedAsset(NamedTuple):
    """Folder that several variants may use, named by its content's digest.

    Attributes:
        uri: ``sha256:<64 lower-case hex digits>``; see
            :func:`ortpkg.package.integrity.asset_digest.directory_digest`. Opening does not compare
            it with the content.
        path: absolute path of the folder.
        is_declared: True if the manifest states the path; otherwise the folder was found in
            ``shared_assets/``.
    """

    uri: str
    path: Path
    is_declared: bool


class Layout(StrEnum):
    """Layout that a package of the component generation states.

    PORTABLE: every path lies in the package.
    INSTALLED: paths may lead out of it, if the caller allows that.
    """

    PORTABLE = "portable"
    INSTALLED = "installed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInfo:
    """A whole package; ``components`` are in execution order.

    Attributes:
        root: the real path of its directory.
        name: ``model_name`` or ``package_name``; if it has none, the directory's name without
            ".ortpackage".
        compat: the release by whose rules it was read; None for the strict ones.
        is_bare_model: it is not a package but one ONNX file, ``root``; ``format`` then means
            nothing.
        shared_assets: in the order in which onnxruntime lists them.
        is_olives: its documents have the form of Olive 0.13, which is read as the component
            generation, and never written.
        absent_files: path relative to the root, with ``/`` → bytes, of recorded files that are not
            on the disk; empty if every file looked for was found.
    """

    root: Path
    name: str
    version: str | None
    format: PackageFormat
    components: tuple[ComponentInfo, ...]
    schema_version: tuple[int, int] | None = None
    description: str | None = None
    inputs: tuple[ValueInfo, ...] = ()
    outputs: tuple[ValueInfo, ...] = ()
    additional_metadata: Any = None
    has_pipeline: bool = False
    has_samples: bool = False
    layout: Layout = Layout.PORTABLE
    shared_assets: tuple[SharedAsset, ...] = ()
    compat: str | None = None
    is_bare_model: bool = False
    is_olives: bool = False
    absent_files: Mapping[str, int] = EMPTY
    _by_name: Mapping[str, ComponentInfo] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The first of several components with one name counts.
        by_name = {
            self._as_looked_up(component.name): component for component in reversed(self.components)
        }
        object.__setattr__(self, "_by_name", by_name)

    def component(self, name: str) -> ComponentInfo | None:
        """Return the component of that name; None if there is none.

        By the rules of a release, names end at a NUL.
        """
        return self._by_name.get(self._as_looked_up(name))

    @property
    def is_pipeline(self) -> bool:
        """True if its component models run together: with a pipeline.json, or if it has several.

        A release, by whose rules the package may be read, runs one at a time.
        """
        return self.has_pipeline or (len(self.components) > 1 and self.compat is None)

    def _as_looked_up(self, name: str) -> str:
        return name if self.compat is None else until_nul(name)


def until_nul(text: str) -> str:
    """Return ``text`` as a C interface receives it: up to the first NUL."""
    return text.partition("\0")[0]


VERSION_FACT = "version"
"""Key of a variant's metadata for a version that differs from the package's; null for none."""


def version_of(variant: VariantInfo, package: PackageInfo) -> str | None:
    """Return the variant's version: its own, or else the package's; None if neither is stated."""
    return package.version if has_packages_version(variant) else own_version(variant)


def own_version(variant: VariantInfo) -> str | None:
    """Return the version that the variant itself states; None if it has the package's, or none."""
    version = variant.metadata.get(VERSION_FACT)
    return version if isinstance(version, str) and version else None


def has_packages_version(variant: VariantInfo) -> bool:
    """Return True if the variant has the package's version: it states neither its own nor null."""
    return variant.metadata.get(VERSION_FACT, "") is not None and own_version(variant) is None


def read_value_infos(declared: Iterable[Mapping[str, Any]] | None) -> tuple[ValueInfo, ...]:
    """Read inputs or outputs of manifest.json and pipeline.json, checked against their schemas."""
    return tuple(
        ValueInfo(
            name=value["name"],
            type=value["type"],
            shape=_read_shape(value.get("shape")),
            value_range=_read_range(value.get("value_range")),
        )
        for value in declared or ()
    )


def _read_range(bounds: Sequence[float] | None) -> tuple[float, float] | None:
    return None if bounds is None else (float(bounds[0]), float(bounds[1]))


def _read_shape(
    shape: Iterable[int | float | str | None] | None,
) -> tuple[int | str | None, ...] | None:
    if shape is None:
        return None
    # JSON Schema counts 1.0 as an integer.
    return tuple(int(size) if isinstance(size, float) else size for size in shape)
