"""Check sample sets against the models that they are for (ORT510 to ORT514).

Only headers of arrays are read; of labels, the values too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ortpkg.authoring.checks.checked_package import CheckedPackage
from ortpkg.authoring.checks.npz_headers import ArrayHeader, NpzError, read_labels, read_npz_headers
from ortpkg.authoring.rules import sample_rules
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.documents.finding_collector import finding, json_pointer, listed
from ortpkg.foundations.documents.json_documents import read_document
from ortpkg.foundations.errors import Finding, PackageFormatError, quoted
from ortpkg.graph.model_signature import ValueSignature
from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.package.formats.samples import (
    Display,
    DisplayKind,
    Labels,
    SampleSet,
    TaskTolerance,
    Tolerance,
    read_samples,
)
from ortpkg.package.formats.task_shapes import why_no_answers
from ortpkg.package.package_info import ValueInfo
from ortpkg.package.sidecar import SAMPLES

_TENSOR_TYPE = re.compile(r"tensor\((\w+)\)")
_Value = ValueInfo | ValueSignature
_MOST_SHOWN_LABELS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Values:
    """Inputs and outputs of the component or pipeline that samples are for."""

    inputs: Sequence[_Value]
    outputs: Sequence[_Value]


def check_samples(package: CheckedPackage) -> Iterator[Finding]:
    """Check that every sample set's files can be read and fit their component or pipeline."""
    if not package.info.has_samples:
        return
    try:
        samples = read_samples(package.info)
    except PackageFormatError:
        return  # the reader has reported what is wrong with samples.json
    for index, sample in enumerate(samples):
        yield from _SampleCheck(package, sample, index).findings()


class _SampleCheck:
    """Check of one sample set."""

    def __init__(self, package: CheckedPackage, sample: SampleSet, index: int) -> None:
        self._sample = sample
        self._index = index
        self._values = _values_of(package, sample)
        self._findings: list[Finding] = []

    def findings(self) -> list[Finding]:
        """Return all findings of the set: tolerances, files, arrays, labels, display.

        Arrays are checked only if the files of inputs and outputs can be read.
        """
        sample = self._sample
        self._check_tolerances()
        inputs = self._read(sample.inputs, "inputs")
        outputs: Mapping[str, ArrayHeader] | None = {}
        if sample.expected_outputs is None:
            self._add(sample_rules.SAMPLE_EXPECTS_NOTHING, "has no expected outputs")
        else:
            outputs = self._read(sample.expected_outputs, "expected_outputs")
        self._check_tasks(outputs or {})
        if inputs is None or outputs is None:
            return self._findings
        if self._values is not None:
            self._check_arrays(inputs, self._values.inputs, "inputs", is_complete=True)
            self._check_arrays(outputs, self._values.outputs, "expected_outputs", is_complete=False)
        self._check_labels(self._count_samples({**inputs, **outputs}))
        if sample.display is not None:
            self._check_display(sample.display)
        return self._findings

    def _read(self, path: Path, *tokens: str) -> dict[str, ArrayHeader] | None:
        try:
            return read_npz_headers(path)
        except NpzError as error:
            self._add(sample_rules.SAMPLE_UNREADABLE, f"file {quoted(path.name)} {error}", *tokens)
        return None

    def _check_arrays(
        self,
        arrays: Mapping[str, ArrayHeader],
        values: Sequence[_Value],
        array_kind: str,
        *,
        is_complete: bool,
    ) -> None:
        by_name = {value.name: value for value in values}
        available = listed(list(by_name)) or "none"
        for name in (name for name in arrays if name not in by_name):
            self._add(
                sample_rules.SAMPLE_NAMES,
                f"array {quoted(name)} of {array_kind} is for nothing: there is {available}",
                array_kind,
            )
        for name, value in by_name.items():
            if name in arrays:
                if reason := _why_not_fed(
                    arrays[name], value, is_batched=self._sample.batch_axis is not None
                ):
                    self._add(
                        sample_rules.SAMPLE_MISFITS,
                        f"array {quoted(name)} of {array_kind} {reason}",
                        array_kind,
                    )
            elif is_complete:
                self._add(
                    sample_rules.SAMPLE_NAMES,
                    f"{array_kind} have no array for {quoted(name)}",
                    array_kind,
                )

    def _count_samples(self, arrays: Mapping[str, ArrayHeader]) -> int:
        if self._sample.batch_axis is None:
            return 1
        lengths = {
            name: header.shape[0] if header.shape else None for name, header in arrays.items()
        }
        if len(set(lengths.values())) > 1 or None in lengths.values():
            message = (
                f"arrays differ in their leading axis, which counts the samples: {quoted(lengths)}"
            )
            self._add(sample_rules.SAMPLE_MISFITS, message, "batch_axis")
        return max((length for length in lengths.values() if length is not None), default=0)

    def _check_labels(self, count: int) -> None:
        labels = self._sample.labels
        arrays = self._read(labels.file, "labels", "file") if labels is not None else None
        if labels is None or arrays is None:
            return
        header = arrays.get(labels.name)
        if header is None:
            available = listed(list(arrays)) or "none"
            message = (
                f"there is no array {quoted(labels.name)} in {quoted(labels.file.name)}; there is"
                f" {available}"
            )
            self._add(sample_rules.SAMPLE_LABELS, message, "labels", "name")
        elif header.shape != (count,):
            message = (
                f"labels have the shape {list(header.shape)}; for {count} samples, one each, it is"
                f" [{count}]"
            )
            self._add(sample_rules.SAMPLE_LABELS, message, "labels")
        elif self._sample.display is not None and self._sample.display.kind is DisplayKind.CLASS:
            self._check_class_labels(labels, header, self._sample.display)

    def _check_class_labels(self, labels: Labels, header: ArrayHeader, display: Display) -> None:
        """Check that labels of classes are numbers of classes, or their names."""
        if header.dtype.kind not in "iuU":
            self._add(
                sample_rules.SAMPLE_LABELS,
                f"labels of classes are whole numbers or names, not {header.dtype}",
                "labels",
            )
            return
        values = read_labels(labels.file, labels.name)
        wrong: list[str]
        if header.dtype.kind == "U":
            wrong = (
                []
                if display.classes is None
                else sorted({str(label) for label in values} - set(display.classes))
            )
            expected = "display.classes has no such class"
        else:
            count = self._count_classes(display)
            outside = (
                set()
                if count is None
                else {int(label) for label in values if not 0 <= label < count}
            )
            wrong = [str(label) for label in sorted(outside)]
            expected = f"there are {count} classes, numbered from 0"
        if wrong:
            shown = ", ".join(
                label if header.dtype.kind != "U" else quoted(label)
                for label in wrong[:_MOST_SHOWN_LABELS]
            )
            more = ", ..." if len(wrong) > _MOST_SHOWN_LABELS else ""
            self._add(
                sample_rules.SAMPLE_LABELS,
                f"label {shown}{more} is for no class: {expected}",
                "labels",
            )

    def _count_classes(self, display: Display) -> int | None:
        """Return the number of classes by the model's output, or else by their names.

        Return None if neither is known.
        """
        for value in self._values.outputs if self._values is not None else ():
            if (
                value.name == display.output
                and value.shape
                and isinstance(value.shape[-1], int)
                and value.shape[-1] > 1
            ):
                return value.shape[-1]
        return None if display.classes is None else len(display.classes)

    def _check_tolerances(self) -> None:
        if self._values is None:
            return
        outputs = [value.name for value in self._values.outputs]
        tables: list[tuple[tuple[str, ...], Mapping[str, Tolerance]]] = [
            (("tolerances",), self._sample.tolerances)
        ]
        tables += [
            (("variants", name, "tolerances"), table)
            for name, table in self._sample.variant_tolerances.items()
        ]
        for tokens, tolerances in tables:
            for name in (name for name in tolerances if name not in outputs):
                message = (
                    f"a tolerance is for the output {quoted(name)}; there is"
                    f" {listed(outputs) or 'none'}"
                )
                self._add(sample_rules.SAMPLE_NAMES, message, *tokens, name)

    def _check_tasks(self, expected: Mapping[str, ArrayHeader]) -> None:
        """Find tasks for outputs that do not exist, or have no answers that could differ."""
        declared: list[tuple[tuple[str, ...], TaskTolerance | None]] = [
            (("task",), self._sample.task),
            *(
                (("variants", name, "task"), variant_task)
                for name, variant_task in self._sample.variant_tasks.items()
            ),
        ]
        for tokens, task in declared:
            if task is None:
                continue
            outputs = [value.name for value in self._values.outputs] if self._values else None
            if outputs is not None and task.output not in outputs:
                message = (
                    f"a task is for the output {quoted(task.output)}; there is"
                    f" {listed(outputs) or 'none'}"
                )
                self._add(sample_rules.SAMPLE_NAMES, message, *tokens, "output")
            elif task.output in expected and (
                reason := self._why_no_answers(task, expected[task.output])
            ):
                message = f"the task compares {task.kind.value}, and output"
                message = f"{message} {quoted(task.output)} {reason}"
                self._add(sample_rules.SAMPLE_MISFITS, message, *tokens, "same")

    def _why_no_answers(self, task: TaskTolerance, header: ArrayHeader) -> str | None:
        is_batched = self._sample.batch_axis is not None
        return why_no_answers(task.kind, header.dtype.kind, header.shape, is_batched=is_batched)

    def _check_display(self, display: Display) -> None:
        outputs = (
            [value.name for value in self._values.outputs]
            if self._values is not None
            else [display.output]
        )
        if display.output not in outputs:
            message = (
                f"output {quoted(display.output)} is displayed; there is"
                f" {listed(outputs) or 'none'}"
            )
            self._add(sample_rules.SAMPLE_NAMES, message, "display", "output")
        count = self._count_classes(display)
        if (
            display.kind is DisplayKind.CLASS
            and display.classes is not None
            and count not in {None, len(display.classes)}
        ):
            message = (
                f"display names {len(display.classes)} classes; output {quoted(display.output)} has"
                f" {count}"
            )
            self._add(sample_rules.SAMPLE_MISFITS, message, "display", "classes")
        if display.vocabulary is not None:
            try:
                read_document(display.vocabulary)
            except PackageFormatError as error:
                reason = error.findings[0].message if error.findings else str(error)
                message = f"vocabulary {quoted(display.vocabulary.name)} {reason}"
                self._add(sample_rules.SAMPLE_UNREADABLE, message, "display", "vocabulary")

    def _add(self, rule: Rule, message: str, *tokens: str) -> None:
        pointer = json_pointer("samples", self._index, *tokens)
        message = f"sample set {quoted(self._sample.name)}: {message}"
        self._findings.append(finding(rule, SAMPLES, message, pointer=pointer))


def _values_of(package: CheckedPackage, sample: SampleSet) -> _Values | None:
    """Return the inputs and outputs of the sample set's component, or of the pipeline.

    Return None if they are unknown.
    """
    if sample.component is None:
        info = package.info
        return _Values(inputs=info.inputs, outputs=info.outputs) if info.has_pipeline else None
    signature = package.signature_of(sample.component)
    return (
        None if signature is None else _Values(inputs=signature.inputs, outputs=signature.outputs)
    )


def _why_not_fed(header: ArrayHeader, value: _Value, *, is_batched: bool) -> str | None:
    """Return why the array does not fit ``value``, an input or output; None if it does.

    The first axis of a batched array may have any size.
    """
    match = _TENSOR_TYPE.fullmatch(value.type)
    element_type = (
        ElementType.__members__.get(match.group(1).upper()) if match is not None else None
    )
    if element_type is not None and not _holds(header, element_type):
        return f"holds {header.dtype}, where {value.type} is expected"
    if value.shape is None or match is None:
        return None
    if len(header.shape) != len(value.shape):
        return f"has the rank {len(header.shape)}, where {len(value.shape)} is expected"
    for axis, (size, expected) in enumerate(zip(header.shape, value.shape, strict=True)):
        if isinstance(expected, int) and size != expected and not (is_batched and axis == 0):
            return f"has {size} elements on axis {axis}, where {expected} are expected"
    return None


def _holds(header: ArrayHeader, element_type: ElementType) -> bool:
    if element_type is ElementType.STRING:
        return header.dtype.kind in "US"
    dtype = numpy_dtype(element_type)
    if (
        header.dtype.kind == "V"
    ):  # numpy stores types that it does not know (bfloat16, float8) as raw bytes
        return dtype.isbuiltin != 1 and header.dtype.itemsize == dtype.itemsize
    return header.dtype == dtype
