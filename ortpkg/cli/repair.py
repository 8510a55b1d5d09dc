"""``ortpkg repair``: fetches damaged files of installed packages again."""

from __future__ import annotations

from ortpkg.cli.parameters import TrustPolicyOption
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.upgrade import NamesArgument, named_packages
from ortpkg.distribution.repairing import Repair, repair
from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import ExitCode, OrtpkgError


def command(
    output: Output,
    names: NamesArgument = None,
    trust_policy: TrustPolicyOption = None,
) -> int:
    """Re-hash installed packages, and fetch what is damaged again from where it came.

    One that cannot be repaired stays as it is; then the exit code says why.
    """
    store = PackageStore()
    repairs: list[Repair] = []
    failed: list[tuple[Generation, OrtpkgError]] = []
    for installed in named_packages(store, names):
        try:
            with copy_progress() as progress:
                done = repair(installed, store=store, trust_policy=trust_policy, progress=progress)
        except OrtpkgError as error:
            failed.append((installed, error))
            continue
        repairs.append(done)
        if not output.is_json:
            _print_repair(done, output)
    if output.is_json:
        content = [
            {
                "name": item.generation.name,
                "generation": item.generation.number,
                "damaged": list(item.damaged),
                "fetched_nbytes": item.moved_nbytes,
            }
            for item in repairs
        ]
        errors = [{"name": item.name, "error": str(why)} for item, why in failed]
        output.json("repair", {"packages": content, "failed": errors})
    for item, why in failed:
        output.note(f"error: {item.name}: {why}", style="red", is_urgent=True)
    return int(failed[0][1].exit_code) if failed else ExitCode.DONE


def _print_repair(done: Repair, output: Output) -> None:
    name = done.generation.name
    if not done.damaged:
        output.line(f"{name}: intact")
        return
    for path in done.damaged:
        output.line(f"{name}: replaced {path}", style="green")
    output.note(f"fetched {nbytes_text(done.moved_nbytes)}")
