"""Session options that releases of onnxruntime accept in a package, and their values.

Source: ``AddSessionConfigEntry`` of onnxruntime, as releases 1.28 to 1.32 behave; tests/interop/
compares this with the library. A few keys have a type and set an option of the session; 1.32 also
checks those of ``typed_options_1_32.py``. Any other key accepts any text. Texts end at a NUL, as in
C.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ortpkg.foundations.errors import InvalidSessionOptionError, quoted
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_32
from ortpkg.package.trust.typed_options_1_32 import MOE_PREFIX, TYPED_SINCE_1_32

LONGEST_KEY_NBYTES = 1024
LONGEST_VALUE_NBYTES = 8192

# C's strtol accepts white space before the number, but not after it.
_INT = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)", re.ASCII)
_INT32 = range(-(1 << 31), 1 << 31)
_SEVERITIES = range(-1, 5)
_FLAGS = {"0": "0", "1": "1", "true": "1", "false": "0"}
_EXECUTION_MODES = {
    "sequential": "ORT_SEQUENTIAL",
    "ort_sequential": "ORT_SEQUENTIAL",
    "parallel": "ORT_PARALLEL",
    "ort_parallel": "ORT_PARALLEL",
}
_OPTIMIZATION_LEVELS = {
    name: f"ORT_{name.upper()}"
    for name in ("disable_all", "enable_basic", "enable_extended", "enable_layout", "enable_all")
}


def _int32(text: str) -> int | None:
    match = _INT.fullmatch(text)
    # A text with more digits than Python converts is not an int32 either, unless they are leading
    # zeros.
    digits = match[1].lstrip("+-").lstrip("0") if match else ""
    if match is None or len(digits) > 10:
        return None
    number = int(f"{'-' if match[1][0] == '-' else ''}{digits or 0}")
    return number if number in _INT32 else None


def _count(text: str) -> str | None:
    """Read a number of threads or a verbosity; less than 0 means the default, like 0."""
    number = _int32(text)
    return None if number is None else str(max(number, 0))


def _severity(text: str) -> str | None:
    """Read a severity; -1 means the default."""
    number = _int32(text)
    if number is None or number not in _SEVERITIES:
        return None
    return "" if number < 0 else str(number)


def _flag(text: str) -> str | None:
    return _FLAGS.get(text.lower())


def _own_threads(text: str) -> str | None:
    """Accept only threads of the session's own.

    Sharing needs an environment, which a package has not.
    """
    return "1" if _flag(text) == "1" else None


_Reading = Callable[[str], str | None]

#: Reader of a value, and description of the accepted values, by typed key. A reader returns the
#: text for our own options, "" for the default, and None if the release refuses the value.
_TYPED: Mapping[str, tuple[_Reading, str]] = {
    "session.intra_op_num_threads": (_count, "a base-10 int32"),
    "session.inter_op_num_threads": (_count, "a base-10 int32"),
    "session.log_severity_level": (_severity, "a number from -1 to 4"),
    "session.log_verbosity_level": (_count, "a base-10 int32"),
    "session.enable_cpu_mem_arena": (_flag, "0, 1, true or false"),
    "session.enable_mem_pattern": (_flag, "0, 1, true or false"),
    "session.use_deterministic_compute": (_flag, "0, 1, true or false"),
    "session.use_per_session_threads": (_own_threads, "1 or true"),
    "session.execution_mode": (
        lambda text: _EXECUTION_MODES.get(text.lower()),
        "sequential or parallel",
    ),
    "session.graph_optimization_level": (
        lambda text: _OPTIMIZATION_LEVELS.get(text.lower()),
        "disable_all, enable_basic, enable_extended, enable_layout or enable_all",
    ),
    "session.log_id": (lambda text: text, "any text"),
}


def read_as_onnxruntime(options: Mapping[str, str], *, release: str) -> dict[str, str]:
    """Return the effective options, in the spelling of :class:`SessionOptions`.

    Args:
        options: Options of the package by key.
        release: Release whose rules apply, such as "onnxruntime-1.31".

    Raises:
        InvalidSessionOptionError: The release refuses an option; names the first.
    """
    read: dict[str, str] = {}
    for key, raw_value in options.items():
        value = raw_value.partition("\0")[0]
        if key in _TYPED:
            reading, takes = _TYPED[key]
            text = reading(value)
            if text is None:
                raise _wrong_value(key, takes, value)
            read[key] = text
            continue
        _check_lengths(key, value)
        if release == ONNXRUNTIME_1_32:
            _check_by_1_32(key, value)
        read[key] = value
    return _without_defaults(read)


def _check_lengths(key: str, value: str) -> None:
    if not 0 < _nbytes(key) <= LONGEST_KEY_NBYTES:
        problem = f"a key has 1 to {LONGEST_KEY_NBYTES} bytes, not {_nbytes(key)}"
        raise InvalidSessionOptionError(f"session option {quoted(key)}: {problem}", key=key)
    if _nbytes(value) > LONGEST_VALUE_NBYTES:
        problem = f"a value has at most {LONGEST_VALUE_NBYTES} bytes, not {_nbytes(value)}"
        raise InvalidSessionOptionError(f"session option {quoted(key)}: {problem}", key=key)


def _check_by_1_32(key: str, value: str) -> None:
    if key not in TYPED_SINCE_1_32:
        if key.startswith(MOE_PREFIX):
            problem = f"{quoted(key)} is no option that onnxruntime 1.32 knows below {MOE_PREFIX}"
            raise InvalidSessionOptionError(problem, key=key)
        return
    is_taken, expected = TYPED_SINCE_1_32[key]
    if not is_taken(value):
        raise _wrong_value(key, f"{expected} in onnxruntime 1.32", value)


def _wrong_value(key: str, expected: str, value: str) -> InvalidSessionOptionError:
    return InvalidSessionOptionError(
        f"{quoted(key)} takes {expected}, not {quoted(value)}", key=key
    )


def read_leniently(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options as a release reads them, and those that it refuses unchanged.

    A refused value may be spelled for our own :class:`SessionOptions`.
    """
    read = {
        key: _TYPED[key][0](value) if key in _TYPED else value for key, value in options.items()
    }
    return _without_defaults(
        {key: options[key] if value is None else value for key, value in read.items()}
    )


def _without_defaults(read: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in read.items() if value or key not in _TYPED}


def _nbytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
