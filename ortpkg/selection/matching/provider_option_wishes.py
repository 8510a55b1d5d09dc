"""Provider options as a caller writes them, converted to options by execution provider."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ortpkg.foundations.documents.frozen import EMPTY, FrozenMapping
from ortpkg.foundations.ep_names import OPENVINO_EP, ep_named, is_known_ep, resolve_ep_name
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.selection.matching.provider_option_devices import ep_of_option, unknown_devices

#: Options of one EP, or EP → its options.
ProviderOptionWishes = Mapping[str, Any]


def provider_options_by_ep(
    options: ProviderOptionWishes | None, *, ep: str | None, named: Collection[str]
) -> Mapping[str, Mapping[str, str]]:
    """Return EP (its full name) → options, with numbers as texts.

    Args:
        wished: ``{option: value}`` or ``{EP: {option: value}}``. Options without an EP are those of
            ``ep`` or, if that is None, of the EP that their keys imply: ``device_type`` is
            OpenVINO's, ``backend_type`` QNN's.
        ep: full name of the only EP that the caller wants.
        named: see :func:`~ortpkg.foundations.ep_names.ep_named`.

    Raises:
        UsageError: the EP of the options is unclear, a value is not valid, or OpenVINO's
            ``device_type`` names a device that OpenVINO does not know. Other options and their
            values are for the EP to judge.
    """
    if not options:
        return EMPTY
    if not isinstance(options, Mapping):
        raise UsageError(
            "provider options are {option: value}, or {EP: {option: value}}, not"
            f" {quoted(options)}"
        )
    nested = {key: value for key, value in options.items() if isinstance(value, Mapping)}
    if nested and len(nested) < len(options):
        raise UsageError(
            "provider options are {option: value}, or {EP: {option: value}}, not both at once"
        )
    if nested:
        return _by_full_name(nested, named)
    for key, value in options.items():
        if is_known_ep(resolve_ep_name(str(key))):
            raise UsageError(f"options of {quoted(key)} are {{option: value}}, not {quoted(value)}")
    implied_eps = {ep_name for ep_name in map(ep_of_option, options) if ep_name is not None}
    if ep is None and len(implied_eps) != 1:
        keys = ", ".join(map(quoted, options))
        raise UsageError(f"whose options are {keys}? name the execution provider too, by ep (--ep)")
    target = ep or implied_eps.pop()
    return FrozenMapping({target: _options_of(target, options)})


def _by_full_name(
    nested: Mapping[Any, Mapping[Any, Any]], named: Collection[str]
) -> FrozenMapping[FrozenMapping[str]]:
    options_by_ep: dict[str, FrozenMapping[str]] = {}
    for name, options in nested.items():
        if not isinstance(name, str):
            raise UsageError(
                f"provider options name an execution provider {quoted(name)}; write its name"
            )
        ep_name = ep_named(name, named)
        if ep_name in options_by_ep:
            raise UsageError(
                f"provider options name {ep_name} twice; write all its options at one name"
            )
        options_by_ep[ep_name] = _options_of(ep_name, options)
    return FrozenMapping(options_by_ep)


def _options_of(ep_name: str, options: Mapping[Any, Any]) -> FrozenMapping[str]:
    texts = _texts(options)
    unknown = unknown_devices(texts.get("device_type", "")) if ep_name == OPENVINO_EP else []
    if unknown:
        names = ", ".join(map(quoted, unknown))
        raise UsageError(
            f"the provider option device_type={quoted(texts['device_type'])} names {names}, which"
            " OpenVINO does not know; write CPU, GPU, NPU, GPU.1, AUTO, or a list such as"
            " AUTO:GPU,CPU, HETERO:NPU,CPU or AUTO:-CPU"
        )
    return texts


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
