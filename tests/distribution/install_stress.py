"""Many processes that install overlapping packages at once from one registry into one store.

``python -m tests.distribution.install_stress [--installers 20] [--readers 4] [--collectors 2]``

All installers start together, and each installs every version of every package in an order of its
own. Readers open names and compare every file with its digest; collectors collect what is not in
use, once with a grace period, as ``ortpkg gc`` does, and once without. It says how many bytes came
more than once while nothing was collected. Ends with 1 where something was wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortpkg.authoring.create import create
from ortpkg.authoring.edit import PackageEdits, edit
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.store.collection import CollectionRules
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.package.references.package_references import OciReference, parse_reference
from tests.authoring.weight_models import make_model, weight
from tests.distribution.store_users import (
    NAMES,
    VERSIONS,
    collect_again_and_again,
    install_all,
    read_again_and_again,
    take_part,
    wrong_files,
)
from tests.registry.in_process_registry import InProcessRegistry, running
from tests.store.store_packages import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENT = CollectionRules(keep=1)


@dataclass(slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        problems: what was wrong.
        installed: how often something was installed.
        nbytes: of the blobs that came at all, each once.
        repeated_nbytes: what came of them once more.
    """

    problems: list[str] = field(default_factory=list)
    installed: int = 0
    nbytes: int = 0
    repeated_nbytes: int = 0


@contextmanager
def shop(
    folder: Path, *, versions: Sequence[str] = VERSIONS, weight_size: int = 64
) -> Iterator[InProcessRegistry]:
    """A registry with versions of two packages, which have one weight file in common."""
    registry = InProcessRegistry()
    with running(registry):
        for number, name in enumerate(NAMES):
            variants = []
            for variant, ep in (("a", "cpu"), ("b", "cuda")):
                seed = 0 if variant == "b" else number + 1
                weights = {"w": weight(seed, weight_size)}
                model = make_model(folder / "models" / name / variant, weights)
                variants.append(NewVariant(model=model, name=variant, ep=ep))
            package = folder / name
            create(package, variants, notify=lambda _: None)
            place = parse_reference(f"oci://{registry.host}/models/{name}")
            assert isinstance(place, OciReference)
            for version in versions:
                edit(package, PackageEdits(version=version), notify=lambda _: None)
                publish(package, repository_of(place), tags=[version])
        registry.moved.clear()
        yield registry


def stress(
    folder: Path,
    registry: InProcessRegistry,
    *,
    installers: int,
    readers: int,
    collectors: int,
    rules: CollectionRules = _PATIENT,
    versions: Sequence[str] = VERSIONS,
) -> Outcome:
    """Runs all processes on a store in ``folder`` until every installer is done."""
    outcome = Outcome()
    # Threads of this process serve the registry: what is forked of it may hold their locks.
    processes = multiprocessing.get_context("spawn")
    notes: Any = processes.Queue()
    start, is_done = processes.Barrier(installers + readers + collectors), processes.Event()
    store = folder / "store"
    works: list[tuple[Callable[..., int], tuple[Any, ...]]] = [
        *((install_all, (store, registry.host, seed, versions)) for seed in range(installers)),
        *((read_again_and_again, (store, is_done)) for _ in range(readers)),
        *((collect_again_and_again, (store, rules, is_done)) for _ in range(collectors)),
    ]
    children = [
        processes.Process(target=take_part, args=(work, arguments, start, notes))
        for work, arguments in works
    ]
    for child in children:
        child.start()
    said = [notes.get() for _ in range(installers)]
    is_done.set()
    said += [notes.get() for _ in range(readers + collectors)]
    for child in children:
        child.join()
    outcome.problems = [text for text in said if isinstance(text, str)]
    outcome.installed = sum(count for count in said if isinstance(count, int))
    for path, nbytes in registry.moved.items():
        digest = path.rpartition("/")[2]
        if "/blobs/" in path and nbytes:
            whole = len(registry.blobs[digest])
            outcome.nbytes += whole
            outcome.repeated_nbytes += nbytes - whole
    outcome.problems += _problems_of(PackageStore(store))
    return outcome


def _problems_of(store: PackageStore) -> list[str]:
    """What is wrong with a store in which nobody works any more."""
    problems = []
    names = [each.name for each in store.packages()]
    if names != sorted(NAMES):
        problems.append(f"installed are {names}")
    for name in names:
        problems += [f"{name}: {path} is wrong" for path in wrong_files(store, name)]
    problems += [
        f"{digest} is wrong" for digest in store.blobs.digests() if not store.blobs.check(digest)
    ]
    store.gc(AT_ONCE)
    for name in names:
        problems += [f"{name}: {path} is wrong after gc" for path in wrong_files(store, name)]
    for folder in ("partial", "staging", "leases"):
        problems += [f"{path} is left" for path in (store.root / folder).glob("*")]
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.distribution.install_stress", description=__doc__
    )
    parser.add_argument("--installers", type=int, default=20)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--collectors", type=int, default=2)
    arguments = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder, shop(Path(folder), weight_size=512) as registry:
        for what, rules in (("gc", _PATIENT), ("gc --now", AT_ONCE)):
            registry.moved.clear()
            outcome = stress(Path(folder), registry, rules=rules, **vars(arguments))
            for problem in outcome.problems:
                print(problem)
            print(
                f"{what}: {outcome.installed} installations, {len(outcome.problems)} problems;"
                f" {outcome.nbytes} bytes of blobs, and {outcome.repeated_nbytes} of them again"
            )
            failures += len(outcome.problems)
            shutil.rmtree(Path(folder, "store"), ignore_errors=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
