"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ortpkg.cli.completion import (
    complete_backend,
    complete_compat,
    complete_component,
    complete_device,
    complete_ep,
    complete_format,
    complete_policy,
    complete_variant,
)
from ortpkg.cli.package_argument import Use, package_parser
from ortpkg.cli.quantity_arguments import number
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.machine.policies import POLICIES, RELEASE_POLICIES


def one_of(words: type[StrEnum]) -> dict[str, Any]:
    """Return keywords of a typer argument or option that takes one of ``words``."""
    return {
        "metavar": "|".join(words),
        "parser": _parser(words),
        "autocompletion": _completion(words),
    }


def _parser(words: type[StrEnum]) -> Callable[[str], StrEnum]:
    def word(text: str) -> StrEnum:
        if text not in list(words):
            listed = " or ".join(filter(None, [", ".join(list(words)[:-1]), list(words)[-1]]))
            raise typer.BadParameter(f"{quoted(text)} is not {listed}{did_you_mean(text, words)}")
        return words(text)

    return word


def _completion(words: type[StrEnum]) -> Callable[[str], list[str]]:
    def offered(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return offered


_REFERENCES = "a folder (name.ortpackage), a name in the store, oci://host/repository:tag, ..."
#: Argument of commands that change a package, a folder. It is not checked for readability here,
#: because an unreadable package is not a usage error.
PackageArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PKG",
        help="The package's directory (name.ortpackage).",
        parser=package_parser(Use.CHANGE),
    ),
]
#: Argument of commands that read every file of a package, so that all of it is fetched.
WholePackageArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PKG", help=f"The package: {_REFERENCES}", parser=package_parser(Use.READ_ALL)
    ),
]
_OPTIONAL_HELP = (
    f"A package ({_REFERENCES}), packed (name.ortpkg), or an ONNX file; default: what the current"
    " folder lies in."
)
OptionalPackageArgument = Annotated[
    Path | None,
    typer.Argument(metavar="PKG", help=_OPTIONAL_HELP, parser=package_parser(Use.READ)),
]
#: Argument of commands that run a package's samples by default.
SampledPackageArgument = Annotated[
    Path | None,
    typer.Argument(metavar="PKG", help=_OPTIONAL_HELP, parser=package_parser(Use.RUN_SAMPLES)),
]
ComponentOption = Annotated[
    str | None,
    typer.Option(
        "--component",
        "-c",
        metavar="NAME",
        help="Which component model; needed where there are several.",
        autocompletion=complete_component,
    ),
]
VariantOption = Annotated[
    str | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        help="Consider only this variant.",
        autocompletion=complete_variant,
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="D",
        help="Only this kind of device: cpu, gpu or npu.",
        autocompletion=complete_device,
    ),
]
EpOption = Annotated[
    str | None,
    typer.Option(
        "--ep",
        metavar="EP",
        help="Only this execution provider: a name or an alias (cpu, cuda, openvino, qnn, ...).",
        autocompletion=complete_ep,
    ),
]
PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="P",
        help=f"The order of preference: {', '.join([*POLICIES, *RELEASE_POLICIES])}.",
        autocompletion=complete_policy,
    ),
]
ProfilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        metavar="NAME|FILE",
        help=(
            "For another machine: a built-in profile (ortpkg devices --list-profiles) or a file;"
            " this-machine is this one. May be repeated."
        ),
    ),
]
MaxMemoryOption = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        help="Most memory that a variant may need: 500MB, 1.5GiB; a number alone is bytes.",
    ),
]
MaxSizeOption = Annotated[
    str | None,
    typer.Option(
        "--max-size",
        metavar="SIZE",
        help="Largest size of a variant's files: 500MB, 1.5GiB; a number alone is bytes.",
    ),
]
MinPrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--min-precision",
        metavar="P",
        help="Lowest precision: int4, int8, fp16, bf16, fp32 or fp64.",
    ),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="KEY=VALUE",
        help="Only with this metadata: quantization=int8. May be repeated.",
    ),
]
MaxLatencyOption = Annotated[
    str | None,
    typer.Option(
        "--max-latency",
        metavar="T",
        help="Longest 95% latency that ortpkg bench measured here: 5ms; a number alone is seconds.",
    ),
]
MaxErrorOption = Annotated[
    float | None,
    typer.Option(
        "--max-error",
        metavar="E",
        parser=number(),
        help="Largest absolute error of the outputs that ortpkg bench measured.",
    ),
]
StrictFactsOption = Annotated[
    bool,
    typer.Option(
        "--strict-facts", help="Also reject variants for which a limit cannot be checked."
    ),
]
IncludeAbsentOption = Annotated[
    bool,
    typer.Option(
        "--include-absent",
        help="Judge variants of a sparse package whose files are not here as if they were.",
    ),
]
CompatOption = Annotated[
    str | None,
    typer.Option(
        "--compat",
        metavar="R",
        help=(
            "Accept and refuse what a release does: onnxruntime-1.32, onnxruntime-1.31, or"
            " onnxruntime-1.30 for 1.28 to 1.30."
        ),
        autocompletion=complete_compat,
    ),
]
ExternalPathsOption = Annotated[
    bool,
    typer.Option(
        "--allow-external-paths",
        help='Follow paths out of a package whose layout is "installed". For your own ones.',
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust/--no-trust",
        help="Accept options of the package that can reach beyond it. For publishers you trust.",
        show_default=False,
    ),
]
TrustPolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--trust-policy",
        metavar="FILE",
        help="Who may publish what; default: ORTPKG_TRUST_POLICY, or your trust.toml.",
    ),
]
BackendOption = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="B",
        help="Backend that runs it: auto, embedded, openvino, onnxruntime or a plug-in's name.",
        autocompletion=complete_backend,
    ),
]
ProviderOptionsOption = Annotated[
    list[str] | None,
    typer.Option("--provider-option", metavar="KEY=VALUE", help="An option of the EP. Repeatable."),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="NAME", help="The package's name; default: that of its directory."
    ),
]
ModelVersionOption = Annotated[
    str | None, typer.Option("--model-version", metavar="V", help="The package's version.")
]
DescriptionOption = Annotated[
    str | None, typer.Option("--description", metavar="TEXT", help="What the model does.")
]
FORMATS_HELP = "universal (onnxruntime 1.26 to 1.32), metadata (1.26, 1.27) or component (1.28 on)."
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="F",
        help=FORMATS_HELP,
        autocompletion=complete_format,
    ),
]
NewPackageOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="NEW", help="Make a new package there.")
]
InPlaceOption = Annotated[bool, typer.Option("--in-place", help="Change the package itself.")]
OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace what is there already, in one step when the new one is complete.",
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say which files would change, and change none.")
]
RegistryArgument = Annotated[
    str, typer.Argument(metavar="HOST", help="The registry: host or host:port; docker.io.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Accept inputs and outputs that differ from the siblings'.")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but data and errors.")
]
NoColorOption = Annotated[
    bool, typer.Option("--no-color", help="Print no colours, as with NO_COLOR set.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Let warnings, too, end with exit code 1.")
]


def chosen_output(output_path: Path | None, *, in_place: bool) -> Path | None:
    """Return where a command that rewrites a package writes to; None for the package itself.

    Raises:
        UsageError: Not exactly one is chosen.
    """
    if (output_path is None) is not in_place:
        raise UsageError(
            "say where the result goes: -o NEW makes a new package, --in-place changes this one"
        )
    return output_path


def parse_options(
    flag: str, assignments: Iterable[str] | None, *, separator: str = "=", form: str = "KEY=VALUE"
) -> dict[str, str]:
    """Parse ``KEY=VALUE`` texts to a dictionary.

    Raises:
        UsageError: A text has another form, or a key is repeated.
    """
    options: dict[str, str] = {}
    for assignment in assignments or ():
        key, equals_sign, value = assignment.partition(separator)
        if not equals_sign or not key:
            raise UsageError(f"{flag} {quoted(assignment)}: write {form}")
        if key in options:
            raise UsageError(f"{flag}: {quoted(key)} is given twice")
        options[key] = value
    return options
