"""Records of measurements and failures on this machine: one JSON file per package.

They lie in the user's state directory (``state_directory``). Reading never fails: a file that is
damaged, foreign or huge is ignored with a note, except for the quarantine, of which there is a copy
(``quarantine_copy``). Writing happens under a lock and in one step; if it fails, the caller gets
the reason as a text, because the measurements are still valid.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import quoted, unquoted
from ortpkg.foundations.host.directories import has_records, records_directory
from ortpkg.foundations.storage.file_replacement import replace_file
from ortpkg.foundations.storage.planned_files import PlannedFiles
from ortpkg.foundations.storage.process_lock import hold_lock
from ortpkg.foundations.versions import are_same_versions
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.package_info import PackageInfo
from ortpkg.runtime.providers.machine_offer import MachineOffer
from ortpkg.selection.matching.measurements import (
    CanaryPass,
    Measurement,
    QuarantineEntry,
    SelectionRecords,
    VariantOnDevice,
    VariantOnDeviceKey,
    VersionedVariant,
    device_key,
)
from ortpkg.selection.measuring.fingerprint import (
    changes,
    fingerprint_of,
    fingerprint_text,
    is_same_machine,
    nearest,
)
from ortpkg.selection.measuring.package_digest import package_digest
from ortpkg.selection.measuring.quarantine_copy import copy_path, copy_text
from ortpkg.selection.measuring.record_format import (
    MOST_MACHINES,
    MachineRecord,
    PackageRecord,
    dump_record,
)
from ortpkg.selection.measuring.stored_record import (
    StoredRecord,
    read_stored,
    record_path,
    stored_records,
)

_LOCK_TIMEOUT_S = 10.0
_Entry = TypeVar("_Entry", Measurement, QuarantineEntry, CanaryPass)


def now_text() -> str:
    """Return the current time in the form of records."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedState:
    """Records of a package, with the state of the machine that was measured.

    Attributes:
        records: the records for a selection.
        recorded_at: time of the last of ``records.measurements``, in ISO 8601; "" for none.
        facts: the machine and the versions that were measured, by name.
    """

    records: SelectionRecords
    recorded_at: str = ""
    facts: Mapping[str, str] = EMPTY


def load_records(package: PackageInfo, offer: MachineOffer) -> SelectionRecords | None:
    """Return the records of ``package`` on this machine; None if there are none. Never raises.

    Measurements count as long as the fingerprint is the same; otherwise they are returned with a
    ``stale_reason``, which names the change. Quarantine counts while EP and driver have the
    versions with which the variant failed. A file that is not a record gives empty records with a
    ``stale_reason``. Costs microseconds if nothing is recorded.
    """
    state = load_recorded_state(package, offer)
    return None if state is None else state.records


def load_recorded_state(package: PackageInfo, offer: MachineOffer) -> RecordedState | None:
    """Return the records as :func:`load_records` does, with the state of the machine."""
    if not has_records():
        return None
    digest = package_digest(package.root)
    stored = read_stored(record_path(digest)) if digest else None
    if stored is None:
        return None
    if stored.problem:
        return RecordedState(records=_damaged_records(stored, digest, offer))
    record = stored.record
    assert record is not None
    now = fingerprint_of(offer.machine, offer.ep_devices)
    machine = MachineRecord(fingerprint={}, recorded_at="", measurements=())
    stale_reason = ""
    if record.machines:
        machine = record.machines[
            nearest([state_record.fingerprint for state_record in record.machines], now)
        ]
        stale_reason = _stale_reason(machine, changes(machine.fingerprint, now))
    records = SelectionRecords(
        measurements=machine.measurements,
        quarantined=tuple(
            entry for entry in record.quarantined if _is_in_force(entry, offer.ep_devices)
        ),
        package_digest=digest,
        fingerprint=fingerprint_text(now),
        stale_reason=stale_reason,
    )
    return RecordedState(
        records=records, recorded_at=machine.recorded_at, facts=machine.fingerprint
    )


def _damaged_records(stored: StoredRecord, digest: str, offer: MachineOffer) -> SelectionRecords:
    why = f"the file {quoted(stored.path)} is ignored: {unquoted(stored.problem)}"
    quarantined = () if stored.record is None else stored.record.quarantined
    return SelectionRecords(
        quarantined=tuple(entry for entry in quarantined if _is_in_force(entry, offer.ep_devices)),
        package_digest=digest,
        stale_reason=why,
        problem=f"{why}; {_knowledge_text(stored)}",
    )


def write_records(
    package: PackageInfo, offer: MachineOffer, measurements: Sequence[Measurement]
) -> str:
    """Record measurements that were just made on ``offer``.

    They replace those of the same variants and EP devices, whose batch times stay unless they were
    measured again. Others stay while the fingerprint is the same; those of another state of the
    same machine are dropped.

    Returns:
        The reason if they could not be written; else "".
    """
    measured = {(measurement.ep_name, measurement.backend) for measurement in measurements}
    used = [
        ep_device
        for ep_device in offer.ep_devices
        if (ep_device.ep_name, ep_device.backend) in measured
    ]
    now = fingerprint_of(offer.machine, used)

    def change(record: PackageRecord) -> PackageRecord:
        current: tuple[Measurement, ...] = ()
        fingerprint = now
        others = []
        for machine in record.machines:
            if not is_same_machine(machine.fingerprint, now):
                others.append(machine)
            elif not changes(machine.fingerprint, now):
                current += machine.measurements
                fingerprint = {**machine.fingerprint, **now}
        replaced = {previous.key for previous in measurements}
        batches = {earlier.key: earlier.batch_times for earlier in current}
        updated = MachineRecord(
            fingerprint=fingerprint,
            recorded_at=now_text(),
            measurements=(
                *(unchanged for unchanged in current if unchanged.key not in replaced),
                *(
                    replace(new, batch_times=new.batch_times or batches.get(new.key, ()))
                    for new in measurements
                ),
            ),
        )
        return replace(record, machines=(*others, updated)[-MOST_MACHINES:])

    return _change(package, change)


def write_quarantine(package: PackageInfo, entries: Sequence[QuarantineEntry]) -> str:
    """Record failures; each replaces one of the same variant and EP device.

    Measurements and passed canaries of the same place no longer count, and are dropped.

    Returns:
        The reason if they could not be written; else "".
    """
    if not entries:
        return ""
    keys = {entry.key for entry in entries}

    def change(record: PackageRecord) -> PackageRecord:
        machines = tuple(
            replace(machine, measurements=tuple(_other_entries(machine.measurements, keys)))
            for machine in record.machines
        )
        return replace(
            record,
            machines=machines,
            quarantined=(*_other_entries(record.quarantined, keys), *entries),
            canaries=tuple(_other_entries(record.canaries, keys)),
        )

    return _change(package, change)


def write_canary_pass(package: PackageInfo, entry: CanaryPass) -> str:
    """Record that a canary passed; return the reason if it could not be written, else ""."""
    keys = {entry.key}
    return _change(
        package,
        lambda record: replace(record, canaries=(*_other_entries(record.canaries, keys), entry)),
    )


def has_passed_canary(package: PackageInfo, versioned: VersionedVariant) -> bool:
    """Return True if a canary of the variant passed with these versions of EP and driver."""
    if not has_records():
        return False
    digest = package_digest(package.root)
    stored = read_stored(record_path(digest)) if digest else None
    if stored is None or stored.record is None or stored.problem:
        return False
    return any(
        entry.key == versioned.key
        and are_same_versions(
            (entry.ep_version, entry.driver_version),
            (versioned.ep_version, versioned.driver_version),
        )
        for entry in stored.record.canaries
    )


def clear_records(
    package: PackageInfo | None = None, *, quarantine_only: bool = False, variant: str = ""
) -> int:
    """Delete records; return the number of deleted measurements and quarantine entries.

    Args:
        package: the package; None for all. Its content decides: records of another state of it
            stay.
        quarantine_only: True to keep measurements and canaries.
        variant: name of the variants whose records to delete; "" for all.

    Raises:
        OSError: the files cannot be changed.
    """
    count = 0
    for stored in stored_records() if package is None else records_of(package):
        if stored.record is None:
            if not quarantine_only and not variant:
                _remove(stored.path)
            continue
        with _locked(stored.path):
            now = read_stored(stored.path)
            if now is None or now.record is None:
                continue
            rest = _remaining_record(now.record, quarantine_only=quarantine_only, variant=variant)
            count += _size(now.record) - _size(rest)
            if _is_empty(rest):
                _remove(stored.path)
            elif rest != now.record or now.problem:
                _write(stored.path, rest)
    return count


def clearing_of_quarantine(
    package: PackageInfo | None = None, *, variant: str = ""
) -> PlannedFiles:
    """Return the changes to files that :func:`clear_records` with ``quarantine_only`` would make.

    Nothing is changed.
    """
    changes: list[Path] = []
    removes: list[Path] = []
    for stored in stored_records() if package is None else records_of(package):
        if stored.record is None:
            continue
        rest = _remaining_record(stored.record, quarantine_only=True, variant=variant)
        if rest == stored.record and not stored.problem and not _is_empty(rest):
            continue
        (removes if _is_empty(rest) else changes).append(stored.path)
        (changes if copy_text(rest) else removes).append(copy_path(stored.path))
    return PlannedFiles(
        root=Path(records_directory()),
        changes=tuple(path.name for path in changes),
        removes=tuple(path.name for path in removes if path.exists()),
    )


def _is_empty(record: PackageRecord) -> bool:
    return not _size(record) and not record.canaries


def _other_entries(entries: Iterable[_Entry], keys: set[VariantOnDeviceKey]) -> Iterator[_Entry]:
    return (entry for entry in entries if entry.key not in keys)


def _knowledge_text(stored: StoredRecord) -> str:
    if stored.record is None:
        return "what failed here before is forgotten, and may be selected again"
    return f"what is in quarantine was recovered ({len(stored.record.quarantined)})"


def _is_in_force(entry: QuarantineEntry, ep_devices: Sequence[EpDevice]) -> bool:
    return any(
        (entry.ep_name, entry.backend) == (ep_device.ep_name, ep_device.backend)
        and entry.device == device_key(ep_device, ep_devices)
        and entry.is_of_version(ep_device)
        for ep_device in ep_devices
    )


def _stale_reason(machine: MachineRecord, changed: Sequence[str]) -> str:
    if not changed:
        return ""
    return f"measured on {machine.recorded_at[:10]}, and since then: {'; '.join(changed)}"


def _remaining_record(
    record: PackageRecord, *, quarantine_only: bool, variant: str
) -> PackageRecord:
    def keeps(entry: VariantOnDevice) -> bool:
        return bool(variant) and entry.variant_name != variant

    quarantined = tuple(entry for entry in record.quarantined if keeps(entry))
    if quarantine_only:
        return replace(record, quarantined=quarantined)
    machines = (
        replace(
            machine_record,
            measurements=tuple(entry for entry in machine_record.measurements if keeps(entry)),
        )
        for machine_record in record.machines
    )
    return replace(
        record,
        machines=tuple(machine for machine in machines if machine.measurements),
        quarantined=quarantined,
        canaries=tuple(entry for entry in record.canaries if keeps(entry)),
    )


def _size(record: PackageRecord) -> int:
    return len(record.quarantined) + sum(len(machine.measurements) for machine in record.machines)


def records_of(package: PackageInfo) -> tuple[StoredRecord, ...]:
    """Return the file of records of one package as it is now, if there is one."""
    digest = package_digest(package.root)
    stored = read_stored(record_path(digest)) if digest else None
    return () if stored is None else (stored,)


def _change(package: PackageInfo, change: Callable[[PackageRecord], PackageRecord]) -> str:
    """Read, change and write the package's record under its lock.

    Return the reason if that fails; else "".
    """
    digest = package_digest(package.root)
    if not digest:
        return f"the package at {quoted(package.root)} cannot be read"
    path = record_path(digest)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            stored = read_stored(path)
            record = stored.record if stored is not None else None
            if stored is not None and stored.problem:
                stored.path.replace(path.with_suffix(".damaged"))
            if record is None:
                record = PackageRecord(name=package.name, digest=digest)
            _write(path, change(record))
    except OSError as error:
        return f"the records in {quoted(path.parent)} cannot be written: {error.strerror or error}"
    return ""


def _locked(path: Path) -> contextlib.AbstractContextManager[None]:
    return hold_lock(path.with_suffix(".lock"), timeout_s=_LOCK_TIMEOUT_S)


def _write(path: Path, record: PackageRecord) -> None:
    _replace_text(path, dump_record(record))
    copied = copy_text(record)
    if copied:
        _replace_text(copy_path(path), copied)
    else:
        copy_path(path).unlink(missing_ok=True)


def _remove(path: Path) -> None:
    copy_path(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _replace_text(path: Path, text: str) -> None:
    replace_file(path, lambda file: file.write(text.encode()), mode=0o600)
