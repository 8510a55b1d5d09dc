"""``ortpkg pull``: copies what a machine needs of a package to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.cli.install_options import InstallOptions
from ortpkg.cli.installing import plan_json, print_plan
from ortpkg.cli.parameters import DryRunOption, OverwriteOption, TrustPolicyOption
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.distribution.pulling import pull
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import ExitCode

ReferenceArgument = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help=(
            "oci://host[:port]/repository[:tag], oci-layout:FOLDER[:tag], or the name of an"
            " installed package."
        ),
    ),
]
OutputPathOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="The folder, which is made.")
]


def command(
    output: Output,
    reference: ReferenceArgument,
    output_path: OutputPathOption,
    *,
    options: InstallOptions,
    trust_policy: TrustPolicyOption = None,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Copy a package to a folder of your own: its documents, and the variants that are chosen.

    What the store has is not fetched again. Of an installed package comes what is installed, if you
    ask for nothing else.
    """
    wishes = options.wishes()
    with copy_progress() as progress:
        report = pull(
            reference,
            output_path,
            wishes=None if wishes == InstallWishes() else wishes,
            overwrite=overwrite,
            trust_policy=trust_policy,
            is_rehearsal=dry_run,
            on_plan=lambda plan: print_plan(plan, output),
            progress=progress,
        )
    if output.is_json:
        content = {"root": str(report.root), "fetched_nbytes": report.moved_nbytes}
        output.json("pull", {"dry_run": dry_run, **content, **plan_json(report.plan)})
    elif not dry_run:
        output.note(f"fetched {nbytes_text(report.moved_nbytes)}")
        output.line(output_path)
    return ExitCode.DONE
