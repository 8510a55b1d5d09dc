"""What changes a store of installed packages, so that it can be stopped at each file operation."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.store.package_store import PackageStore
from tests.crash_sweep.scenario import Scenario
from tests.store.store_packages import (
    AT_ONCE,
    descriptor_of,
    expected_package,
    manifest,
    package,
    read_package,
)

_STORE = "store"
_SAME = b"same" * 100


def _contents(version: int, variants: str) -> list[bytes]:
    weights = {"a": b"a%d" % version * 50, "b": _SAME}
    return [manifest(version), *(weights[each] for each in variants)]


def _install(at: Path, version: int, *, variants: str = "ab", is_linked: bool = True) -> object:
    """Installs from the local repository."""
    store = PackageStore(at / _STORE)
    repository = OciLayout(at / "repository")
    content = package(version, variants=variants, is_linked=is_linked)
    with store.hold(trees=[content.key], digests=content.all_blobs):
        for blob in _contents(version, variants):
            descriptor = descriptor_of(blob)
            store.blobs.receive(
                descriptor,
                lambda offset, wanted=descriptor: repository.read_blob(wanted, offset=offset),  # type: ignore[misc]
                source=repository.name,
            )
        return store.install(
            "digits",
            content,
            tag=str(version),
            variants=tuple(f"m/{each}" for each in variants),
        )


def _repository(at: Path) -> None:
    repository = OciLayout(at / "repository")
    for version in (1, 2, 3):
        for blob in _contents(version, "ab"):
            repository.write_blob(descriptor_of(blob), lambda content=blob: io.BytesIO(content))  # type: ignore[misc]


def _installed(*versions: int, variants: str = "ab") -> Callable[[Path], None]:
    def prepare(at: Path) -> None:
        _repository(at)
        for version in versions:
            _install(at, version, variants=variants)

    return prepare


def _state(target: Path) -> object:
    """What each name means, read as a session would."""
    store = PackageStore(target)
    state = {}
    for generation in store.packages():
        with store.open(generation.name) as opened:
            state[generation.name] = (generation.tag, read_package(opened.root))
    return state


def _content(target: Path) -> dict[str, bytes]:
    """Everything that has to be the same whatever happened on the way: no times, no numbers."""
    store = PackageStore(target)
    said = {
        f"generations/{generation.tag}/{variants}": generation.digest.encode()
        for name in [each.name for each in store.packages()]
        for generation in store.history(name)
        for variants in [" ".join(generation.variants)]
    }
    places = ("blobs", "partial", "packages", "staging")
    files = [path for place in places for path in (target / place).rglob("*") if path.is_file()]
    return {
        **said,
        **{path.relative_to(target).as_posix(): path.read_bytes() for path in files},
        "index.json": (target / "index.json").read_bytes(),
        "current": repr(_state(target)).encode(),
    }


def _tidy(target: Path) -> object:
    """What killed processes left goes with the next gc."""
    return PackageStore(target).gc()


def _flaw(target: Path) -> str:
    """What is wrong in a store after any stop: something damaged, or half there."""
    store = PackageStore(target)
    for digest in store.blobs.digests():
        if not store.blobs.check(digest):
            return f"{digest} is damaged"
    for generation in (each for name in store.packages() for each in store.history(name.name)):
        variants = "".join(each.removeprefix("m/") for each in generation.variants)
        with store.open(generation.name, tag=generation.tag) as opened:
            if opened.generation == generation and read_package(opened.root) != expected_package(
                int(generation.tag), variants=variants
            ):
                return f"generation {generation.number} is not whole"
    return ""


def _scenario(
    name: str, prepare: Callable[[Path], None], run: Callable[[Path], object]
) -> Scenario:
    return Scenario(
        name=name,
        prepare=prepare,
        run=run,
        target=_STORE,
        state=_state,
        content=_content,
        tidy=_tidy,
        flaw=_flaw,
    )


def _store(at: Path) -> PackageStore:
    return PackageStore(at / _STORE)


STORE_SCENARIOS = (
    _scenario("install, the first package", _repository, lambda at: _install(at, 1)),
    _scenario("install, another version", _installed(1), lambda at: _install(at, 2)),
    _scenario("install, another variant", _installed(1, variants="a"), lambda at: _install(at, 1)),
    _scenario("install, as copies", _installed(1), lambda at: _install(at, 2, is_linked=False)),
    _scenario("activate", _installed(1, 2, 3), lambda at: _store(at).activate("digits", 2)),
    _scenario("rollback", _installed(1, 2), lambda at: _store(at).rollback("digits")),
    _scenario("uninstall", _installed(1, 2), lambda at: _store(at).uninstall("digits")),
    _scenario("gc", _installed(1, 2, 3), lambda at: _store(at).gc(AT_ONCE)),
)
