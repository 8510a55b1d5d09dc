"""The session options of a package that onnxruntime 1.31 takes: which keys, which values.

Source: ``AddSessionConfigEntry`` of onnxruntime, as the releases 1.28 to 1.32 behave;
tests/interop/ holds this against the library. A few keys have a type, and set an option of the
session; any other key takes any text. Texts end at a NUL, as behind every C function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ortpkg.errors import InvalidSessionOptionError, quoted

LONGEST_KEY_NBYTES = 1024
LONGEST_VALUE_NBYTES = 8192

# C's strtol: white space before the number, but not behind it.
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
    found = _INT.fullmatch(text)
    # A text of more digits than Python converts is no int32 either, unless it is all zeros in
    # front.
    digits = found[1].lstrip("+-").lstrip("0") if found else ""
    if found is None or len(digits) > 10:
        return None
    number = int(f"{'-' if found[1][0] == '-' else ''}{digits or 0}")
    return number if number in _INT32 else None


def _count(text: str) -> str | None:
    """A number of threads, or a verbosity: less than 0 is the default, like 0."""
    number = _int32(text)
    return None if number is None else str(max(number, 0))


def _severity(text: str) -> str | None:
    """-1 leaves the default."""
    number = _int32(text)
    if number is None or number not in _SEVERITIES:
        return None
    return "" if number < 0 else str(number)


def _flag(text: str) -> str | None:
    return _FLAGS.get(text.lower())


def _own_threads(text: str) -> str | None:
    """Only threads of its own: sharing takes an environment, which no package can ask for."""
    return "1" if _flag(text) == "1" else None


_Reading = Callable[[str], str | None]

#: Typed key → (its reading of a value, what it takes). A reading is the text for our own options;
#: "" leaves the default, and None means that the release makes no session.
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


def read_as_onnxruntime(options: Mapping[str, str]) -> dict[str, str]:
    """The options that take effect, in the spelling of our own :class:`SessionOptions`.

    Raises InvalidSessionOptionError for the first that onnxruntime 1.31 refuses.
    """
    read: dict[str, str] = {}
    for key, stated in options.items():
        value = stated.partition("\0")[0]
        if key in _TYPED:
            reading, takes = _TYPED[key]
            found = reading(value)
            if found is None:
                raise InvalidSessionOptionError(
                    f"{quoted(key)} takes {takes}, not {quoted(value)}", key=key
                )
            read[key] = found
            continue
        if not 0 < _nbytes(key) <= LONGEST_KEY_NBYTES:
            what = f"a key has 1 to {LONGEST_KEY_NBYTES} bytes, not {_nbytes(key)}"
            raise InvalidSessionOptionError(f"session option {quoted(key)}: {what}", key=key)
        if _nbytes(value) > LONGEST_VALUE_NBYTES:
            what = f"a value has at most {LONGEST_VALUE_NBYTES} bytes, not {_nbytes(value)}"
            raise InvalidSessionOptionError(f"session option {quoted(key)}: {what}", key=key)
        read[key] = value
    return _without_defaults(read)


def read_leniently(options: Mapping[str, str]) -> dict[str, str]:
    """As :func:`read_as_onnxruntime`; what 1.31 refuses stays as it is: it may be our spelling."""
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
