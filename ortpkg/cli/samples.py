"""``ortpkg samples``: inputs to try a package with, and the outputs that should come out."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.given_inputs import GivenInputs, parse_sizes
from ortpkg.cli.package_json import package_json
from ortpkg.cli.parameters import (
    BackendOption,
    ComponentOption,
    DeviceOption,
    DryRunOption,
    EpOption,
    JsonOption,
    OverwriteOption,
    PackageArgument,
    PolicyOption,
    TrustOption,
    VariantOption,
)
from ortpkg.cli.rendering import Output
from ortpkg.cli.run_options import (
    DimensionsOption,
    InputsOption,
    RandomOption,
    ResizeOption,
    SeedOption,
)
from ortpkg.errors import ExitCode, UsageError, quoted
from ortpkg.selection.wishes import SelectionWishes

if TYPE_CHECKING:
    from ortpkg.package.formats.samples import Tolerance


class Action(StrEnum):
    """What to do."""

    ADD = "add"
    RECORD = "record"


ActionArgument = Annotated[
    Action,
    typer.Argument(
        help=(
            "add takes the expected outputs from files; record runs the best variant and keeps its."
        )
    ),
]
SampleSetOption = Annotated[str, typer.Option("--name", metavar="NAME", help="Of the sample set.")]
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
        help="How far outputs may be off. Repeatable.",
    ),
]
BatchedOption = Annotated[
    bool, typer.Option("--batched", help="The leading axis of each array enumerates samples.")
]
DescriptionOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="What the samples are.")
]


def command(
    action: ActionArgument,
    package: PackageArgument,
    name: SampleSetOption,
    component: ComponentOption = None,
    inputs: InputsOption = None,
    random: RandomOption = False,
    seed: SeedOption = 0,
    dimensions: DimensionsOption = None,
    resize: ResizeOption = False,
    expected: ExpectedOption = None,
    tolerances: TolerancesOption = None,
    batched: BatchedOption = False,
    description: DescriptionOption = None,
    variant: VariantOption = None,
    device: DeviceOption = None,
    ep: EpOption = None,
    policy: PolicyOption = "default",
    backend: BackendOption = "auto",
    trust: TrustOption = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Give a package samples for run, bench and canary: your files, or what its best variant makes.

    Without inputs, record runs those of the set of that name again and keeps what comes out now.
    """
    from ortpkg.samples.sample_authoring import (  # numpy, onnx
        SampleArrays,
        add_samples,
        record_samples,
    )

    output = Output(is_json=as_json)
    given = GivenInputs(
        inputs or (), seed if random else None, parse_sizes(dimensions), resize=resize
    )
    feeds, outputs, tolerated = _values(package, component, given, expected or (), tolerances or ())
    samples = SampleArrays(
        name=name,
        inputs=feeds,
        expected=outputs,
        component=component,
        is_batched=batched,
        tolerances=tolerated,
        description=description,
    )
    wishes = SelectionWishes(variant=variant, device=device, ep=ep, policy=policy, backend=backend)
    operations = operations_for(dry_run)
    if action is Action.ADD:
        if not samples.inputs:
            raise UsageError("samples add: give the inputs, with --input or --random")
        made = add_samples(package, samples, overwrite=overwrite, operations=operations)
    else:
        if expected:
            raise UsageError(
                "samples record makes the expected outputs itself: --expected is for add"
            )
        made = record_samples(
            package, samples, overwrite=overwrite, trust=trust, operations=operations, wishes=wishes
        )
    if as_json:
        output.json("package", package_json(made))
    else:
        output.note(f"{package} has the samples {name}: ortpkg run {package} runs them")
    return ExitCode.DONE


def _values(
    package: Path,
    component: str | None,
    given: GivenInputs,
    expected: Sequence[str],
    tolerances: Sequence[str],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tolerance]]:
    """What is fed, what is expected of it, and how far off it may be: each by its declared name."""
    from ortpkg.package.reader import open_package
    from ortpkg.samples.sample_authoring import declared_values  # numpy, onnx

    info = open_package(package)
    takes, gives = declared_values(info, component)
    ranges = {
        value.name: value.value_range for value in info.inputs if value.value_range is not None
    }
    return (
        given.feeds(takes, ranges) if given else {},
        GivenInputs(expected, None, {}, resize=False).feeds(gives, {}),
        parse_tolerances(tolerances, [each.name for each in gives]),
    )


def parse_tolerances(texts: Sequence[str], outputs: Sequence[str]) -> dict[str, Tolerance]:
    """``[OUTPUT=]ABS[,REL]`` texts; without an output, for all of ``outputs``.

    UsageError for another form.
    """
    from ortpkg.package.formats.samples import (
        Tolerance,  # the reader of samples, after the arguments
    )

    found: dict[str, Tolerance] = {}
    for text in texts:
        output, separator, numbers = text.rpartition("=")
        absolute, _, relative = numbers.partition(",")
        try:
            tolerance = Tolerance(absolute=float(absolute), relative=float(relative or 0))
        except ValueError:
            tolerance = Tolerance(absolute=-1)
        if not (0 <= tolerance.absolute < float("inf") and 0 <= tolerance.relative < float("inf")):
            raise UsageError(
                f"--tolerance {quoted(text)}: write ABS, ABS,REL or OUTPUT=ABS,REL, as in 1e-4,1e-3"
            )
        found |= dict.fromkeys([output] if separator else outputs, tolerance)
    return found
