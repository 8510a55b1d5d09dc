"""The provider options that a caller gives, in his words, as options by execution provider."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ortpkg.documents.frozen import EMPTY, FrozenMapping
from ortpkg.ep_names import OPENVINO_EP, ep_named, is_known_ep, resolve_ep_name
from ortpkg.errors import UsageError, quoted
from ortpkg.selection.provider_option_devices import ep_of_option, unknown_devices

#: Options of one EP, or EP → its options.
ProviderOptionWishes = Mapping[str, Any]


def provider_options_by_ep(
    wished: ProviderOptionWishes | None, *, ep: str | None, named: Collection[str]
) -> Mapping[str, Mapping[str, str]]:
    """EP (its full name) → options, numbers as texts.

    Args:
        wished: ``{option: value}`` or ``{EP: {option: value}}``. Options without an EP are those of
            ``ep``, or, where that is None, of the EP that their keys tell: ``device_type`` is
            OpenVINO's, ``backend_type`` QNN's.
        ep: the only EP that the caller wants, by its full name.
        named: see :func:`~ortpkg.ep_names.ep_named`.

    Raises UsageError where it cannot be told whose options they are, a value is none, or OpenVINO's
    ``device_type`` names a device that OpenVINO does not know. Other options and their values are
    for the EP to judge.
    """
    if not wished:
        return EMPTY
    if not isinstance(wished, Mapping):
        raise UsageError(
            "provider options are {option: value}, or {EP: {option: value}}, not"
            f" {quoted(wished)}"
        )
    nested = {key: value for key, value in wished.items() if isinstance(value, Mapping)}
    if nested and len(nested) < len(wished):
        raise UsageError(
            "provider options are {option: value}, or {EP: {option: value}}, not both at once"
        )
    if nested:
        return _by_full_name(nested, named)
    for key, value in wished.items():
        if is_known_ep(resolve_ep_name(str(key))):
            raise UsageError(f"options of {quoted(key)} are {{option: value}}, not {quoted(value)}")
    told = {found for found in map(ep_of_option, wished) if found is not None}
    if ep is None and len(told) != 1:
        keys = ", ".join(map(quoted, wished))
        raise UsageError(f"whose options are {keys}? name the execution provider too, by ep (--ep)")
    own = ep or told.pop()
    return FrozenMapping({own: _options_of(own, wished)})


def _by_full_name(
    nested: Mapping[Any, Mapping[Any, Any]], named: Collection[str]
) -> FrozenMapping[FrozenMapping[str]]:
    found: dict[str, FrozenMapping[str]] = {}
    for name, options in nested.items():
        if not isinstance(name, str):
            raise UsageError(
                f"provider options name an execution provider {quoted(name)}; write its name"
            )
        ep_name = ep_named(name, named)
        if ep_name in found:
            raise UsageError(
                f"provider options name {ep_name} twice; write all its options at one name"
            )
        found[ep_name] = _options_of(ep_name, options)
    return FrozenMapping(found)


def _options_of(ep_name: str, options: Mapping[Any, Any]) -> FrozenMapping[str]:
    found = _texts(options)
    unknown = unknown_devices(found.get("device_type", "")) if ep_name == OPENVINO_EP else []
    if unknown:
        names = ", ".join(map(quoted, unknown))
        raise UsageError(
            f"the provider option device_type={quoted(found['device_type'])} names {names}, which"
            " OpenVINO does not know; write CPU, GPU, NPU, GPU.1, AUTO, or a list such as"
            " AUTO:GPU,CPU, HETERO:NPU,CPU or AUTO:-CPU"
        )
    return found


def _texts(options: Mapping[Any, Any]) -> FrozenMapping[str]:
    for key, value in options.items():
        if (
            not isinstance(key, str)
            or not key
            or isinstance(value, bool)
            or not isinstance(value, str | int | float)
        ):
            raise UsageError(
                f"the provider option {quoted(key)} is {quoted(value)}; write a text or a number"
            )
    return FrozenMapping({key: str(value) for key, value in options.items()})
