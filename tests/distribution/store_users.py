"""What processes do that use one store at once: install, read, collect. They load little."""

from __future__ import annotations

import hashlib
import itertools
import logging
import random
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ortpkg.distribution.installation import install
from ortpkg.distribution.store.collection import CollectionRules
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import PackageNotInstalledError
from tests.store.store_packages import read_package

NAMES = ("one", "two")
VERSIONS = ("1", "2", "3")
_WISHES = (
    InstallWishes(variants=("a",)),
    InstallWishes(variants=("b",)),
    InstallWishes(all_variants=True),
)


def take_part(work: Callable[..., int], arguments: Sequence[Any], start: Any, notes: Any) -> None:
    """Works together with others; notes what ``work`` returns, or what went wrong as a text."""
    logging.disable(logging.WARNING)
    try:
        start.wait()
        notes.put(work(*arguments))
    except BaseException:  # noqa: BLE001 - it is reported, and this is the end of a child
        notes.put(f"{work.__name__}: {traceback.format_exc()}")


def install_all(root: Path, host: str, seed: int, versions: Sequence[str]) -> int:
    """Installs every version of every package, with other variants, in an order of its own."""
    store, dice = PackageStore(root), random.Random(seed)
    wanted = list(itertools.product(NAMES, versions, _WISHES))
    dice.shuffle(wanted)
    for name, version, wishes in wanted:
        report = install(f"oci://{host}/models/{name}:{version}", wishes=wishes, store=store)
        assert report.generation is not None
        assert (report.generation.name, report.generation.tag) == (name, version)
    return len(wanted)


def read_again_and_again(root: Path, is_done: Any) -> int:
    """Compares every file of what is in use with its digest."""
    store = PackageStore(root)
    while not is_done.is_set():
        for name in NAMES:
            with suppress(PackageNotInstalledError):
                if wrong := wrong_files(store, name):
                    raise AssertionError(f"{name}: {wrong}")
        time.sleep(0.01)
    return 0


def collect_again_and_again(root: Path, rules: CollectionRules, is_done: Any) -> int:
    """Removes what nobody uses."""
    store = PackageStore(root)
    while not is_done.is_set():
        store.gc(rules)
        time.sleep(0.01)
    return 0


def wrong_files(store: PackageStore, name: str) -> list[str]:
    """Files of an installed package that are missing, or others than its receipt states."""
    with store.open(name) as opened:
        found = read_package(opened.root)
        stated = {path: each.digest for path, each in opened.receipt.files.items()}
    digests = {
        path: f"sha256:{hashlib.sha256(content).hexdigest()}" for path, content in found.items()
    }
    return sorted(path for path in {*digests, *stated} if digests.get(path) != stated.get(path))
