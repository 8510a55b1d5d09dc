"""Session options with a type since onnxruntime 1.32, and the values that it accepts.

Earlier releases accept any text for these keys. Source: the behaviour of 1.32.0 with some sixty
values for each key; tests/interop/ compares this with the library.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping

#: Returns True if a release accepts a value.
Takes = Callable[[str], bool]

MOE_PREFIX = "session.moe.offload."
"""Prefix below which unknown keys are refused."""

# White space of C's isspace, which is cut off both ends of some numbers.
_SPACE = " \t\n\v\f\r"
_UNSIGNED = re.compile(r"[0-9]+", re.ASCII)
_SIGNED = re.compile(r"-?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
# strtof also reads hexadecimal numbers.
_C_FLOAT = re.compile(
    r"[+-]?(?:0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
    re.ASCII,
)
_LARGEST_INT32 = (1 << 31) - 1
_LARGEST_UINT64 = (1 << 64) - 1
_LONGEST_NUMBER = len(str(_LARGEST_UINT64))


def _whole(
    smallest: int, largest: int, multiple_of: int = 1, form: re.Pattern[str] = _UNSIGNED
) -> Takes:
    def takes(text: str) -> bool:
        digits = text.lstrip("-").lstrip("0") or "0"
        if not form.fullmatch(text) or len(digits) > _LONGEST_NUMBER:
            return False
        number = -int(digits) if text.startswith("-") else int(digits)
        return smallest <= number <= largest and number % multiple_of == 0

    return takes


def _one_of(*values: str) -> Takes:
    return frozenset(values).__contains__


def _one_of_in_any_case(*values: str) -> Takes:
    return lambda text: text.lower() in values


def _auto_or_nbytes(text: str) -> bool:
    return text.lower() == "auto" or _NBYTES(text)


def _packed_experts(text: str) -> bool:
    """Accept an empty text, or a non-negative int32 with white space around it."""
    return not text or _INT32_FROM_0(text.strip(_SPACE))


def _as_float32(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.inf


def _share(text: str) -> bool:
    """Accept a float32 from 0 to 1, as C's strtof reads it."""
    number = text.strip(_SPACE)
    if not _C_FLOAT.fullmatch(number):
        return False
    is_hexadecimal = "x" in number.lower()
    try:
        value = float.fromhex(number) if is_hexadecimal else float(number)
    except OverflowError:
        return False
    return 0 <= _as_float32(value) <= 1


def _threshold(text: str) -> bool:
    """Accept a non-negative float32 that is neither infinite nor rounded to 0."""
    if not _DECIMAL.fullmatch(text):
        return False
    number = float(text)
    mantissa = re.split("[eE]", text)[0]
    is_zero = not mantissa.strip("-0.")
    value = _as_float32(number)
    return 0 <= value < math.inf and (is_zero or value > 0)


def _node_overrides(text: str) -> bool:
    """Accept ``node:max_resident_slots=N,device_expert_bytes=B`` for any number of nodes."""
    nodes = [node.strip(_SPACE) for node in text.split(";")]
    return all(map(_node_override, filter(None, nodes)))


def _node_override(text: str) -> bool:
    name, separator, settings_text = text.partition(":")
    if not separator or not name.strip(_SPACE) or ":" in settings_text:
        return False
    settings = settings_text.split(",")
    if len(settings) > 1 and not settings[-1]:  # a trailing comma is allowed
        settings.pop()
    return all(map(_node_setting, settings))


def _node_setting(text: str) -> bool:
    key, _, value = text.partition("=")
    takes = _NODE_SETTINGS.get(key.strip(_SPACE))
    return takes is not None and takes(value.strip(_SPACE))


_NBYTES = _whole(0, _LARGEST_UINT64)
_POSITIVE_NBYTES = _whole(1, _LARGEST_UINT64)
_INT32_FROM_0 = _whole(0, _LARGEST_INT32, form=_SIGNED)
_NODE_SETTINGS: Mapping[str, Takes] = {
    "max_resident_slots": _INT32_FROM_0,
    "device_expert_bytes": _NBYTES,
}
_FREE: tuple[Takes, str] = (lambda _: True, "any text")
_AUTO_NBYTES: tuple[Takes, str] = (_auto_or_nbytes, "auto or a number of bytes")
_WORKING_NBYTES: tuple[Takes, str] = (_POSITIVE_NBYTES, "a number of bytes of at least 1")
_COUNT: tuple[Takes, str] = (_INT32_FROM_0, "a base-10 int32 of at least 0")
_BIT: tuple[Takes, str] = (_one_of("0", "1"), "0 or 1")

#: Check of a value, and description of the accepted values, by key.
TYPED_SINCE_1_32: Mapping[str, tuple[Takes, str]] = {
    "ep.cuda.moe_packed_gpu_experts": (_packed_experts, "a base-10 int32 of at least 0"),
    "ep.enable_weightless_mode": (_one_of("0", "1", "2"), "0, 1 or 2"),
    "session.external_data_loader.chunk_bytes": (
        _whole(4096, 1 << 26, 4096),
        "a multiple of 4096 from 4096 to 67108864",
    ),
    "session.external_data_loader.min_size_bytes": (_whole(0, 1 << 32), "0 to 4294967296"),
    "session.external_data_loader.pinned_memory_bytes": (
        _whole(1 << 20, 1 << 30, 8192),
        "a multiple of 8192 from 1048576 to 1073741824",
    ),
    "session.external_data_loader.threads": (_whole(0, 64), "0 to 64"),
    "session.kernel_dispatch_policy": (
        _one_of("", "auto", "latency", "memory", "safe"),
        "auto, latency, memory, safe or nothing",
    ),
    f"{MOE_PREFIX}allow_file_backing": (
        _one_of_in_any_case("0", "1", "true", "false"),
        "0, 1, true or false",
    ),
    f"{MOE_PREFIX}async_max_tokens": _COUNT,
    f"{MOE_PREFIX}budget_group": _FREE,
    f"{MOE_PREFIX}cpu_execution": (
        _one_of_in_any_case("0", "1", "auto", "enabled", "disabled"),
        "0, 1, auto, enabled or disabled",
    ),
    f"{MOE_PREFIX}cpu_threads": _COUNT,
    f"{MOE_PREFIX}derived_cache_dir": _FREE,
    f"{MOE_PREFIX}device_expert_bytes": _AUTO_NBYTES,
    f"{MOE_PREFIX}device_working_bytes": _WORKING_NBYTES,
    f"{MOE_PREFIX}gpu_budget_bytes": _AUTO_NBYTES,
    f"{MOE_PREFIX}gpu_device_mem_limit": (_NBYTES, "a number of bytes"),
    f"{MOE_PREFIX}host_expert_bytes": _AUTO_NBYTES,
    f"{MOE_PREFIX}host_working_bytes": _WORKING_NBYTES,
    f"{MOE_PREFIX}min_expert_weight": (_share, "a number from 0 to 1"),
    f"{MOE_PREFIX}mode": (
        _one_of_in_any_case("0", "1", "on", "off", "auto", "disabled", "required"),
        "0, 1, on, off, auto, disabled or required",
    ),
    f"{MOE_PREFIX}node_overrides": (
        _node_overrides,
        "node:max_resident_slots=N,device_expert_bytes=B, of several nodes with ; between them",
    ),
    f"{MOE_PREFIX}pinned_bytes": _AUTO_NBYTES,
    f"{MOE_PREFIX}placement": (_one_of_in_any_case("static", "adaptive"), "static or adaptive"),
    f"{MOE_PREFIX}popularity_file": _FREE,
    f"{MOE_PREFIX}prefill_wave_experts": (
        _whole(1, _LARGEST_INT32),
        "a base-10 int32 of at least 1",
    ),
    f"{MOE_PREFIX}reserve_device_bytes": _AUTO_NBYTES,
    f"{MOE_PREFIX}skip_tail_cold_only": _BIT,
    f"{MOE_PREFIX}skip_zero_cold_doorbell": _BIT,
    f"{MOE_PREFIX}source_root": _FREE,
    f"{MOE_PREFIX}tail_substitution_min_rank": _COUNT,
    f"{MOE_PREFIX}tail_substitution_threshold": (_threshold, "a finite number of at least 0"),
}
