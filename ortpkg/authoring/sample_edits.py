"""Add sample sets to a package: samples/samples.json and its npz files, in one change."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from ortpkg.authoring.edited_documents import checked_content
from ortpkg.authoring.new_variant import Notify
from ortpkg.authoring.package_on_disk import open_locked_package
from ortpkg.authoring.written_package import open_written
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.errors import AuthoringError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.storage.composed_file import ComposedFile
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.changes.transaction import DocumentChange, PackageChange, commit_change
from ortpkg.package.formats.samples import TaskTolerance, Tolerance
from ortpkg.package.named_parts import component_named, verify_variants_known
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package
from ortpkg.package.sidecar import SAMPLES, SAMPLES_DIRECTORY

_SCHEMA_VERSION = "1.0"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSamples:
    """Requested sample set.

    Attributes:
        name: unique in the package.
        inputs: the bytes of an npz file; None keeps those of the set of that name.
        expected_outputs: the bytes of an npz file; None for no expectation, or (if ``inputs`` is
            None) for the present one.
        component: None for the pipeline, or the only component.
        batch_axis: 0 if leading axes enumerate samples.
        tolerances: output → tolerance; if ``inputs`` is None, added to the present ones.
        task: the answers that decide; None for none, or for the present ones.
        variant: the variant of these tolerances and this task; None for all variants without their
            own.
        description: for people.
    """

    name: str
    inputs: bytes | None
    expected_outputs: bytes | None = None
    component: str | None = None
    batch_axis: int | None = None
    tolerances: Mapping[str, Tolerance] = field(default_factory=lambda: EMPTY)
    task: TaskTolerance | None = None
    variant: str | None = None
    description: str | None = None


def put_samples(
    root: str | PathLike[str],
    new: NewSamples,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackageInfo:
    """Add a sample set to a package, or replace the one of that name.

    Args:
        root: the package.
        new: the set; without inputs of its own, it changes the expected outputs of the one of that
            name.
        overwrite: replace a set of that name.
        progress, notify, operations: as for :func:`~ortpkg.authoring.create.add_variant`.

    Raises:
        AuthoringError: there is a set of that name, samples.json cannot be edited, or the disk is
            full.
        UsageError: no set of that name has inputs to keep.
        UnknownComponentError: no such component.
        PackageError, PackageBusyError: as for every change.
    """
    notify = notify or logger.warning
    target = Path(os.path.abspath(root))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    open_package(target)
    with open_locked_package(target, notify=notify, operations=operations) as package:
        change = _change(package, new, overwrite=overwrite)
        commit_change(target, change, operations=operations, progress=progress)
        return open_written(target)


def _change(package: PackageInfo, new: NewSamples, *, overwrite: bool) -> PackageChange:
    path = package.root / SAMPLES
    before = path.read_bytes() if path.is_file() else None
    document: dict[str, Any] = {"schema_version": _SCHEMA_VERSION, "samples": []}
    if before is not None:
        document = parse_document(before, document=SAMPLES)
    samples: list[dict[str, Any]] = document["samples"]
    index = next(
        (position for position, sample in enumerate(samples) if sample["name"] == new.name), None
    )
    if index is not None and not overwrite and new.inputs is not None:
        raise AuthoringError(
            f"there is a sample set {quoted(new.name)} already: choose another name, or replace it"
            " with --overwrite"
        )
    old = samples[index] if index is not None else None
    files = {
        key: content
        for key, content in _contents(new)
        if content is not None and not _has_content(package, (old or {}).get(key), content)
    }
    names = {key: _free_name(package, f"{new.name}_{key}") for key in files}
    body = _body(package, new, old, names)
    position = len(samples) if index is None else index
    samples[position : position + 1] = [body]
    if old is not None and body == old:
        raise AuthoringError(
            f"the samples {quoted(new.name)} say all of this already; nothing was changed"
        )
    after = checked_content(document, SAMPLES, schema="samples")
    return PackageChange(
        documents=(DocumentChange(path=SAMPLES, before=before, after=after),),
        new_directories={},
        new_files={
            f"{SAMPLES_DIRECTORY}/{names[key]}": ComposedFile((content,))
            for key, content in files.items()
        },
        removes=tuple(_left_behind(package, old, samples)),
    )


def _has_content(package: PackageInfo, name: str | None, content: bytes) -> bool:
    """Return True if the set's file has this content already."""
    path = package.root / SAMPLES_DIRECTORY / (name or "")
    return name is not None and path.is_file() and path.read_bytes() == content


def _contents(new: NewSamples) -> Iterator[tuple[str, bytes | None]]:
    yield "inputs", new.inputs
    yield "expected_outputs", new.expected_outputs


def _body(
    package: PackageInfo, new: NewSamples, old: Mapping[str, Any] | None, files: Mapping[str, str]
) -> dict[str, Any]:
    """Return the set as samples.json states it."""
    if new.inputs is None and old is None:
        names = [sample["name"] for sample in _present_samples(package)]
        listed = ", ".join(map(quoted, names)) or "none"
        raise UsageError(
            f"there is no sample set {quoted(new.name)} whose inputs could be"
            f" taken{did_you_mean(new.name, names)}; there is {listed}"
        )
    base: dict[str, Any] = {"name": new.name}
    if old is not None:
        base = (
            dict(old)
            if new.inputs is None
            else base | {k: old[k] for k, v in _contents(new) if v and k in old}
        )
    new_values = {
        "description": new.description,
        "component": _component(package, new.component) if new.inputs is not None else None,
        **files,
        "batch_axis": new.batch_axis,
        **_judged_by(package, new, base),
    }
    if new.variant is None and _is_superseded(base.get("task"), new):
        base.pop("task")
    return base | {
        key: value for key, value in new_values.items() if value is not None and value != {}
    }


def _is_superseded(task: Mapping[str, Any] | None, new: NewSamples) -> bool:
    """Return True if ``new`` states a tolerance in place of this task, and no task itself."""
    return task is not None and new.task is None and task["output"] in new.tolerances


def _judged_by(package: PackageInfo, new: NewSamples, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body's tolerances and task: of the whole set, or of the variant in ``new``."""
    tolerances = {
        output: _tolerance_body(tolerance) for output, tolerance in new.tolerances.items()
    }
    task = None if new.task is None else _task_body(new.task)
    if new.variant is None:
        return {"tolerances": {**base.get("tolerances", {}), **tolerances}, "task": task}
    if not tolerances and task is None:
        return {}
    variant_names = [
        variant.name
        for component in package.components
        if new.component in (None, component.name)
        for variant in component.variants
    ]
    verify_variants_known(package, [new.variant], variant_names)
    variants = {name: dict(body) for name, body in base.get("variants", {}).items()}
    variant_body = variants.setdefault(new.variant, {})
    if _is_superseded(variant_body.get("task"), new):
        variant_body.pop("task")
    if tolerances:
        variant_body["tolerances"] = {**variant_body.get("tolerances", {}), **tolerances}
    if task is not None:
        variant_body["task"] = task
    return {"variants": variants}


def _tolerance_body(tolerance: Tolerance) -> dict[str, float]:
    body = {"absolute": tolerance.absolute, "relative": tolerance.relative}
    if tolerance.of_largest:
        body["of_largest"] = tolerance.of_largest
    if tolerance.cosine is not None:
        body["cosine"] = tolerance.cosine
    return body


def _task_body(task: TaskTolerance) -> dict[str, Any]:
    body: dict[str, Any] = {"output": task.output, "same": task.kind.value}
    return body | ({"error_rate": task.error_rate} if task.error_rate else {})


def _component(package: PackageInfo, name: str | None) -> str | None:
    """Return the value of ``component``: None if a reader finds it without."""
    if name is None and (package.has_pipeline or len(package.components) == 1):
        return None
    return component_named(package, name).name


def _present_samples(package: PackageInfo) -> list[dict[str, Any]]:
    path = package.root / SAMPLES
    samples: list[dict[str, Any]] = (
        parse_document(path.read_bytes(), document=SAMPLES)["samples"] if path.is_file() else []
    )
    return samples


def _free_name(package: PackageInfo, stem: str) -> str:
    """Return an unused name for an npz file in samples/: no live file is overwritten."""
    plain = _NOT_IN_NAMES.sub("_", stem).strip("._") or "samples"
    name, number = f"{plain}.npz", 2
    while os.path.lexists(package.root / SAMPLES_DIRECTORY / name):
        name, number = f"{plain}_{number}.npz", number + 1
    return name


def _left_behind(
    package: PackageInfo, old: Mapping[str, Any] | None, samples: list[dict[str, Any]]
) -> Iterator[str]:
    """Yield files that the old set named and nothing names any more."""
    if old is None:
        return
    named = {name for sample in samples for name in _files_of(sample)}
    for name in _files_of(old):
        path = package.root / SAMPLES_DIRECTORY / name
        if name not in named and path.is_file() and path.parent == package.root / SAMPLES_DIRECTORY:
            yield f"{SAMPLES_DIRECTORY}/{name}"


def _files_of(sample: Mapping[str, Any]) -> list[str]:
    labels, display = sample.get("labels") or {}, sample.get("display") or {}
    names = [
        sample.get("inputs"),
        sample.get("expected_outputs"),
        labels.get("file"),
        display.get("vocabulary"),
    ]
    return [name for name in names if isinstance(name, str)]
