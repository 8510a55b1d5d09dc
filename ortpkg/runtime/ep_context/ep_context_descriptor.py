"""Descriptor of what a compiled context was made from and for, checked before it is loaded.

A context made by another driver, SDK, device or architecture may load and compute nonsense, or
crash; one of another model computes another model. So each has a descriptor, and loading compares
it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from ortpkg.foundations.errors import quoted
from ortpkg.foundations.versions import is_same_version

#: Longest text of a descriptor that is accepted; real ones have a few dozen characters.
_LONGEST_TEXT = 4096
_MOST_OPTIONS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDescriptor:
    """Conditions under which a context is valid.

    Attributes:
        ep: name of the execution provider.
        sdk_version: version of the library that compiled it.
        driver_version: version of the device's driver; "" if there is none.
        device: device that it was compiled for, in the EP's words ("CPU", "GPU.1", "NPU").
        architecture: microarchitecture of the device, or the vendor's name for it.
        graph_digest: SHA-256 of the partition's structure: operators, attributes, shapes, types.
        weights_digest: SHA-256 of the partition's weights.
        options: provider options that change the result of compiling.
        weights_source: "" if the context itself has the weights; for a weightless one "sha256:..."
            of the part that has them, for all contexts of the group.
    """

    ep: str
    sdk_version: str
    device: str
    architecture: str = ""
    driver_version: str = ""
    graph_digest: str = ""
    weights_digest: str = ""
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    weights_source: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the form in the notes of EPContext nodes and in containers.

        :func:`descriptor_from_json` reads it.
        """
        document = {item.name: getattr(self, item.name) for item in fields(self)}
        document["options"] = dict(self.options)
        if not self.weights_source:  # the form before weightless contexts existed
            del document["weights_source"]
        return document


#: Fields that differ between machines and times, in the order of reporting mismatches. The digests
#: belong to the source model, which a machine that only loads the context need not have.
ENVIRONMENT_FIELDS: tuple[str, ...] = (
    "ep",
    "sdk_version",
    "driver_version",
    "device",
    "architecture",
    "options",
)
_VERSION_FIELDS = frozenset({"sdk_version", "driver_version"})
SOURCE_FIELDS: tuple[str, ...] = ("graph_digest", "weights_digest")

_WORDS = {
    "ep": "execution provider",
    "sdk_version": "SDK version",
    "driver_version": "driver version",
    "device": "device",
    "architecture": "architecture",
    "options": "provider options",
    "graph_digest": "model graph",
    "weights_digest": "weights",
}
_PLURAL_FIELDS = frozenset({"options", "weights_digest"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMismatch:
    """First field in which a context differs from what is needed here."""

    field: str
    recorded: str
    needed: str

    def __str__(self) -> str:
        was, is_here = ("were", "they are") if self.field in _PLURAL_FIELDS else ("was", "it is")
        return (
            f"{_WORDS[self.field]} {was} {quoted(self.recorded)}, here {is_here}"
            f" {quoted(self.needed)}"
        )


def find_mismatch(
    recorded: ContextDescriptor,
    needed: ContextDescriptor,
    *,
    names: tuple[str, ...] = ENVIRONMENT_FIELDS,
) -> ContextMismatch | None:
    """Return the first of ``names`` in which the two differ; None if they agree."""
    for name in names:
        before, now = getattr(recorded, name), getattr(needed, name)
        if name == "options":
            before, now = dict(before), dict(now)
        is_same = is_same_version(before, now) if name in _VERSION_FIELDS else before == now
        if not is_same:
            return ContextMismatch(field=name, recorded=_shown(before), needed=_shown(now))
    return None


def verify_descriptor(described: object, ep_name: str) -> None:
    """Raise TypeError if a provider's description of its environment cannot be compared later."""
    if not isinstance(described, ContextDescriptor):
        raise TypeError(
            f"describe_environment returned {type(described).__name__} where a ContextDescriptor"
            " belongs"
        )
    options: Any = described.options
    if not isinstance(options, Mapping):
        raise TypeError(
            f"describe_environment: options are {type(options).__name__} where a mapping of texts"
            " belongs"
        )
    values = {
        item.name: getattr(described, item.name)
        for item in fields(ContextDescriptor)
        if item.name != "options"
    }
    values |= {
        f"option {quoted(key)}": value if isinstance(key, str) else key
        for key, value in options.items()
    }
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(
                f"describe_environment: {name} is {type(value).__name__} where a text belongs"
            )
    if described.ep != ep_name:
        raise TypeError(
            f"describe_environment: ep is {quoted(described.ep)} where {quoted(ep_name)} belongs"
        )


def descriptor_from_json(document: object) -> ContextDescriptor:
    """Return the descriptor that :meth:`ContextDescriptor.to_json` wrote; ignore unknown keys.

    Raises:
        ValueError: the document is not a descriptor; the message is a sentence.
    """
    if not isinstance(document, dict):
        raise ValueError(  # noqa: TRY004 - the document is wrong, not the call
            "the descriptor is no JSON object"
        )
    texts = {}
    for item in fields(ContextDescriptor):
        if item.name == "options":
            continue
        value = document.get(item.name, "")
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
            raise ValueError(f"{item.name} of the descriptor is no short text")
        texts[item.name] = value
    options = document.get("options", {})
    if not isinstance(options, dict) or len(options) > _MOST_OPTIONS:
        raise ValueError("options of the descriptor is no small object")
    for key, value in options.items():
        if not isinstance(value, str) or len(key) > _LONGEST_TEXT or len(value) > _LONGEST_TEXT:
            raise ValueError(f"option {quoted(key)} of the descriptor is no short text")
    return ContextDescriptor(**texts, options=MappingProxyType(dict(options)))


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={text}" for key, text in sorted(value.items())) or "none"
    return str(value)
