"""The option ``load_config`` of onnxruntime's OpenVINO provider: device properties as JSON.

::

    {"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}

It is the only option that sets a precision in that provider since it is a separate library. A
package may carry it in ``provider_options``, so that the same text is valid in onnxruntime and
here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.errors import InvalidSessionOptionError, PackageFormatError, quoted

LOAD_CONFIG = "load_config"
#: Default config of ortpkg. OpenVINO's CPU plug-in otherwise computes in bfloat16 on CPUs that have
#: it, and rounds activations of products with integer weights to 8 bits.
EXACT_CONFIG = (
    '{"CPU": {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}}'
)
_LIMITS = DocumentLimits(nbytes=1 << 16, depth=16)
_FORM = '{"DEVICE": {"PROPERTY": "value"}}'
#: Properties that only tune a computation, which an untrusted package may set. Others load or write
#: files.
_TUNING = frozenset(
    {
        "DYNAMIC_QUANTIZATION_GROUP_SIZE",
        "EXECUTION_MODE_HINT",
        "INFERENCE_NUM_THREADS",
        "INFERENCE_PRECISION_HINT",
        "MODEL_PRIORITY",
        "NUM_STREAMS",
        "PERFORMANCE_HINT",
        "PERFORMANCE_HINT_NUM_REQUESTS",
    }
)


def read_load_config(text: str) -> Mapping[str, Mapping[str, str]]:
    """Return the values by device and property.

    Raises:
        InvalidSessionOptionError: The text does not have that form.
    """
    try:
        config = parse_document(text.encode(), document=LOAD_CONFIG, limits=_LIMITS)
    except (PackageFormatError, ValueError):
        config = None
    if config is None or not all(isinstance(properties, dict) for properties in config.values()):
        raise InvalidSessionOptionError(
            f"{LOAD_CONFIG} is JSON, {_FORM}, not {quoted(text)}", key=LOAD_CONFIG
        )
    for device, properties in config.items():
        for name, value in properties.items():
            if not isinstance(value, str | int | float):
                raise InvalidSessionOptionError(
                    f"{LOAD_CONFIG}: {quoted(name)} of {quoted(device)} is a text, a number or a"
                    f" flag in {_FORM}",
                    key=LOAD_CONFIG,
                )
    return {
        device: {name: _text(value) for name, value in properties.items()}
        for device, properties in config.items()
    }


def only_tunes(text: str) -> bool:
    """Return True if the text sets only properties that tune a computation."""
    try:
        return all(_TUNING.issuperset(properties) for properties in read_load_config(text).values())
    except InvalidSessionOptionError:
        return False


def _text(value: str | int | float | bool) -> str:
    return ("YES" if value else "NO") if isinstance(value, bool) else str(value)
