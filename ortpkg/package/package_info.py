"""What a model package says, as frozen values: package → component models → variants. No I/O.

Vocabulary and structure: pull request 27786 of onnxruntime (model package), requirements K01 to K06, K13 to K15, K20.
A reader makes these only from documents that passed every check, so whoever holds one need not check again.
All paths are absolute, resolved and confined to the package (or, for an ``installed`` layout, allowed by the caller).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ortpkg.package.frozen import EMPTY


class PackageFormat(StrEnum):
    """Which on-disk generation was read (facts: README, "formats").

    METADATA: manifest.json + models/<component>/metadata.json (onnxruntime 1.26, 1.27).
    COMPONENT: schema_version 1.x, manifest.json + component.json (onnxruntime 1.28 on).
    UNIVERSAL: one directory that both can read.
    """

    METADATA = "metadata"
    COMPONENT = "component"
    UNIVERSAL = "universal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What a variant needs. ``None`` means "does not say": any EP, any device, any architecture.

    ``ep`` is ONNX Runtime's full name ("CPUExecutionProvider"); ``device`` is lower case ("cpu", "gpu", "npu");
    ``ep_compatibility_info`` is the opaque string that the EP stored in the compiled model (K10, K11).
    """

    ep: str | None = None
    device: str | None = None
    architecture: str | None = None
    ep_compatibility_info: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueInfo:
    """An input or output of a model or of the whole package.

    ``type`` is ONNX Runtime's text form ("tensor(float)"); each dimension is a size, a symbol, or None for unknown;
    ``shape`` is None where even the rank is unknown or the value is not a tensor. ``value_range`` is what the least and
    the greatest element of an image stand for (black and white), so that a picture can be fed; None where unstated.
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...] | None = None
    value_range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where in the package something was declared, for messages: a document and a JSON pointer into it."""

    document: str
    pointer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantInfo:
    """One way to run a component model: usually one ONNX file, or (GenAI) the set of files in ``directory``.

    Attributes:
        name: unique within its component.
        component_name: the component that it belongs to.
        directory: absolute directory of its files.
        model_path: absolute path of the ONNX file; None for a GenAI variant, which is a set of files.
        constraints: what it needs.
        session_options, provider_options: as the package has them; untrusted, filtered at session creation.
        metadata: facts kept per variant (data types, quantization, opset, file size, ...; K24).
        additional_metadata: opaque, survives a round trip.
        source: where it was declared.
    """

    name: str
    component_name: str
    directory: Path
    model_path: Path | None
    constraints: Constraints = field(default_factory=Constraints)
    session_options: Mapping[str, str] = EMPTY
    provider_options: Mapping[str, str] = EMPTY
    metadata: Mapping[str, Any] = EMPTY
    additional_metadata: Any = None
    source: Source = field(default_factory=lambda: Source(document=""))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentInfo:
    """One model of the package, with its variants in declaration order."""

    name: str
    directory: Path
    variants: tuple[VariantInfo, ...]
    metadata: Mapping[str, Any] = EMPTY
    additional_metadata: Any = None
    source: Source = field(default_factory=lambda: Source(document=""))

    def variant(self, name: str) -> VariantInfo | None:
        return next((variant for variant in self.variants if variant.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInfo:
    """A whole package; ``components`` stand in execution order (K14)."""

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

    def component(self, name: str) -> ComponentInfo | None:
        return next((component for component in self.components if component.name == name), None)
