"""Needs of a compiled OpenVINO blob, and the compatibility string that its EP makes of them.

``meta=1.0;ov=2026.4.1;isa=Intel AVX2`` is the property RUNTIME_REQUIREMENTS of a compiled model,
and stands at the beginning of a blob of the CPU plug-in; a plug-in loads a blob whose text is
letter by letter its own. onnxruntime's OpenVINO EP puts it into a JSON object. Seen in
onnxruntime-ep-openvino 1.8.1, with OpenVINO 2026.4.1.
"""

from __future__ import annotations

import json

from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility

BLOB_MAGIC = b"RR_UPCVO"
_VERSION_NBYTES, _LENGTH_NBYTES = 4, 8
_TEXT_OFFSET = len(BLOB_MAGIC) + _VERSION_NBYTES + _LENGTH_NBYTES
_LONGEST_TEXT = 4096
_LONGEST_INFO = 1 << 16

_INFO_VERSION, _BIN_VERSION = "1.0", "1.1"
_BIN_MAJOR = "1"
_INFO_KEY, _EP_KEY, _BIN_KEY, _TEXT_KEY = (
    "ovep_compat_ver",
    "ovep_ver",
    "ovep_bin_ver",
    "ov_compat_string",
)


def blob_requirements(blob: bytes | memoryview) -> str:
    """Return the text at the beginning of a blob.

    "" for a blob without one: of another device, or of a release before 2026.
    """
    view = memoryview(blob)
    if bytes(view[: len(BLOB_MAGIC)]) != BLOB_MAGIC:
        return ""
    length = int.from_bytes(view[_TEXT_OFFSET - _LENGTH_NBYTES : _TEXT_OFFSET], "little")
    text = bytes(view[_TEXT_OFFSET : _TEXT_OFFSET + min(length, _LONGEST_TEXT + 1)])
    if (
        len(text) != length
        or length > _LONGEST_TEXT
        or not text.isascii()
        or not text.decode().isprintable()
    ):
        return ""
    return text.decode()


def required_release(requirements: str) -> str:
    """Return the release of OpenVINO in such a text; "" if there is none."""
    fields = dict(pair.partition("=")[::2] for pair in requirements.split(";"))
    return fields.get("ov", "")


def compatibility_info(requirements: str, maker: str) -> str:
    """Return the string of onnxruntime's OpenVINO EP for a model whose blob has these requirements.

    ``maker`` stands in the place of the EP's own version, which the EP does not look at.
    """
    fields = {
        _INFO_KEY: _INFO_VERSION,
        _EP_KEY: maker,
        _BIN_KEY: _BIN_VERSION,
        _TEXT_KEY: requirements,
    }
    return json.dumps(fields, separators=(",", ":"))


def requirements_of_info(info: str) -> str | None:
    """Return the requirements in the string of onnxruntime's OpenVINO EP.

    None if ``info`` is no JSON object. "" if the object has none that the EP would read, such as
    another version of the string.
    """
    fields = _fields(info)
    if fields is None:
        return None
    text = fields.get(_TEXT_KEY)
    return text if fields.get(_INFO_KEY) == _INFO_VERSION and isinstance(text, str) else ""


def rate_info(info: str, here: str | None) -> CompiledModelCompatibility:
    """Rate a string of onnxruntime's OpenVINO EP as that EP does.

    Args:
        info: the string.
        here: requirements of models compiled here; None if unknown.

    Returns:
        OPTIMAL if the requirements are equal; UNSUPPORTED for others, for a container of another
            major version, and for a text that is no JSON; NOT_APPLICABLE for a JSON object of
            another version; UNKNOWN if ``here`` is.
    """
    fields = _fields(info)
    if fields is None:
        return CompiledModelCompatibility.UNSUPPORTED
    required = requirements_of_info(info)
    if not required:
        return CompiledModelCompatibility.NOT_APPLICABLE
    if str(fields.get(_BIN_KEY, "")).partition(".")[0] != _BIN_MAJOR:
        return CompiledModelCompatibility.UNSUPPORTED
    if here is None:
        return CompiledModelCompatibility.UNKNOWN
    return (
        CompiledModelCompatibility.OPTIMAL
        if required == here
        else CompiledModelCompatibility.UNSUPPORTED
    )


def rating_of_onnxruntime(ep_name: str, info: str) -> CompiledModelCompatibility:
    """Return onnxruntime's rating of a string that is the same on any machine.

    UNKNOWN if the rating depends on the machine. OpenVINO's execution provider calls every text
    that is no JSON unsupported, ortpkg's strings included.

    Args:
        ep_name: name of the execution provider.
        info: the string.
    """
    return (
        rate_info(info, None)
        if ep_name == OPENVINO_EP and info
        else CompiledModelCompatibility.UNKNOWN
    )


def _fields(info: str) -> dict[str, object] | None:
    if len(info) > _LONGEST_INFO:
        return None
    try:
        document = json.loads(info)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
