"""What a model package says, as frozen values: package → component models → variants.

Nothing here opens a file. Vocabulary and structure: pull request 27786 of onnxruntime (model
package). A reader makes these only from documents that passed every check, so whoever holds one
need not check again. All paths are absolute, resolved and confined to the package (or, for an
``installed`` layout, allowed by the caller).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.documents.findings import json_pointer
from ortpkg.documents.frozen import EMPTY


class PackageFormat(StrEnum):
    """Which on-disk generation was read (facts: README, "formats").

    METADATA: manifest.json + models/<component>/metadata.json (onnxruntime 1.26, 1.27).
    COMPONENT: schema_version 1.x, manifest.json + component.json (onnxruntime 1.28 on).
    UNIVERSAL: one directory that both can read.
    """

    METADATA = "metadata"
    COMPONENT = "component"
    UNIVERSAL = "universal"


class Constraints(NamedTuple):
    """What a variant needs. ``None`` means "does not say": any EP, any device, any architecture.

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
    """An input or output of a model or of the whole package.

    ``type`` is ONNX Runtime's text form ("tensor(float)"); each dimension is a size, a symbol, or
    None for unknown; ``shape`` is None where even the rank is unknown or the value is not a tensor.
    ``value_range`` is what the least and the greatest element of an image stand for (black and
    white), so that a picture can be fed; None where unstated.
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...] | None = None
    value_range: tuple[float, float] | None = None


class Source(NamedTuple):
    """Where something was declared, for messages: a document and a JSON pointer into it."""

    document: str
    pointer: str = ""

    def below(self, *tokens: str | int) -> Source:
        """A place in what stands here."""
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
        constraints: what it needs.
        session_options, provider_options: as the package has them; untrusted, filtered at session
            creation.
        executor_info: executor → what it needs, as the component generation states it ("ort" is
            onnxruntime); opaque.
        component_constraints: what the component generation's keys say, exactly as written (``ep``,
            ``device``, ``ep_compatibility_info`` for ``compatibility_string``): what onnxruntime
            1.28 on selects by. None where the package has no such keys.
        has_directory: whether ``directory`` exists; always, unless the package was read by
            compatible rules.
        is_absent: files that it needs are recorded in digests.json, and not here: the package is
            sparse.
        metadata: facts kept per variant (data types, quantization, opset, file size, ...).
        additional_metadata: opaque, survives a round trip.
        source: where it was declared.
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
        """The variant of that name; None where there is none."""
        return next((variant for variant in self.variants if variant.name == name), None)


class SharedAsset(NamedTuple):
    """A folder that several variants may use, named by its content's digest.

    Attributes:
        uri: ``sha256:<64 lower-case hex digits>``; see
            :func:`ortpkg.package.integrity.asset_digest.directory_digest`. Opening does not compare
            it with the content.
        path: absolute path of the folder.
        is_declared: whether the manifest states the path; otherwise the folder was found in
            ``shared_assets/``.
    """

    uri: str
    path: Path
    is_declared: bool


class Layout(StrEnum):
    """Whether a package of the component generation says that it stands alone.

    PORTABLE: every path lies in the package.
    INSTALLED: paths may lead out of it, where the caller allows that.
    """

    PORTABLE = "portable"
    INSTALLED = "installed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInfo:
    """A whole package; ``components`` stand in execution order.

    Attributes:
        root: the real path of its directory.
        name: ``model_name`` or ``package_name``; where it has none, the directory's name without
            ".ortpackage".
        compat: the release by whose rules it was read; None: the strict ones.
        is_bare_model: it is no package but one ONNX file, ``root``; ``format`` then says nothing.
        shared_assets: in the order in which onnxruntime lists them.
        is_olives: its documents have the form of Olive 0.13, which is read as the component
            generation, and never written.
        absent_files: path relative to the root, with ``/`` → bytes, of files that are recorded and
            not here; nothing where all that was looked for is here.
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
        # Of several of one name, the first one counts.
        by_name = {
            self._called(component.name): component for component in reversed(self.components)
        }
        object.__setattr__(self, "_by_name", by_name)

    def component(self, name: str) -> ComponentInfo | None:
        """The component of that name; None where there is none.

        By the rules of a release, names end at a NUL.
        """
        return self._by_name.get(self._called(name))

    @property
    def is_pipeline(self) -> bool:
        """Whether its component models run together: it has a pipeline.json, or several of them.

        A release, by whose rules it may be read, runs one at a time.
        """
        return self.has_pipeline or (len(self.components) > 1 and self.compat is None)

    def _called(self, name: str) -> str:
        return name if self.compat is None else until_nul(name)


def until_nul(text: str) -> str:
    """``text`` as it arrives behind a C interface."""
    return text.partition("\0")[0]


VERSION_FACT = "version"
"""Key of a variant's metadata: its own version, where that is not the package's; null states that
it has none.
"""


def version_of(variant: VariantInfo, package: PackageInfo) -> str | None:
    """The variant's version: its own where it states one, else the package's.

    None where nobody states any.
    """
    return package.version if has_packages_version(variant) else own_version(variant)


def own_version(variant: VariantInfo) -> str | None:
    """The version that the variant itself states; None where it has the package's, or none."""
    own = variant.metadata.get(VERSION_FACT)
    return own if isinstance(own, str) and own else None


def has_packages_version(variant: VariantInfo) -> bool:
    """Whether the package's version is the variant's: it states neither its own nor "none"."""
    return variant.metadata.get(VERSION_FACT, "") is not None and own_version(variant) is None


def read_value_infos(declared: Iterable[Mapping[str, Any]] | None) -> tuple[ValueInfo, ...]:
    """Inputs or outputs as manifest.json and pipeline.json state them, their schemas passed."""
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
