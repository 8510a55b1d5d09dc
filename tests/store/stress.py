"""Many processes on one store, some of which are killed: nobody may ever read something torn.

``python -m tests.store.stress [--seconds 60] [--installers 20] [--readers 6] [--collectors 2]``

Installers install versions under a few names, go back, and take names away; their downloads break.
Readers open names and compare every byte, twice. Collectors collect without a grace period. Every
tenth of a second one process is killed, and another starts in its place. In the end the store is
looked at as a whole. Ends with 1 where something was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import PackageNotInstalledError, StoreError
from tests.store.store_packages import (
    AT_ONCE,
    ConnectionBrokenError,
    Source,
    descriptor_of,
    expected_package,
    manifest,
    package,
    read_package,
)

_NAMES = ("digits", "letters", "words")
_VERSIONS = 6
_VARIANTS = ("a", "b", "ab")


@dataclass(slots=True)
class Outcome:
    """What a run of the stress came to.

    Attributes:
        problems: what was wrong, each in a few lines.
        kills: processes that were killed.
        counts: how often each kind of process did its work.
    """

    problems: list[str] = field(default_factory=list)
    kills: int = 0
    counts: dict[str, int] = field(default_factory=dict)


def stress(
    folder: Path, *, seconds: float, installers: int, readers: int, collectors: int, seed: int = 0
) -> Outcome:
    """Runs the processes for a while on a store in ``folder``."""
    store, notes = folder / "store", folder / "notes"
    notes.mkdir(parents=True)
    works = [_install] * installers + [_read] * readers + [_collect] * collectors
    dice = random.Random(seed)
    deadline = time.monotonic() + seconds
    outcome = Outcome()
    children = {_start(work, store, notes, dice.random(), deadline): work for work in works}
    while not outcome.kills or time.monotonic() < deadline:
        time.sleep(0.1)
        victim = dice.choice(list(children))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        outcome.kills += 1
        work = children.pop(victim)
        children[_start(work, store, notes, dice.random(), deadline)] = work
    for child in children:
        os.waitpid(child, 0)
    outcome.problems = [path.read_text() for path in sorted(notes.glob("*.problem"))]
    for path in notes.glob("*.count"):
        kind = path.name.partition("-")[0]
        outcome.counts[kind] = outcome.counts.get(kind, 0) + path.stat().st_size
    outcome.problems += _problems_of(PackageStore(store))
    return outcome


def _start(
    work: Callable[[PackageStore, random.Random], None],
    store: Path,
    notes: Path,
    seed: float,
    deadline: float,
) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        dice = random.Random(seed)
        with (notes / f"{work.__name__[1:]}-{os.getpid()}.count").open("ab", 0) as count:
            while time.monotonic() < deadline:
                work(PackageStore(store), dice)
                count.write(b".")
        status = 0
    except BaseException:  # noqa: BLE001 - it is reported, and this is the end of a child
        (notes / f"{os.getpid()}.problem").write_text(f"{work.__name__}: {traceback.format_exc()}")
    finally:
        os._exit(status)


def _install(store: PackageStore, dice: random.Random) -> None:
    name, version = dice.choice(_NAMES), dice.randrange(_VERSIONS)
    variants = dice.choice(_VARIANTS)
    action = dice.random()
    if action < 0.1:
        with suppress(PackageNotInstalledError, StoreError):
            store.rollback(name)
        return
    if action < 0.15:
        with suppress(PackageNotInstalledError):
            store.uninstall(name)
        return
    content = package(version, variants=variants)
    with store.hold(trees=[content.key], digests=content.all_blobs):
        blobs = [manifest(version), *(_weights(version, each) for each in variants)]
        for blob in blobs:
            while not store.blobs.has(descriptor_of(blob).digest):
                source = Source(blob, chunk=50)
                source.breaks_at = dice.choice([None, None, 100])
                with suppress(ConnectionBrokenError):
                    store.blobs.receive(descriptor_of(blob), source.read, source="stress")
        store.install(
            name, content, tag=str(version), variants=tuple(f"m/{each}" for each in variants)
        )


def _weights(version: int, variant: str) -> bytes:
    return expected_package(version)[f"models/m/{variant}/weights.bin"]


def _read(store: PackageStore, dice: random.Random) -> None:
    name = dice.choice(_NAMES)
    tag = dice.choice([None, None, str(dice.randrange(_VERSIONS))])
    try:
        opened = store.open(name, tag=tag)
    except PackageNotInstalledError:
        time.sleep(0.01)
        return
    with opened:
        variants = "".join(each.removeprefix("m/") for each in opened.generation.variants)
        expected = expected_package(int(opened.generation.tag), variants=variants)
        for _ in range(2):
            found = read_package(opened.root)
            if found != expected:
                raise AssertionError(
                    f"{opened.generation}: {sorted(found)} instead of {sorted(expected)}"
                )
            time.sleep(dice.random() * 0.02)
        store.note_use(opened.generation, opened.generation.variants[0])


def _collect(store: PackageStore, dice: random.Random) -> None:
    store.gc(AT_ONCE, dry_run=dice.random() < 0.1)
    time.sleep(dice.random() * 0.01)


def _problems_of(store: PackageStore) -> list[str]:
    """What is wrong with a store on which nobody works any more."""
    problems = []
    store.gc(AT_ONCE)
    layout = OciLayout(store.root)
    named = {name: layout.resolve(name).digest for name in layout.tags()}
    if named != {each.name: each.digest for each in store.packages()}:
        problems.append(f"the index names {named}")
    for generation in store.packages():
        variants = "".join(each.removeprefix("m/") for each in generation.variants)
        with store.open(generation.name) as opened:
            expected = expected_package(int(generation.tag), variants=variants)
            if read_package(opened.root) != expected:
                problems.append(f"{generation.name} is not what was installed")
        needed = opened.receipt.blobs
        problems += [f"{digest} is missing" for digest in needed if not store.blobs.has(digest)]
    problems += [
        f"{digest} is wrong" for digest in store.blobs.digests() if not store.blobs.check(digest)
    ]
    for folder in ("partial", "staging", "leases"):
        problems += [f"{path} is left" for path in (store.root / folder).glob("*")]
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.store.stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--installers", type=int, default=20)
    parser.add_argument("--readers", type=int, default=6)
    parser.add_argument("--collectors", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = stress(Path(folder, "run"), **vars(arguments))
    for problem in outcome.problems:
        print(problem)
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.counts.items()))
    print(f"{counts}; {outcome.kills} killed; {len(outcome.problems)} problems")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
