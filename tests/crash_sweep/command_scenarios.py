"""Commands between machines, as users type them, to be stopped at each file operation.

What they read lies in a layout beside the folder that is stopped in, which none of them changes;
those that publish have one of their own in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from ortpkg.authoring.create import create
from ortpkg.authoring.edit import PackageEdits, edit
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.cli.app import run
from ortpkg.distribution import fetching, publishing
from ortpkg.distribution.package_signing import sign_package
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.registry.repository import MANIFEST_MEDIA_TYPE
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import ExitCode, OrtpkgError, StoreError
from ortpkg.package.trust.signing.signing_keys import new_private_key
from tests.authoring.weight_models import make_model, weight
from tests.crash_sweep.scenario import Scenario
from tests.store.store_packages import AT_ONCE, make_old, read_package

_STORE = "store"
_MACHINE = ("--profile", "plain-server")
#: What refuses to go on without space: the package or store here, or the registry there.
_REFUSALS = (ExitCode.PACKAGE, ExitCode.REGISTRY)


def _run(at: Path, *words: str) -> None:
    """A command in the folder ``at``, on the store in it. OrtpkgError where it refuses.

    One layer at a time, so that it takes the same steps each time.
    """
    said = io.StringIO()
    with (
        contextlib.chdir(at),
        mock.patch.dict(os.environ, ORTPKG_STORE=str(at / _STORE)),
        mock.patch.object(fetching, "_MOST_AT_ONCE", 1),
        mock.patch.object(publishing, "_MOST_AT_ONCE", 1),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        code = run(words)
    if code in _REFUSALS:
        raise OrtpkgError(said.getvalue())
    if code != ExitCode.DONE:
        raise AssertionError(f"{' '.join(words)} ended with {code}: {said.getvalue()}")


def _command(*words: str) -> Callable[[Path], None]:
    return lambda at: _run(at, *words)


def _publish(at: Path, *versions: str) -> None:
    """Versions of a package with two variants, each as ``latest``, beside ``at``."""
    package = at.parent / "package"
    if not package.exists():
        models = {
            name: make_model(at.parent / "models" / name, {"w": weight(0), "own": weight(seed)})
            for seed, name in enumerate("ab", start=1)
        }
        variants = [
            NewVariant(model=models[name], name=name, ep=ep)
            for name, ep in (("a", "cpu"), ("b", "cuda"))
        ]
        create(package, variants, notify=lambda _: None)
    for version in versions:
        edit(package, PackageEdits(version=version), notify=lambda _: None)
        publish(package, OciLayout(at.parent / "layout"), tags=[version, "latest"])


def _prepared(*steps: tuple[str, ...]) -> Callable[[Path], None]:
    """Commands to begin with; ``publish`` is not one of ortpkg's."""

    def prepare(at: Path) -> None:
        for words in steps:
            if words[0] == "publish":
                _publish(at, *words[1:])
            else:
                _run(at, *words)

    return prepare


_INSTALL = ("install", "oci-layout:../layout", "--name", "p")
_INSTALLED = (("publish", "1.0"), (*_INSTALL, *_MACHINE))
_TWO_VERSIONS = (*_INSTALLED, ("publish", "2.0"), ("upgrade",))


def _files_state(target: Path) -> object:
    """What each name means, file by file, read as a session would."""
    store = PackageStore(target)
    state = {}
    for generation in store.packages():
        with store.open(generation.name) as opened:
            files = read_package(opened.root)
        state[generation.name] = (generation.digest, generation.variants, files)
    return state


def _store_content(target: Path) -> dict[str, bytes]:
    """All that is in the store for good: no times, no numbers, no folder of this machine."""
    store = PackageStore(target)
    content = {
        f"generation {generation.digest} {generation.variants}": b""
        for found in store.packages()
        for generation in store.history(found.name)
    }
    for place in ("blobs", "partial", "packages", "staging"):
        for path in (target / place).rglob("*"):
            if path.is_file():
                is_receipt = path.name == "receipt.json"  # it says whence, by a whole path
                name = path.relative_to(target).as_posix()
                content[name] = b"" if is_receipt else path.read_bytes()
    content["index.json"] = (target / "index.json").read_bytes()
    content["current"] = repr(_files_state(target)).encode()
    return content


def _store_flaw(target: Path) -> str:
    """What is damaged or half there in a store, before gc and, in a copy of it, after."""
    if flaw := _damage(target):
        return flaw
    with contextlib.suppress(FileNotFoundError):
        copy = Path(shutil.copytree(target, target.parent / "collected", symlinks=True))
        PackageStore(copy).gc(AT_ONCE)
        flaw = _damage(copy)
        shutil.rmtree(copy)
    return f"after gc: {flaw}" if flaw else ""


def _damage(target: Path) -> str:
    store = PackageStore(target)
    for digest in store.blobs.digests():
        if not store.blobs.check(digest):
            return f"{digest} is damaged"
    for found in store.packages():
        for generation in (found, *store.history(found.name)):
            with store.open(found.name, digest=generation.digest) as opened:
                files = read_package(opened.root)
                stated = {path: each.digest for path, each in opened.receipt.files.items()}
            if {path: _digest(data) for path, data in files.items()} != stated:
                return f"generation {generation.number} of {found.name} is not whole"
            if missing := [each for each in opened.receipt.blobs if not store.blobs.has(each)]:
                return f"{missing[0]} of generation {generation.number} is missing"
    return ""


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _damaged_store(at: Path) -> None:
    """A store whose one model lost its last byte, in the package and the blob."""
    _prepared(*_INSTALLED)(at)
    with PackageStore(at / _STORE).open("p") as opened:
        (model,) = opened.root.rglob("*.onnx")
    model.chmod(0o644)
    with model.open("r+b") as file:
        file.truncate(model.stat().st_size - 1)


def _repaired_content(target: Path) -> dict[str, bytes]:
    """The package's files, where it opens: it does not from taking out to putting back."""
    with contextlib.suppress(StoreError), PackageStore(target).open("p") as opened:
        return read_package(opened.root)
    return {}


def _repair_flaw(target: Path) -> str:
    """What is damaged after the repair was run again."""
    _run(target.parent, "repair")
    return _store_flaw(target)


def _tidy_store(target: Path) -> object:
    return PackageStore(target).gc()


def _on_store(name: str, steps: tuple[tuple[str, ...], ...], *words: str) -> Scenario:
    return Scenario(
        name=name,
        prepare=_prepared(*steps),
        run=_command(*words),
        target=_STORE,
        state=_files_state,
        content=_store_content,
        tidy=_tidy_store,
        flaw=_store_flaw,
    )


# --- layouts -------------------------------------------------------------------------------------


def _layout_state(target: Path) -> object:
    """What each tag names, with every layer; signatures by their number, since no two are alike."""
    if not (target / "oci-layout").exists():  # nothing was published yet
        return {}
    layout = OciLayout(target)
    state: dict[str, object] = {}
    for tag in layout.tags():
        if not tag.startswith("sha256-"):
            found = layout.resolve(tag)
            layout.read_manifest(found)
            state[tag] = (found.digest, len(layout.referrers(found.digest)))
    return state


def _layout_content(target: Path) -> dict[str, bytes]:
    return {"": repr(_layout_state(target)).encode()}


def _layout_flaw(target: Path) -> str:
    """What a reader of a layout may stumble over: a blob that is another, a layer that is gone."""
    if not (target / "oci-layout").exists():
        return ""
    layout = OciLayout(target)
    blobs = target / "blobs" / "sha256"
    for path in blobs.iterdir() if blobs.is_dir() else ():
        is_blob = not path.name.startswith(".")
        if is_blob and path.name != hashlib.sha256(path.read_bytes()).hexdigest():
            return f"{path.name} is not whole"
    for tag in layout.tags():
        if not tag.startswith("sha256-"):
            reference = f"oci-layout:{target.name}:{tag}"
            _run(target.parent, "install", reference, "--name", "reader", "--all-variants")
    return ""


def _tidy_layout(target: Path) -> object:
    """A day later, whoever writes removes what killed ones left."""
    temporary = [path for path in target.rglob(".*.*") if path.name != ".index.json.lock"]
    make_old(*temporary)
    layout = OciLayout(target)
    tag = layout.tags()[0]
    layout.write_manifest(layout.read_manifest(layout.resolve(tag)), MANIFEST_MEDIA_TYPE, tag=tag)
    assert not any(path.exists() for path in temporary)
    return None


def _on_layout(name: str, prepare: Callable[[Path], None], *words: str) -> Scenario:
    return Scenario(
        name=name,
        prepare=prepare,
        run=_command(*words),
        target="shared",
        state=_layout_state,
        content=_layout_content,
        tidy=_tidy_layout,
        flaw=_layout_flaw,
    )


def _package_here(at: Path) -> None:
    """A package, signed so that its signature goes along, and a key for more."""
    _publish(at, "1.0")
    shutil.copytree(at.parent / "package", at / "p")
    key = new_private_key()
    (at / "key.pem").write_bytes(key.pem(None))
    sign_package(at / "p", key)


def _published_here(at: Path) -> None:
    _package_here(at)
    _run(at, "push", "p", "oci-layout:shared", "--tag", "1.0")


# --- projects ------------------------------------------------------------------------------------

_PROJECT = """
[packages]
p = { from = "oci-layout:../layout", version = ">=1" }
[profiles]
server = "plain-server"
"""


def _project(*versions: str, is_locked: bool = False) -> Callable[[Path], None]:
    def prepare(at: Path) -> None:
        _publish(at, versions[0])
        (at / "ortpkg.toml").write_text(_PROJECT)
        if is_locked or versions[1:]:
            _run(at, "lock")
        for version in versions[1:]:
            _publish(at, version)

    return prepare


def _sync_scenario(name: str, prepare: Callable[[Path], None], *words: str) -> Scenario:
    return Scenario(
        name=name,
        prepare=prepare,
        run=_command("sync", "--profile", "server", *words),
        target=_STORE,
        state=_files_state,
        content=_store_content,
        tidy=_tidy_store,
        flaw=_store_flaw,
    )


COMMAND_SCENARIOS = (
    _on_store("ortpkg install, cold", (("publish", "1.0"),), *_INSTALL, *_MACHINE),
    _on_store("ortpkg install, again", _INSTALLED, *_INSTALL, *_MACHINE),
    _on_store("ortpkg install, more variants", _INSTALLED, *_INSTALL, "--all-variants"),
    _on_store(
        "ortpkg install, another name",
        _INSTALLED,
        *("install", "oci-layout:../layout", "--name", "q", *_MACHINE),
    ),
    _on_store("ortpkg upgrade", (*_INSTALLED, ("publish", "2.0")), "upgrade"),
    _on_store("ortpkg rollback", _TWO_VERSIONS, "rollback", "p"),
    _on_store("ortpkg uninstall", _TWO_VERSIONS, "uninstall", "p"),
    Scenario(
        name="ortpkg repair",
        prepare=_damaged_store,
        run=_command("repair"),
        target=_STORE,
        state=_repaired_content,
        content=_repaired_content,
        tidy=_tidy_store,
        flaw=_repair_flaw,
        is_stepwise=True,
        may_lack=True,
    ),
    _on_store("ortpkg gc", _TWO_VERSIONS, "gc", "--keep", "1", "--now"),
    Scenario(
        name="ortpkg pull",
        prepare=_prepared(("publish", "1.0")),
        run=_command("pull", "oci-layout:../layout", "-o", "mine", *_MACHINE),
        target="mine",
        flaw=lambda target: _store_flaw(target.parent / _STORE),
    ),
    Scenario(
        name="ortpkg pull --overwrite",
        prepare=_prepared(
            *_INSTALLED, ("pull", "p", "-o", "mine"), ("publish", "2.0"), ("upgrade",)
        ),
        run=_command("pull", "p", "-o", "mine", "--overwrite"),
        target="mine",
        flaw=lambda target: _store_flaw(target.parent / _STORE),
    ),
    _on_layout("ortpkg push", _package_here, "push", "p", "oci-layout:shared", "--tag", "1.0"),
    _on_layout(
        "ortpkg push, another tag", _published_here, "push", "p", "oci-layout:shared", "--tag", "2"
    ),
    _on_layout("ortpkg sign", _published_here, "sign", "oci-layout:shared:1.0", "--key", "key.pem"),
    Scenario(
        name="ortpkg lock", prepare=_project("1.0"), run=_command("lock"), target="ortpkg.lock"
    ),
    Scenario(
        name="ortpkg lock --upgrade",
        prepare=_project("1.0", "2.0"),
        run=_command("lock", "--upgrade"),
        target="ortpkg.lock",
    ),
    _sync_scenario("ortpkg sync", _project("1.0")),
    _sync_scenario("ortpkg sync --frozen", _project("1.0", is_locked=True), "--frozen"),
)
