"""``ortpkg samples``: adds inputs to try a package with, and their expected outputs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ortpkg.cli.choice_options import VariantChoice
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.given_inputs import GivenInputs, InputOptions
from ortpkg.cli.package_json import package_json
from ortpkg.cli.parameters import (
    DryRunOption,
    OverwriteOption,
    PackageArgument,
    TrustOption,
    one_of,
)
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import ExitCode, UsageError, quoted

if TYPE_CHECKING:
    from ortpkg.package.formats.samples import TaskTolerance, Tolerance


class Action(StrEnum):
    """Action of the command."""

    ADD = "add"
    RECORD = "record"


ActionArgument = Annotated[
    Action,
    typer.Argument(
        **one_of(Action),
        help=(
            "add takes the expected outputs from files; record runs the best variant and keeps its."
        ),
    ),
]
SampleSetOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Name of the sample set.")
]
ExpectedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--expected", metavar="[NAME=]FILE", help="For add: an output, as --input. Repeatable."
    ),
]
TolerancesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tolerance",
        metavar="[OUTPUT=]ABS[,REL]",
        help=(
            "How far outputs may be off; 2% is of an output's largest number. For add with"
            " --variant, outputs of that variant alone. Repeatable."
        ),
    ),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="[OUTPUT=]KIND[,RATE]",
        help=(
            "The answers decide, not the numbers: class (the top class), neighbours (the order of"
            " the nearest) or text; RATE of the samples may differ, as in class,2%."
        ),
    ),
]
BatchedOption = Annotated[
    bool, typer.Option("--batched", help="The leading axis of each array enumerates samples.")
]
DescriptionOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Description of the samples.")
]


def command(
    output: Output,
    action: ActionArgument,
    package: PackageArgument,
    name: SampleSetOption,
    *,
    inputs: InputOptions,
    expected: ExpectedOption = None,
    tolerances: TolerancesOption = None,
    task: TaskOption = None,
    batched: BatchedOption = False,
    description: DescriptionOption = None,
    choice: VariantChoice,
    trust: TrustOption = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Give a package samples for run, bench and canary: your files, or what its best variant makes.

    Without inputs, record runs those of the set of that name again and keeps what comes out now,
    and add states other tolerances of that set, or of one variant (--variant).
    """
    from ortpkg.api.samples.sample_authoring import (  # numpy, onnx
        SampleArrays,
        add_samples,
        record_samples,
    )

    given_inputs = inputs.given()
    feeds, outputs, tolerated = _values(
        package, choice.component, given_inputs, expected or (), tolerances or ()
    )
    samples = SampleArrays(
        name=name,
        inputs=feeds,
        expected=outputs,
        component=choice.component,
        is_batched=batched,
        tolerances=tolerated,
        task=None if task is None else _task(task, package, choice.component),
        variant=choice.variant if action is Action.ADD else None,
        description=description,
    )
    operations = operations_for(dry_run)
    if action is Action.ADD:
        if not samples.inputs and not (samples.tolerances or samples.task):
            raise UsageError(
                "samples add: give the inputs, with --input or --random; or a --tolerance or --task"
                " of a set that is there"
            )
        sample_set = add_samples(package, samples, overwrite=overwrite, operations=operations)
    else:
        if expected:
            raise UsageError(
                "samples record makes the expected outputs itself: --expected is for add"
            )
        sample_set = record_samples(
            package,
            samples,
            overwrite=overwrite,
            trust=trust,
            operations=operations,
            wishes=choice.wishes(),
            on_note=output.note,
        )
    if output.is_json:
        output.json("package", package_json(sample_set))
    else:
        output.note(f"{package} has the samples {name}: ortpkg run {package} runs them")
    return ExitCode.DONE


def _values(
    package: Path,
    component: str | None,
    given_inputs: GivenInputs,
    expected: Sequence[str],
    tolerances: Sequence[str],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tolerance]]:
    """Return feeds, expected outputs and tolerances, by declared name."""
    from ortpkg.api.samples.sample_authoring import declared_values  # numpy, onnx
    from ortpkg.package.reader import open_package

    info = open_package(package)
    takes, gives = declared_values(info, component)
    ranges = {
        value.name: value.value_range for value in info.inputs if value.value_range is not None
    }
    return (
        given_inputs.feeds(takes, ranges) if given_inputs else {},
        GivenInputs(expected, None, {}, resize=False).feeds(gives, {}),
        parse_tolerances(tolerances, [declared.name for declared in gives]),
    )


def parse_tolerances(texts: Sequence[str], outputs: Sequence[str]) -> dict[str, Tolerance]:
    """Parse ``[OUTPUT=]ABS[,REL]`` texts; without an output, they apply to all of ``outputs``.

    Raises:
        UsageError: A text has another form.
    """
    from ortpkg.package.formats.samples import (
        Tolerance,  # the reader of samples, after the arguments
    )

    tolerances: dict[str, Tolerance] = {}
    for text in texts:
        output, separator, numbers = text.rpartition("=")
        absolute, _, relative = numbers.partition(",")
        try:
            first, second = _number(absolute), _number(relative or "0")
        except ValueError:
            first = second = -1.0
        if not (0 <= first < float("inf") and 0 <= second < float("inf")):
            raise UsageError(
                f"--tolerance {quoted(text)}: write ABS, ABS,REL or OUTPUT=ABS,REL, as in 1e-4,1e-3"
                " (a part of the largest number: 2%)"
            )
        is_part = absolute.endswith("%")
        tolerance = Tolerance(
            absolute=0.0 if is_part else first,
            relative=second,
            of_largest=first if is_part else 0.0,
        )
        tolerances |= dict.fromkeys([output] if separator else outputs, tolerance)
    return tolerances


def _number(text: str) -> float:
    """Parse a number; a percentage becomes a fraction. Raise ValueError for other text."""
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def _task(text: str, package: Path, component: str | None) -> TaskTolerance:
    """Parse ``[OUTPUT=]KIND[,RATE]``; OUTPUT may be omitted if there is only one.

    Else UsageError.
    """
    from ortpkg.api.samples.sample_authoring import declared_values  # numpy, onnx
    from ortpkg.package.formats.samples import TaskKind, TaskTolerance
    from ortpkg.package.reader import open_package

    output, _, criterion = text.rpartition("=")
    word, _, rate = criterion.partition(",")
    kinds = [kind.value for kind in TaskKind]
    try:
        error_rate = _number(rate or "0")
    except ValueError:
        error_rate = -1.0
    if word not in kinds or not 0 <= error_rate <= 1:
        raise UsageError(
            f"--task {quoted(text)}: write KIND, KIND,RATE or OUTPUT=KIND,RATE, as in class,2%;"
            f" kinds are {', '.join(kinds)}"
        )
    _, outputs = declared_values(open_package(package), component)
    names = [declared.name for declared in outputs]
    if not output and len(names) != 1:
        raise UsageError(
            f"--task {quoted(text)}: say of which output, OUTPUT={criterion}: there is"
            f" {', '.join(map(quoted, names))}"
        )
    return TaskTolerance(output=output or names[0], kind=TaskKind(word), error_rate=error_rate)
