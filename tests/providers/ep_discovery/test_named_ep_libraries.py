"""Libraries of EPs that the user names, and those of Windows' catalog."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import ExecutionProviderError, UsageError
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer
from ortpkg.runtime.providers import user_ep_libraries
from ortpkg.runtime.providers.ep_discovery import ep_catalog, ep_wheels, named_ep_libraries
from ortpkg.runtime.providers.ep_discovery.candidate_distributions import (
    EP_LIBRARIES_VARIABLE,
    EpOrigin,
)
from ortpkg.runtime.providers.ep_discovery.ep_libraries import (
    ep_library_notes,
    installed_ep_libraries,
)
from ortpkg.runtime.providers.ep_discovery.named_ep_libraries import (
    added_file,
    named_libraries,
    parse_entry,
)
from ortpkg.runtime.providers.user_ep_libraries import add_library, libraries_to_add, remove_library
from tests.providers.fake_wheels import LIBRARY, SOURCE, forget_installed, write_wheel

pytestmark = [
    pytest.mark.usefixtures("warm_processes"),
    pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX"),
]

_ACME = "AcmeExecutionProvider"
Answer = Callable[[Path | str, Any], None]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Folder of a user, with a blank and an umlaut in its name; no wheel is installed."""
    path = tmp_path / "my EPs, ü"
    path.mkdir()
    monkeypatch.setenv("ORTPKG_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv(EP_LIBRARIES_VARIABLE, raising=False)
    others = [
        entry for entry in sys.path if not any(Path(entry or ".").glob("onnxruntime_*-*.dist-info"))
    ]
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *others])
    monkeypatch.setattr(user_ep_libraries, "installed_distributions", lambda: ("onnxruntime",))
    forget_installed()
    yield path
    monkeypatch.undo()
    forget_installed()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, ProbeAnswer]:
    """File name of a library → answer of the child process; an empty answer for others."""
    by_file_name: dict[str, ProbeAnswer] = {}

    def ask(_function: str, arguments: Any, **_: Any) -> ProbeAnswer:
        return by_file_name.get(Path(arguments["path"]).name, ProbeAnswer(value={}))

    monkeypatch.setattr(ep_wheels, "ask_backend", ask)
    return by_file_name


def _library(folder: Path, name: str = LIBRARY) -> str:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"no library")
    return str(folder / name)


def _offering(*names: str, version: str = "") -> ProbeAnswer:
    return ProbeAnswer(value={"ep_names": list(names), "version": version})


def _found() -> list[tuple[str, str, str]]:
    return [(library.ep_name, library.path, str(library)) for library in installed_ep_libraries()]


# --- naming ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["variable", "setting", "added"])
def test_a_library_counts_however_the_user_names_it(
    folder: Path, answers: dict[str, ProbeAnswer], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    path = _library(folder)
    answers[LIBRARY] = _offering("acme", version="3.1")
    if way == "variable":
        monkeypatch.setenv(EP_LIBRARIES_VARIABLE, f"{path}{os.pathsep}")
    elif way == "setting":
        added_file().parent.mkdir()
        setting = json.dumps([path], ensure_ascii=False)
        (added_file().parent / "ortpkg.toml").write_text(f"ep_libraries = {setting}", "utf-8")
    else:
        assert libraries_to_add(path, ()) == ((path, "3.1", ("acme",)),)
        add_library(path, ())
    forget_installed()
    assert _found() == [("acme", path, f"{LIBRARY} 3.1")]
    assert installed_ep_libraries()[0].origin is EpOrigin.NAMED


def test_a_stated_name_counts_where_the_library_offers_no_device(
    folder: Path, answers: dict[str, ProbeAnswer], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _library(folder)
    with pytest.raises(ExecutionProviderError, match="of its EP; say it by --name EP"):
        libraries_to_add(path, ())
    monkeypatch.setenv(EP_LIBRARIES_VARIABLE, f"{_ACME}={path}")
    assert _found() == [(_ACME, path, LIBRARY)]
    first = installed_ep_libraries()[0].build
    Path(path).write_bytes(b"another library")
    assert installed_ep_libraries()[0].build != first


def test_of_a_folder_each_library_is_found_also_below_lib(
    folder: Path, answers: dict[str, ProbeAnswer], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [_library(folder, f"lib/libonnxruntime_{name}.so") for name in ("a", "b")]
    _library(folder, "lib/libother.so")
    answers["libonnxruntime_a.so"] = _offering("a")
    answers["libonnxruntime_b.so"] = _offering("b", "b-2")
    monkeypatch.setenv(EP_LIBRARIES_VARIABLE, str(folder))
    assert [(name, path) for name, path, _ in _found()] == [
        ("a", paths[0]),
        ("b", paths[1]),
        ("b-2", paths[1]),
    ]
    assert installed_ep_libraries()[1].siblings == ("b-2",)


@pytest.mark.skipif(sys.platform != "linux", reason="versions behind .so are Linux's")
def test_a_library_with_a_version_behind_its_ending_is_found_in_a_folder(
    folder: Path, answers: dict[str, ProbeAnswer], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _library(folder, "libonnxruntime_acme.so.1.2")
    answers["libonnxruntime_acme.so.1.2"] = _offering(_ACME)
    monkeypatch.setenv(EP_LIBRARIES_VARIABLE, str(folder))
    assert [(name, own_path) for name, own_path, _ in _found()] == [(_ACME, path)]


def test_a_folder_with_too_many_libraries_is_one_note_and_none_is_tried(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(33):
        _library(folder, f"libonnxruntime_a{number}.so")
    monkeypatch.setattr(ep_wheels, "ask_backend", lambda *_, **__: pytest.fail("it is tried"))
    monkeypatch.setenv(EP_LIBRARIES_VARIABLE, str(folder))
    assert installed_ep_libraries() == ()
    (note,) = ep_library_notes()
    assert note.endswith("the folder holds 33 libraries; name the one that is meant")


def test_a_folder_that_is_a_wheels_package_is_asked_like_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = write_wheel(folder, source=SOURCE + "__version__ = '4.2'", package="acme_of_mine")
    monkeypatch.setenv(EP_LIBRARIES_VARIABLE, str(package))
    forget_installed()
    (library,) = installed_ep_libraries()
    assert (library.ep_name, library.path) == (_ACME, str(package / LIBRARY))
    assert library.package == ("acme_of_mine", str(package))
    assert library.version == "4.2"


def test_what_the_user_names_comes_before_a_wheel_of_the_same_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(tmp_path / "site")
    package = write_wheel(folder, package="acme_of_mine")
    monkeypatch.setenv(EP_LIBRARIES_VARIABLE, str(package))
    forget_installed()
    assert [path for _, path, _ in _found()] == [str(package / LIBRARY)]
    assert ep_library_notes() == (
        f"{_ACME} of onnxruntime-ep-acme 1.2 is not used: {LIBRARY} brings the same name",
    )


def test_a_library_is_removed_by_its_path(folder: Path, answers: dict[str, ProbeAnswer]) -> None:
    path = _library(folder)
    add_library(path, (_ACME,))
    add_library(path, ("other",))  # once
    assert [name for name, _, _ in _found()] == ["other"]
    remove_library(path)
    assert _found() == []
    with pytest.raises(UsageError, match=r"was not added by ortpkg ep add \(none is\)"):
        remove_library(path)


# --- what is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: folder / "none.so", "none.so' is not used: it is not there"),
        (lambda folder: folder, "the folder holds no library called onnxruntime_..., nor a pack"),
        (lambda folder: Path("/dev/null"), "'/dev/null' is not used: it is a device"),
    ],
)
def test_a_path_without_a_library_is_one_note(
    folder: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Path], reason: str
) -> None:
    monkeypatch.setenv(EP_LIBRARIES_VARIABLE, f"{make(folder)}")
    assert installed_ep_libraries() == ()
    (note,) = ep_library_notes()
    assert reason in note


def test_a_pipe_is_told_and_not_opened(folder: Path) -> None:
    os.mkfifo(folder / LIBRARY)
    with pytest.raises(ExecutionProviderError, match="is not added: it is a pipe"):
        libraries_to_add(str(folder / LIBRARY), (_ACME,))


def test_a_package_that_names_a_library_elsewhere_is_refused(folder: Path) -> None:
    source = SOURCE.replace("os.path.dirname(__file__)", "os.path.dirname(os.__file__)").replace(
        LIBRARY, "os.py"
    )
    package = write_wheel(folder, source=source, package="acme_elsewhere")
    with pytest.raises(ExecutionProviderError, match="outside of the folder; name that one"):
        libraries_to_add(str(package), ())


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"libraries": 1}', '{"libraries": [{"path": "x", "ep_names": []}]}']
)
def test_a_damaged_file_of_added_libraries_is_one_note(content: str) -> None:
    added_file().parent.mkdir()
    added_file().write_text(content)
    assert named_libraries().libraries == ()
    (note,) = ep_library_notes()
    assert str(added_file()) in note
    assert "delete it, and add the libraries again" in note


def test_a_setting_that_is_no_list_is_one_note() -> None:
    added_file().parent.mkdir()
    (added_file().parent / "ortpkg.toml").write_text("ep_libraries = 7")
    (note,) = ep_library_notes()
    assert "a list of paths was expected" in note


def test_no_more_than_64_libraries_are_kept(folder: Path) -> None:
    for number in range(64):
        add_library(str(folder / str(number)), (_ACME,))
    with pytest.raises(UsageError, match="at most 64 libraries"):
        add_library(str(folder / "64"), (_ACME,))


@pytest.mark.parametrize("text", [" ", "Acme= ", "a\nb"])
def test_a_text_that_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no path of a library, nor NAME=PATH"):
        parse_entry(text, "here")


def test_a_path_may_start_at_the_home_directory_or_a_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert parse_entry("acme-1=~/a.so", "").path == "/home/ann/a.so"
    assert parse_entry("a.so", "", "/opt").path == "/opt/a.so"


def test_the_variable_goes_before_the_setting(
    folder: Path, answers: dict[str, ProbeAnswer], monkeypatch: pytest.MonkeyPatch
) -> None:
    added_file().parent.mkdir()
    (added_file().parent / "ortpkg.toml").write_text("ep_libraries = ['set.so']")
    monkeypatch.setenv(EP_LIBRARIES_VARIABLE, "/opt/stated.so")
    assert [library.path for library in named_libraries().libraries] == ["/opt/stated.so"]
    monkeypatch.delenv(EP_LIBRARIES_VARIABLE)
    paths = [library.path for library in named_libraries().libraries]
    assert paths == [str(added_file().parent / "set.so")]


def test_where_nothing_is_named_no_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_ep_libraries, "named_libraries", lambda: pytest.fail("read"))
    assert installed_ep_libraries() == ()


# --- Windows' catalog -----------------------------------------------------------------------------

_CATALOG = """
from types import SimpleNamespace

class EpCatalog:
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def find_all_providers(self):
        return [
            SimpleNamespace(name=name, version="1.8", library_path=path,
                            ready_state=SimpleNamespace(name=state))
            for name, path, state in PROVIDERS
        ]
"""


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Function that makes the stand-in of windowsml list its ``(name, path, state)``."""
    package = tmp_path / "site/windowsml"
    package.mkdir(parents=True)

    def write(*providers: tuple[str, str, str], source: str = _CATALOG) -> None:
        (package / "__init__.py").write_text(f"PROVIDERS = {providers!r}\n{source}")

    return write


def test_windows_catalog_brings_eps_that_are_ready(
    folder: Path, catalog: Callable[..., None]
) -> None:
    path = _library(folder, "onnxruntime_providers_openvino.dll")
    catalog(("OpenVINOExecutionProvider", path, "Ready"), (_ACME, "", "NotPresent"))
    ready, absent = ep_catalog.catalog_findings()
    assert (ready.ep_names, ready.path, ready.problem) == (
        ("OpenVINOExecutionProvider",),
        path,
        "",
    )
    assert str(ready) == "Windows' OpenVINOExecutionProvider 1.8"
    assert absent.problem.startswith("it is not ready ('NotPresent'); ensure_ready()")


def test_an_ep_that_windows_has_updated_is_asked_for_again(
    folder: Path, catalog: Callable[..., None]
) -> None:
    old, new = _library(folder, "old.dll"), _library(folder, "newer.dll")
    catalog((_ACME, old, "Ready"))
    assert [finding.path for finding in ep_catalog.catalog_findings()] == [old]
    Path(old).unlink()
    catalog((_ACME, new, "Ready"))
    assert [finding.path for finding in ep_catalog.catalog_findings()] == [new]


def test_a_catalog_that_fails_is_one_note(catalog: Callable[..., None]) -> None:
    catalog(source="raise OSError('no Windows ML')")
    (finding,) = ep_catalog.catalog_findings()
    assert "asked for its EPs, it raised 'OSError: no Windows ML'" in finding.problem


def test_without_the_wheel_or_windows_there_is_no_catalog(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not ep_catalog.has_catalog()
    assert ep_catalog.catalog_findings() == []
