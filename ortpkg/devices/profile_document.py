"""The document of a machine profile: a file's bytes → an object that its schema allows.

A profile may come from a stranger as a package does, so it is measured before it is parsed. What is
wrong is a ProfileError that names the file, the place as a JSON pointer, and what would be right
there.
"""

from __future__ import annotations

import json
import stat
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from ortpkg.errors import ProfileError, quoted, unquoted
from ortpkg.names import did_you_mean

MOST_NBYTES = 1 << 20
_MOST_DEPTH = 32
_MOST_DIGITS = 64
_MOST_FINDINGS = 10
_SCHEMA_FILE = "machine_profile.schema.json"


def read_profile_document(path: Path) -> dict[str, Any]:
    """The object in the profile ``path``.

    ProfileError where it cannot be read or breaks the schema.
    """
    try:
        # Looked at before it is opened: opening a FIFO would wait for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            _fail(
                path,
                "is not a file; a profile is a JSON file that `ortpkg devices --export FILE`"
                " writes",
            )
        with path.open("rb") as file:
            data = file.read(MOST_NBYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        _fail(path, f"cannot be read: {getattr(error, 'strerror', None) or error}")
    return parse_profile_document(data, path)


def parse_profile_document(data: bytes, file: Path | str) -> dict[str, Any]:
    """The same for bytes; ``file`` is their name in messages."""
    if len(data) > MOST_NBYTES:
        _fail(file, f"is larger than {MOST_NBYTES} bytes, which no profile is")
    value = _parse(data, file)
    if not isinstance(value, dict):
        _fail(file, "is not a JSON object; a profile is what `ortpkg devices --export FILE` writes")
    if value.get("kind") == "devices":
        _fail(
            file,
            "is the output of `ortpkg devices --json`; `ortpkg devices --export FILE` writes a"
            " profile",
            "/kind",
        )
    if is_newer_major(value.get("schema_version")):
        _fail(
            file,
            f"has schema_version {quoted(value['schema_version'])}, newer than 1; update ortpkg",
            "/schema_version",
        )
    _check_schema(value, file)
    return value


def is_newer_major(version: object) -> bool:
    """Whether a profile's schema_version is of a major version that came after ours."""
    major = version.partition(".")[0] if isinstance(version, str) else ""
    return major.isascii() and major.isdigit() and len(major) < 10 and int(major) > 1


def fail_at(file: Path | str, pointer: str, message: str) -> NoReturn:
    """Raises the ProfileError for one place of the document."""
    raise ProfileError(_message(file, [f"{pointer}: {message}"]), file=file, pointer=pointer)


def _fail(file: Path | str, message: str, pointer: str = "") -> NoReturn:
    raise ProfileError(f"machine profile {quoted(file)} {message}", file=file, pointer=pointer)


def _message(file: Path | str, lines: list[str]) -> str:
    return "\n".join(
        [f"{quoted(file)} is not a machine profile:", *(f"  {line}" for line in lines)]
    )


def _parse(data: bytes, file: Path | str) -> Any:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _fail(file, f"is not UTF-8 text: byte {error.start} is not valid")
    if _deepest(text) > _MOST_DEPTH:
        _fail(file, f"is nested deeper than {_MOST_DEPTH} levels")
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_int=_bounded_integer,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        _fail(file, f"is not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}")
    except ValueError as error:
        _fail(file, f"is not valid JSON: {error}")


def _deepest(text: str) -> int:
    """An upper bound of how deep objects and arrays stand in each other.

    Brackets in strings count too.
    """
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {quoted(repeated)} occurs more than once in one object")
    return made


def _bounded_integer(written: str) -> int:
    if len(written) > _MOST_DIGITS:
        raise ValueError(f"the number {quoted(written)} has more than {_MOST_DIGITS} digits")
    return int(written)


def _refuse_constant(written: str) -> NoReturn:
    raise ValueError(f"{written} is not a JSON number")


def _check_schema(value: dict[str, Any], file: Path | str) -> None:
    import jsonschema_rs  # only where a profile is read

    schema = json.loads(_schema_path().read_text(encoding="utf-8"))
    errors = list(
        islice(jsonschema_rs.Draft202012Validator(schema).iter_errors(value), _MOST_FINDINGS)
    )
    if errors:
        found = [problem for error in errors for problem in _problems(error, schema)]
        lines = [
            f"{unquoted(pointer) or 'the document'}: {what}"
            for pointer, what in found[:_MOST_FINDINGS]
        ]
        raise ProfileError(_message(file, lines), file=file, pointer=found[0][0])


def _problems(error: Any, schema: Any) -> list[tuple[str, str]]:
    """Pointers to what breaks the schema, each with what is wrong and what would be right."""
    for token in error.schema_path[:-1]:
        schema = schema[token]
    place = list(error.instance_path)
    if error.schema_path[-1] == "additionalProperties" and isinstance(error.instance, dict):
        known = list(schema.get("properties", ()))
        return [
            (
                _pointer([*place, key]),
                (
                    f"key {quoted(key)} is not known{did_you_mean(key, known)}; known are"
                    f" {', '.join(known)}"
                ),
            )
            for key in error.instance
            if key not in known
        ]
    description = schema.get("description", "") if isinstance(schema, dict) else ""
    remedy = f" (must be {description})" if description else ""
    return [(_pointer(place), f"{unquoted(error.message)}{remedy}")]


def _schema_path() -> Path:
    """Inside the package when installed from a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    beside = package.parent / "schemas" / _SCHEMA_FILE
    inside = package / "schemas" / _SCHEMA_FILE
    return inside if inside.is_file() else beside


def _pointer(tokens: list[str | int]) -> str:
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)
