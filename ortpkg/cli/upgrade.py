"""``ortpkg upgrade``: installs what the references of installed packages name now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ortpkg.cli.installing import plan_json, print_plan
from ortpkg.cli.parameters import DryRunOption, TrustPolicyOption
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.store_json import installed_reference, model_version_text, version_text
from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.upgrading import Upgrade, upgrade
from ortpkg.foundations.errors import ExitCode, OrtpkgError

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Names in the store; default: all of them."),
]


def command(
    output: Output,
    names: NamesArgument = None,
    trust_policy: TrustPolicyOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Install what the references of installed packages name now, chosen as before.

    That is another version where a tag has moved, and another variant where the machine has
    changed. One that cannot be upgraded stays as it is; then the exit code says why.
    """
    store = PackageStore()
    upgrades: list[Upgrade] = []
    failed: list[tuple[Generation, OrtpkgError]] = []
    for installed in named_packages(store, names):
        try:
            with copy_progress() as progress:
                outcome = upgrade(
                    installed,
                    store=store,
                    trust_policy=trust_policy,
                    is_rehearsal=dry_run,
                    on_plan=lambda plan: print_plan(plan, output),
                    progress=progress,
                )
        except OrtpkgError as error:
            failed.append((installed, error))
            continue
        upgrades.append(outcome)
        if not output.is_json:
            _print_upgrade(outcome, output)
    if output.is_json:
        done = [_upgrade_json(item) for item in upgrades]
        errors = [{"name": item.name, "error": str(why)} for item, why in failed]
        output.json("upgrade", {"dry_run": dry_run, "packages": done, "failed": errors})
    for item, why in failed:
        output.note(f"error: {item.name}: {why}", style="red", is_urgent=True)
    return int(failed[0][1].exit_code) if failed else ExitCode.DONE


def named_packages(store: PackageStore, names: Sequence[str] | None) -> list[Generation]:
    """Return the installed packages of these names, or all.

    Raises:
        PackageNotInstalledError: A name is not installed.
    """
    if names:
        return [store.find(installed_reference(name).name) for name in dict.fromkeys(names)]
    return list(store.packages())


def _print_upgrade(outcome: Upgrade, output: Output) -> None:
    installed, source = outcome.installed, outcome.plan.fetched.source
    if outcome.is_current:
        output.line(f"{installed.name}: {version_text(installed)} is current")
        return
    if outcome.is_signed_anew:
        verb = "would get" if outcome.generation is None else "has"
        output.line(f"{installed.name}: {verb} other signatures over {version_text(installed)}")
        return
    before = f"{version_text(installed)} ({', '.join(installed.variants)})"
    variants = ", ".join(choice.name for choice in outcome.plan.choices)
    new_version = model_version_text(outcome.plan.version, source.tag or source.digest[:19])
    after = f"{new_version} ({variants})"
    if before == after:
        before, after = installed.digest[:19], source.digest[:19]
    verb = "would become" if outcome.generation is None else "is now"
    output.line(f"{installed.name}: {verb} {after}; it was {before}")
    if outcome.generation is not None:
        output.note(f"fetched {nbytes_text(outcome.moved_nbytes)}")


def _upgrade_json(outcome: Upgrade) -> dict[str, Any]:
    return {
        **plan_json(outcome.plan),
        "is_current": outcome.is_current,
        "before": {
            "generation": outcome.installed.number,
            "tag": outcome.installed.tag,
            "digest": outcome.installed.digest,
            "variants": list(outcome.installed.variants),
        },
        "generation": None if outcome.generation is None else outcome.generation.number,
        "fetched_nbytes": outcome.moved_nbytes,
    }
