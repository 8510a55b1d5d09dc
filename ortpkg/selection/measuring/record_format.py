"""JSON form of a package's records, with a reader that trusts nothing.

::

    {"schema_version": "1.0", "package": {"name": "digits", "digest": "sha256:..."},
     "machines": [{"fingerprint": {"threads": "8", ...}, "recorded_at": "...",
                   "measurements": [{...}, ...]}],
     "quarantined": [{...}, ...], "canaries": [{...}, ...]}

The keys of measurements and entries are the fields of ``ortpkg.selection.matching.measurements``.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, TypeVar

from ortpkg.selection.matching.measurements import (
    CanaryPass,
    Measurement,
    QuarantineCause,
    QuarantineEntry,
    VariantOnDevice,
)

SCHEMA_VERSION = "1.0"
_MAJOR = SCHEMA_VERSION.partition(".")[0]
#: Largest file that is read; ``bench`` never writes as much.
MOST_BYTES = 8 << 20
MOST_MACHINES = 20
MOST_ENTRIES = 5_000
MOST_BATCHES = 100
_LONGEST_TEXT = 2_000


class RecordFormatError(ValueError):
    """The content is not a record of ortpkg; the message says what is wrong and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRecord:
    """Measurements on one machine in one state."""

    fingerprint: Mapping[str, str]
    recorded_at: str
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRecord:
    """Records of one package, on each machine that shares the folder of records."""

    name: str
    digest: str
    machines: tuple[MachineRecord, ...] = ()
    quarantined: tuple[QuarantineEntry, ...] = ()
    canaries: tuple[CanaryPass, ...] = ()


def dump_record(record: PackageRecord) -> str:
    """Return the JSON text of ``record``."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "package": {"name": record.name, "digest": record.digest},
        "machines": [
            {
                "fingerprint": dict(machine.fingerprint),
                "recorded_at": machine.recorded_at,
                "measurements": [asdict(measurement) for measurement in machine.measurements],
            }
            for machine in record.machines
        ],
        "quarantined": [asdict(entry) for entry in record.quarantined],
        "canaries": [asdict(entry) for entry in record.canaries],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def parse_record(content: bytes) -> PackageRecord:
    """Return the record in ``content``; RecordFormatError if it is anything else."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RecordFormatError(f"it is not JSON ({type(error).__name__})") from error
    body = _object(document, "it")
    version = body.get("schema_version")
    if not isinstance(version, str) or version.partition(".")[0] != _MAJOR:
        raise RecordFormatError(f"its schema_version is not {_MAJOR}.x")
    package = _object(body.get("package"), "/package")
    return PackageRecord(
        name=_text(package.get("name"), "/package/name"),
        digest=_text(package.get("digest"), "/package/digest"),
        machines=tuple(
            _machine(machine, f"/machines/{number}")
            for number, machine in enumerate(
                _list(body.get("machines"), "/machines", most=MOST_MACHINES)
            )
        ),
        quarantined=_entries(QuarantineEntry, body, "quarantined"),
        canaries=_entries(CanaryPass, body, "canaries"),
    )


def salvage_quarantine(content: bytes) -> PackageRecord | None:
    """Return the readable quarantine entries of a damaged record; None if there are none."""
    try:
        document = json.loads(content)
        body = _object(document, "it")
        package = _object(body.get("package"), "/package")
        name, digest = (
            _text(package.get("name"), "/package/name"),
            _text(package.get("digest"), "/package/digest"),
        )
        listed = list(_list(body.get("quarantined"), "/quarantined", most=MOST_ENTRIES))
    except (ValueError, RecursionError):
        return None
    entries = []
    for number, value in enumerate(listed):
        with contextlib.suppress(RecordFormatError):
            entries.append(_entry(QuarantineEntry, value, f"/quarantined/{number}"))
    return PackageRecord(name=name, digest=digest, quarantined=tuple(entries)) if entries else None


_Entry = TypeVar("_Entry", bound=VariantOnDevice)


def _machine(value: object, where: str) -> MachineRecord:
    body = _object(value, where)
    fingerprint = _object(body.get("fingerprint"), f"{where}/fingerprint")
    return MachineRecord(
        fingerprint={
            name: _text(fact, f"{where}/fingerprint/{name}") for name, fact in fingerprint.items()
        },
        recorded_at=_text(body.get("recorded_at"), f"{where}/recorded_at"),
        measurements=_entries(Measurement, body, "measurements", within=where),
    )


def _entries(
    kind: type[_Entry], body: Mapping[str, Any], key: str, *, within: str = ""
) -> tuple[_Entry, ...]:
    where = f"{within}/{key}"
    return tuple(
        _entry(kind, value, f"{where}/{number}")
        for number, value in enumerate(_list(body.get(key), where, most=MOST_ENTRIES))
    )


def _entry(kind: type[_Entry], value: object, where: str) -> _Entry:
    """Return a dataclass of texts and numbers from its JSON object.

    Unknown keys, of a newer minor version, are ignored.
    """
    body = _object(value, where)
    values: dict[str, Any] = {}
    for field in fields(kind):
        pointer = f"{where}/{field.name}"
        if field.name not in body and field.default is not MISSING:
            continue
        values[field.name] = _READERS[str(field.type)](body.get(field.name), pointer)
    return kind(**values)


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordFormatError(f"{where} is not an object")
    return value


def _list(value: object, where: str, *, most: int) -> Iterable[object]:
    if not isinstance(value, list) or len(value) > most:
        raise RecordFormatError(f"{where} is not a list of at most {most} entries")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise RecordFormatError(f"{where} is not a text of at most {_LONGEST_TEXT} characters")
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RecordFormatError(f"{where} is not a number")
    return float(value)


def _amount(value: object, where: str) -> float:
    number = _number(value, where)
    if number < 0:
        raise RecordFormatError(f"{where} is less than 0")
    return number


def _count_or_none(value: object, where: str) -> int | None:
    return None if value is None else int(_amount(value, where))


def _number_or_none(value: object, where: str) -> float | None:
    return None if value is None else _number(value, where)


def _batch_times(value: object, where: str) -> tuple[tuple[int, float], ...]:
    times = []
    for number, pair in enumerate(_list(value, where, most=MOST_BATCHES)):
        numbers = [_amount(amount, where) for amount in _list(pair, f"{where}/{number}", most=2)]
        if len(numbers) != 2:
            raise RecordFormatError(f"{where}/{number} is not a number of rows and a time")
        times.append((int(numbers[0]), numbers[1]))
    if sorted(dict(times).items()) != times or (times and times[0][0] < 1):
        raise RecordFormatError(f"{where} is not ordered by rows, of which there is at least 1")
    return tuple(times)


def _truth_or_none(value: object, where: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise RecordFormatError(f"{where} is neither true, false nor null")
    return value


def _cause(value: object, where: str) -> QuarantineCause:
    try:
        return QuarantineCause(_text(value, where))
    except ValueError:
        raise RecordFormatError(f"{where} is none of {', '.join(QuarantineCause)}") from None


#: Annotation of a field → function that reads it.
_READERS = {
    "str": _text,
    "float": _amount,
    "int | None": _count_or_none,
    "float | None": _number_or_none,
    "bool | None": _truth_or_none,
    "QuarantineCause": _cause,
    "tuple[tuple[int, float], ...]": _batch_times,
}
