"""Add samples to a package: given arrays, or outputs recorded from its best variant."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ortpkg.api.model_package import ModelPackage
from ortpkg.api.samples.sample_runner import run_samples
from ortpkg.authoring.sample_edits import NewSamples, put_samples
from ortpkg.foundations.arrays.array_files import npz_bytes, read_npz, write_npz
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import AuthoringError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.graph.declared_values import DeclaredValue
from ortpkg.graph.model_signature import read_model_signature
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.formats.samples import SampleSet, TaskTolerance, Tolerance, read_samples
from ortpkg.package.formats.task_shapes import why_no_answers
from ortpkg.package.named_parts import component_named
from ortpkg.package.package_info import PackageInfo
from ortpkg.selection.matching.wishes import ANY_VARIANT, SelectionWishes

if TYPE_CHECKING:
    from ortpkg.selection.matching.wishes import SelectionKeywords

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleArrays:
    """Sample set as arrays.

    Attributes:
        name: unique in the package.
        inputs: input → array.
        expected: output → array; empty for no expectation.
        component: None for the pipeline, or the only component.
        is_batched: leading axes enumerate samples.
        tolerances: output → tolerance.
        task: the answers that decide, instead of the tolerance of that output.
        variant: the variant of these tolerances and this task; None for all variants.
        description: for people.
    """

    name: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array] = field(default_factory=dict)
    component: str | None = None
    is_batched: bool = False
    tolerances: Mapping[str, Tolerance] = EMPTY
    task: TaskTolerance | None = None
    variant: str | None = None
    description: str | None = None


def add_samples(
    root: str | PathLike[str],
    samples: SampleArrays,
    *,
    overwrite: bool = False,
    operations: FileOperations | None = None,
) -> PackageInfo:
    """Add a sample set to the package at ``root``, without running anything.

    Without inputs, only the tolerances or the task of the set of that name change.

    Args:
        root: the package.
        samples: the set.
        overwrite: replace a set of that name.
        operations: change the disk.

    Raises:
        UsageError: an input is missing, or the model has no input or output of a name.
        AuthoringError: there is a set of that name, or as for every change.
    """
    check_is_not_installed(Path(root))
    package = ModelPackage(root).info
    inputs, outputs = declared_values(package, samples.component)
    if samples.inputs:
        _check_names("input", samples.inputs, inputs, needs_all=True)
    elif samples.expected or not (samples.tolerances or samples.task):
        raise UsageError(
            "samples without inputs state tolerances or a task of a set that is there: give the"
            " inputs, or a tolerance or a task"
        )
    _check_names("output", samples.expected, outputs)
    _check_judged(samples, outputs)
    _check_answers(package, samples)
    return put_samples(root, _new(samples), overwrite=overwrite, operations=operations)


def record_samples(
    root: str | PathLike[str],
    samples: SampleArrays,
    *,
    overwrite: bool = False,
    trust: bool = False,
    operations: FileOperations | None = None,
    wishes: SelectionWishes | SelectionKeywords = ANY_VARIANT,
    on_note: Callable[[str], None] = lambda _text: None,
) -> PackageInfo:
    """Run the best variant on the inputs, and keep its outputs as the expected ones.

    Args:
        root: the package.
        samples: the set; without inputs, the set of that name gets new expected outputs. Outputs
            without a tolerance of their own are judged by the precision of each variant.
        overwrite: replace a set of that name.
        trust: accept options of the package that can reach beyond it.
        operations: change the disk.
        wishes: decide which variant is the best, as for :meth:`~ortpkg.ModelPackage.select`.
        on_note: called with a sentence for each variant whose outputs are recorded.

    Raises:
        NoSuitableVariantError, SessionError: as for choosing and running.
        UsageError, AuthoringError: as :func:`add_samples`.
    """
    check_is_not_installed(Path(root))
    package = ModelPackage(root, trust=trust)
    inputs, outputs = declared_values(package.info, samples.component)
    _check_judged(samples, outputs)
    _check_name_is_free(package.info, samples, overwrite=overwrite)
    if not isinstance(wishes, SelectionWishes):
        wishes = ANY_VARIANT.but("record_samples", wishes)
    chosen = package.choose(samples.component, wishes)
    session = chosen.create_session(lambda variant: variant.create_session(backend=wishes.backend))
    for variant in chosen.variants.values():
        ep_device = variant.verdict(backend=wishes.backend).ep_device
        on_note(
            f"recorded what variant {quoted(variant.name)} of {quoted(variant.component_name)}"
            f" gives{'' if ep_device is None else f' on {ep_device.ep_and_backend}'}"
        )
    with tempfile.TemporaryDirectory(prefix="ortpkg-samples-") as folder:
        if samples.inputs:
            _check_names("input", samples.inputs, inputs, needs_all=True)
            sample_set = SampleSet(
                name=samples.name,
                inputs=Path(folder, "inputs.npz"),
                batch_axis=0 if samples.is_batched else None,
            )
            write_npz(sample_set.inputs, samples.inputs)
        else:
            sample_set = _present_set(package.info, samples.name)
        report = run_samples(session, sample_set, keep_outputs=True)
    expected = {name: np.asarray(value) for name, value in report.outputs.items()}
    recorded = replace(samples, expected=expected)
    _check_answers(package.info, recorded)
    return put_samples(root, _new(recorded), overwrite=overwrite, operations=operations)


def declared_values(
    package: PackageInfo, component: str | None
) -> tuple[Sequence[DeclaredValue], Sequence[DeclaredValue]]:
    """Return the inputs and outputs that samples feed: of a component's first variant, or pipeline.

    Raises:
        AuthoringError: no variant is one model.
    """
    if component is None and package.has_pipeline:
        return package.inputs, package.outputs
    named = component_named(package, component)
    model = next(
        (variant.model_path for variant in named.variants if variant.model_path is not None), None
    )
    if model is None:
        raise AuthoringError(
            f"component model {quoted(named.name)} has no variant that is one model: no samples"
            " fit it"
        )
    signature = read_model_signature(model)
    return signature.inputs, signature.outputs


def _check_judged(samples: SampleArrays, outputs: Sequence[DeclaredValue]) -> None:
    named = dict.fromkeys([*samples.tolerances, *([samples.task.output] if samples.task else [])])
    _check_names("output", named, outputs)


def _check_answers(package: PackageInfo, samples: SampleArrays) -> None:
    """Raise UsageError for a task whose kind of answer the expected outputs do not have."""
    if samples.task is None:
        return
    old = next((sample for sample in read_samples(package) if sample.name == samples.name), None)
    expected, is_batched = samples.expected, samples.is_batched
    if old is not None and not samples.inputs:
        is_batched = old.batch_axis is not None
        if not expected and old.expected_outputs is not None:
            expected = read_npz(old.expected_outputs)
    task, array = samples.task, expected.get(samples.task.output)
    if array is None:
        return
    reason = why_no_answers(task.kind, array.dtype.kind, array.shape, is_batched=is_batched)
    if reason:
        raise UsageError(
            f"the task {quoted(task.kind.value)} does not fit: output {quoted(task.output)}"
            f" {reason}; state a tolerance of its numbers instead"
        )


def _check_names(
    kind: str,
    arrays: Mapping[str, Any],
    declared: Sequence[DeclaredValue],
    *,
    needs_all: bool = False,
) -> None:
    names = [value.name for value in declared]
    listed = ", ".join(map(quoted, names))
    for name in arrays:
        if name not in names:
            raise UsageError(
                f"the model has no {kind} {quoted(name)}{did_you_mean(name, names)}; it has"
                f" {listed}"
            )
    missing = [name for name in names if name not in arrays]
    if needs_all and missing:
        raise UsageError(
            f"the samples lack the {kind} {quoted(missing[0])}; the model has {listed}"
        )


def _check_name_is_free(package: PackageInfo, samples: SampleArrays, *, overwrite: bool) -> None:
    """Check the name before minutes of running; the change itself checks again."""
    if (
        samples.inputs
        and not overwrite
        and any(sample_set.name == samples.name for sample_set in read_samples(package))
    ):
        raise AuthoringError(
            f"there is a sample set {quoted(samples.name)} already: choose another name, or replace"
            " it with --overwrite"
        )


def _present_set(package: PackageInfo, name: str) -> SampleSet:
    """Return the package's sample set of that name, without its expectations."""
    sample_sets = {sample_set.name: sample_set for sample_set in read_samples(package)}
    if name not in sample_sets:
        listed = ", ".join(map(quoted, sample_sets)) or "none"
        raise UsageError(
            f"there is no sample set {quoted(name)} whose inputs could be"
            f" run{did_you_mean(name, sample_sets)}; there is {listed}; give --input for a new one"
        )
    return replace(sample_sets[name], expected_outputs=None, labels=None, display=None)


def _new(samples: SampleArrays) -> NewSamples:
    return NewSamples(
        name=samples.name,
        inputs=npz_bytes(samples.inputs) if samples.inputs else None,
        expected_outputs=npz_bytes(samples.expected) if samples.expected else None,
        component=samples.component,
        batch_axis=0 if samples.is_batched else None,
        tolerances=samples.tolerances,
        task=samples.task,
        variant=samples.variant,
        description=samples.description,
    )
