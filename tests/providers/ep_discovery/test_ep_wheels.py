"""Wheels that bring a plug-in EP are found by what they have agreed on, in a child process.

The wheels here are made by the tests; tests/vendors has the real ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ortpkg.api import devices
from ortpkg.api.doctor.diagnosis import doctor
from ortpkg.api.doctor.doctor_checks import Gravity
from ortpkg.api.doctor.situation import gather
from ortpkg.api.doctor.software import installed_software
from ortpkg.authoring.model_facts import _eps_of_sources
from ortpkg.foundations.ep_names import QNN_EP
from ortpkg.foundations.isolation import backend_probe
from ortpkg.foundations.isolation.backend_probe import (
    TIMEOUT_VARIABLE,
    ProbeAnswer,
    asking_nobody,
    doubting_refusals,
)
from ortpkg.runtime.providers import ep_registry, installed_metadata, onnxruntime_factory
from ortpkg.runtime.providers.ep_discovery import (
    candidate_distributions,
    ep_candidate_scan,
    ep_wheels,
    library_refusals,
)
from ortpkg.runtime.providers.ep_discovery.ep_libraries import (
    EpLibrary,
    ep_library_notes,
    ep_library_of,
    installed_ep_libraries,
)
from ortpkg.runtime.providers.ep_library_factory import EpLibraryFactory
from ortpkg.runtime.providers.ep_registry import all_known_names, ep_known_here
from tests.providers.fake_wheels import LIBRARY, SOURCE, forget_installed, write_wheel

pytestmark = [
    pytest.mark.usefixtures("warm_processes"),
    pytest.mark.skipif(
        sys.platform != "linux", reason="the wheels that the tests make are Linux wheels"
    ),
]

_ACME = "AcmeExecutionProvider"


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder for installed wheels; no real one brings an EP."""
    folder = tmp_path / "site with blanks, and ü"
    folder.mkdir()
    others = [
        entry for entry in sys.path if not any(Path(entry or ".").glob("onnxruntime_*-*.dist-info"))
    ]
    monkeypatch.setattr(sys, "path", [str(folder), *others])
    forget_installed()
    yield folder
    monkeypatch.undo()
    forget_installed()


def _names_and_paths() -> list[tuple[str, str]]:
    return [(library.ep_name, library.path) for library in installed_ep_libraries()]


# --- finding --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        SOURCE,
        SOURCE.replace("get_library_path", "library_path"),
        SOURCE.replace("def get_ep_names", "def _unused"),
        SOURCE.replace("def get_ep_name()", "def ep_name()").replace("def get_ep_names", "def _n"),
        f"import pathlib\nEP_NAMES = ['{_ACME}']\nlibrary_path = pathlib.Path(__file__).parent / '{LIBRARY}'",
        f"EP_NAME = '{_ACME}'",
        f'_EP_NAME: str = "{_ACME}"',
    ],
)
def test_a_wheel_says_its_library_and_name_in_one_of_the_usual_ways(
    site: Path, source: str
) -> None:
    folder = write_wheel(site, source=source)
    (library,) = installed_ep_libraries()
    assert (library.ep_name, library.path) == (_ACME, str(folder / LIBRARY))
    assert str(library) == "onnxruntime-ep-acme 1.2"
    assert "onnxruntime_ep_acme" not in sys.modules
    assert ep_library_notes() == ()


@pytest.mark.parametrize("name", ["onnxruntime-ep-acme-cu13", "onnxruntime-acme", "acme-npu"])
def test_neither_distribution_nor_package_nor_library_needs_a_certain_name(
    site: Path, name: str
) -> None:
    source = SOURCE.replace(LIBRARY, "lib/libacme_npu.so")
    folder = write_wheel(
        site, name, source=source, package="acme_ep", libraries=("lib/libacme_npu.so",)
    )
    assert _names_and_paths() == [(_ACME, str(folder / "lib/libacme_npu.so"))]


def test_a_package_inside_another_is_found(site: Path) -> None:
    folder = write_wheel(site, "acme-npu", source=SOURCE, package="acme/npu")
    assert _names_and_paths() == [(_ACME, str(folder / LIBRARY))]


def test_a_wheel_without_a_list_of_its_files_is_found_by_the_package_of_its_name(
    site: Path,
) -> None:
    folder = write_wheel(site, has_record=False)
    assert _names_and_paths() == [(_ACME, str(folder / LIBRARY))]


def test_a_wheel_in_development_is_found_in_its_source_tree(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources"
    folder = write_wheel(sources)
    (sources / "onnxruntime_ep_acme-1.2.dist-info").rename(
        site / "onnxruntime_ep_acme-1.2.dist-info"
    )
    record = site / "onnxruntime_ep_acme-1.2.dist-info/RECORD"
    record.write_text("__editable__.onnxruntime_ep_acme-1.2.pth,,\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(sources)])
    forget_installed()
    assert _names_and_paths() == [(_ACME, str(folder / LIBRARY))]


@pytest.mark.parametrize("name", ["onnxruntime-genai", "acme-tools"])
@pytest.mark.parametrize(
    ("source", "library"),
    [("VERSION = 1", "libacme.so"), ("def library_path(): return ''", "libacme.so")],
)
def test_a_wheel_without_any_of_that_is_not_asked_and_not_noted(
    site: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str, library: str
) -> None:
    write_wheel(site, name, source=source, libraries=(library,))
    monkeypatch.setattr(ep_wheels, "ask_backend", _fail)
    assert (installed_ep_libraries(), ep_library_notes()) == ((), ())


def test_libraries_of_onnxruntime_itself_and_of_bundled_ones_are_none_of_a_plug_in(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = ("lib/libonnxruntime.so", "lib/libonnxruntime_providers_cuda.so")
    write_wheel(site, "speech-toolkit", source="", package="speech", libraries=bundle)
    cuda = ("capi/libonnxruntime_providers_cuda.so",)
    write_wheel(site, "onnxruntime-gpu", source="", package="onnxruntime", libraries=cuda)
    monkeypatch.setattr(ep_wheels, "ask_backend", _fail)
    assert (installed_ep_libraries(), ep_library_notes()) == ((), ())


def test_nothing_is_found_where_no_wheel_is_installed() -> None:
    assert installed_ep_libraries() == ()
    assert ep_library_of(QNN_EP) is None


def test_a_wheel_that_only_brings_a_library_is_no_onnxruntime(site: Path) -> None:
    source = SOURCE.replace(_ACME, QNN_EP)
    write_wheel(site, "onnxruntime-qnn", "2.7.0", source)
    (site / "onnxruntime.py").write_text("")
    forget_installed()
    names = [distribution.name for distribution in onnxruntime_factory.installed_distributions()]
    assert names == ["onnxruntime"]


def test_a_library_may_bring_several_names_one_of_them_of_another_form(site: Path) -> None:
    source = SOURCE.replace("return [get_ep_name()]", "return ['AcmeExecutionProvider', 'acme-2']")
    write_wheel(site, source=source)
    first, second = installed_ep_libraries()
    assert (first.ep_name, first.siblings) == (_ACME, ("acme-2",))
    assert (second.ep_name, second.siblings) == ("acme-2", (_ACME,))
    assert first.path == second.path
    assert {_ACME, "acme-2"} <= set(all_known_names())
    assert ep_known_here("acme-2") == "acme-2"


def test_the_file_name_counts_last_with_the_names_that_the_library_reports(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_wheel(site, source="VERSION = 1")
    asked: list[Any] = []

    def ask(function: str, arguments: Any, **_: Any) -> ProbeAnswer:
        asked.append((function.rpartition(":")[2], arguments))
        return ProbeAnswer(value={"ep_names": ["acme"], "version": "7"})

    monkeypatch.setattr(ep_wheels, "ask_backend", ask)
    assert _names_and_paths() == [("acme", str(folder / LIBRARY))]
    assert asked == [
        ("describe_library", {"path": str(folder / LIBRARY), "ep_name": "acme"}),
    ]


def test_a_library_that_reports_nothing_has_the_name_of_its_file_if_a_release_knows_it(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(site, "onnxruntime-a", source="", libraries=("libonnxruntime_providers_qnn.so",))
    write_wheel(site, "onnxruntime-b", source="", libraries=("libonnxruntime_providers_acme.so",))
    monkeypatch.setattr(ep_wheels, "ask_backend", lambda *_, **__: ProbeAnswer(value={}))
    assert [library.ep_name for library in installed_ep_libraries()] == [QNN_EP]
    (note,) = ep_library_notes()
    assert note == (
        "onnxruntime-b 1.2 is not used: it offers no device here, and nothing says the name of its"
        " EP"
    )


def test_a_profile_and_the_doctor_tell_the_wheels_version(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "installed_distributions", lambda: ("onnxruntime",))
    write_wheel(site)
    assert devices.software_versions()["onnxruntime-ep-acme"] == "1.2"
    assert ("onnxruntime-ep-acme", "1.2") in installed_software()


# --- memory ---------------------------------------------------------------------------------------


def test_the_answer_is_remembered_until_version_or_files_change(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_wheel(site)
    assert [library.ep_name for library in installed_ep_libraries()] == [_ACME]
    for change in (None, folder / LIBRARY, folder / "__init__.py"):
        monkeypatch.setattr(backend_probe, "_ANSWERS", {})
        forget_installed()
        calls = _count_children(monkeypatch)
        if change is not None:
            change.write_text(SOURCE + "# changed")
        assert [library.ep_name for library in installed_ep_libraries()] == [_ACME]
        assert len(calls) == (0 if change is None else 1)


def test_texts_of_wheels_are_read_once_for_the_same_distributions(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(site)
    first = candidate_distributions.ep_candidates()
    monkeypatch.setattr(ep_candidate_scan, "_candidates_of", _fail)
    assert candidate_distributions.ep_candidates() == first
    write_wheel(site, "onnxruntime-other")
    monkeypatch.undo()
    monkeypatch.setattr(sys, "path", [str(site)])
    assert len(candidate_distributions.ep_candidates()) == 2


def test_an_environment_of_another_form_is_asked_by_importlib_metadata(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_wheel(site)

    def refuse() -> Iterator[tuple[str, str]]:
        raise installed_metadata._UnknownFormError

    monkeypatch.setattr(installed_metadata, "_records", refuse)
    assert _names_and_paths() == [(_ACME, str(folder / LIBRARY))]


def test_where_nobody_may_be_asked_a_wheel_is_known_from_memory(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(site)
    with asking_nobody():
        assert installed_ep_libraries() == ()
    forget_installed()
    assert [library.ep_name for library in installed_ep_libraries()] == [_ACME]
    forget_installed()
    monkeypatch.setattr(backend_probe, "_ask_child", _fail)
    with asking_nobody():
        assert [library.ep_name for library in installed_ep_libraries()] == [_ACME]


def test_a_context_of_an_installed_ep_says_who_compiled_it(site: Path) -> None:
    source = SOURCE.replace(_ACME, "ggml-2")
    write_wheel(site, source=source)
    assert _eps_of_sources(("ggml-2", "nobody's", "QNN")) == ("ggml-2", QNN_EP)


@pytest.mark.parametrize(
    "source",
    [
        "raise RuntimeError('set ACME_HOME')\n" + SOURCE,
        "raise SystemExit(3)\n" + SOURCE,
        SOURCE + "import os\nos._exit(0)",
    ],
)
def test_a_wheel_that_raises_or_exits_is_asked_again_only_after_a_change(
    site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str
) -> None:
    write_wheel(site, source=source)
    monkeypatch.setattr(library_refusals, "_CACHE", str(tmp_path / "ld.so.cache"))
    calls = _count_children(monkeypatch)

    def calls_of_a_process() -> int:
        calls.clear()
        monkeypatch.setattr(backend_probe, "_ANSWERS", {})
        forget_installed()
        (note,) = ep_library_notes()
        assert note.startswith("onnxruntime-ep-acme 1.2 is not used: asked for its library, it ")
        assert note.endswith("; ortpkg devices asks it again") is (not calls)
        return len(calls)

    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    (tmp_path / "ld.so.cache").write_bytes(b"a driver's library")
    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    write_wheel(site, "something-else", source="", libraries=())
    assert [calls_of_a_process() for _ in range(2)] == [1, 0]
    with doubting_refusals():
        assert calls_of_a_process() == 1


@pytest.mark.parametrize("source", ["raise MemoryError\n", "import os\nos.abort()\n"])
def test_a_wheel_that_failed_for_a_passing_reason_is_asked_by_every_process(
    site: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    write_wheel(site, source=source + SOURCE)
    calls = _count_children(monkeypatch)
    for _ in range(2):
        calls.clear()
        monkeypatch.setattr(backend_probe, "_ANSWERS", {})
        forget_installed()
        assert ep_library_notes()
        assert len(calls) == 1


# --- wheels that are wrong ------------------------------------------------------------------------


def _returning(expression: str) -> str:
    return SOURCE.replace(
        f'return os.path.join(os.path.dirname(__file__), "{LIBRARY}")', f"return {expression}"
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (_returning("1 / 0"), "asked for its library, it raised 'ZeroDivisionError: division by"),
        ("import no_such_module\n" + SOURCE, 'it raised "ModuleNotFoundError: No module named'),
        ("raise SystemExit(3)\n" + SOURCE, "asked for its library, it ended with status 3"),
        (_returning("os._exit(0)"), "it ended with status 0 without a result"),
        (_returning("os.abort()"), "it was ended by SIGABRT"),
        (_returning("7"), "get_library_path returned 'int', not a path"),
        (_returning(f"'{LIBRARY}'"), f"its library is '{LIBRARY}', which is no absolute path"),
        (_returning("'/dev/null'"), "its library is '/dev/null', which is a device"),
        (_returning("os.path.dirname(__file__)"), "which is a folder"),
        (_returning("__file__ + '.so'"), "which is not there; is it only half installed? pip"),
        (_returning("os.__file__"), "which is not one of its own files; ortpkg ep add takes it"),
        (SOURCE.replace('"Acme', '"\\n'), "which is no name"),
        (SOURCE.replace(_ACME, "LLVMExecutionProvider"), "which is ortpkg's own"),
        (
            SOURCE.replace("[get_ep_name()]", "['a' + str(i) for i in range(99)]"),
            "it names 99 execution providers; at most 32 are believed",
        ),
        (SOURCE.replace("[get_ep_name()]", "[1]"), "returned '[1]', not the names of EPs"),
        (SOURCE.replace("[get_ep_name()]", "{'a': 1}"), "returned 'dict', not the names of EPs"),
        (
            SOURCE.replace("[get_ep_name()]", "['a' * 9_000_000]"),
            "asked for its library, more than 4194304 bytes came",
        ),
    ],
)
def test_a_wheel_that_is_wrong_is_one_note_and_leaves_the_others_as_they_are(
    site: Path, source: str, reason: str
) -> None:
    write_wheel(site, "onnxruntime-a", source=source)
    folder = write_wheel(site, "onnxruntime-b")
    assert _names_and_paths() == [(_ACME, str(folder / LIBRARY))]
    (note,) = ep_library_notes()
    assert note.startswith("onnxruntime-a 1.2 is not used: ")
    assert reason in note


def test_a_wheel_that_hangs_is_one_note(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheel(site, "onnxruntime-b")
    assert [library.distribution for library in installed_ep_libraries()] == ["onnxruntime-b"]
    forget_installed()  # its answer stays on disk, so that the limit is the other's alone
    monkeypatch.setenv(TIMEOUT_VARIABLE, "1s")
    write_wheel(site, source=_returning("__import__('time').sleep(99)"))
    assert [library.distribution for library in installed_ep_libraries()] == ["onnxruntime-b"]
    assert ep_library_notes() == (
        "onnxruntime-ep-acme 1.2 is not used: asked for its library, no answer within 1 s",
    )


def test_a_pipe_in_place_of_the_library_is_told_and_not_opened(site: Path) -> None:
    folder = write_wheel(site)
    (folder / LIBRARY).unlink()
    os.mkfifo(folder / LIBRARY)
    (note,) = ep_library_notes()
    assert note.endswith(f"{LIBRARY}', which is a pipe")


def test_a_wheel_that_prints_is_used(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printing = "import os\nprint('hello')\nos.write(1, b'native hello')\n"
    write_wheel(site, source=printing + SOURCE)
    assert [library.ep_name for library in installed_ep_libraries()] == [_ACME]
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("missing", ["__init__.py", LIBRARY])
def test_a_wheel_that_is_half_uninstalled_is_one_note(site: Path, missing: str) -> None:
    folder = write_wheel(site)
    (folder / missing).unlink()
    assert installed_ep_libraries() == ()
    (note,) = ep_library_notes()
    assert f"{missing}', which is not there" in note
    assert note.endswith("pip install --force-reinstall onnxruntime-ep-acme")


def test_a_wheel_that_raises_for_want_of_its_library_is_half_uninstalled(site: Path) -> None:
    raising = SOURCE.replace("    return os.path.join", "    raise FileNotFoundError()\n    _ = (")
    folder = write_wheel(site, source=raising)
    (folder / LIBRARY).unlink()
    assert installed_ep_libraries() == ()
    (note,) = ep_library_notes()
    assert f"it lacks '{folder / LIBRARY}', which is not there" in note
    assert note.endswith("pip install --force-reinstall onnxruntime-ep-acme")


def test_of_a_wheel_of_which_only_the_record_is_left_nothing_is_said(site: Path) -> None:
    folder = write_wheel(site, has_record=False)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert (installed_ep_libraries(), ep_library_notes()) == ((), ())


def test_of_two_wheels_with_one_name_the_first_is_used_and_the_other_noted(site: Path) -> None:
    folder = write_wheel(site, "onnxruntime-a")
    write_wheel(site, "onnxruntime-b", "3.0")
    assert _names_and_paths() == [(_ACME, str(folder / LIBRARY))]
    assert ep_library_notes() == (
        f"{_ACME} of onnxruntime-b 3.0 is not used: onnxruntime-a 1.2 brings the same name",
    )


def test_of_two_wheels_with_the_same_names_the_other_is_one_note(site: Path) -> None:
    source = SOURCE.replace("return [get_ep_name()]", f"return ['{_ACME}', 'acme-2']")
    write_wheel(site, "onnxruntime-a", source=source)
    write_wheel(site, "onnxruntime-b", "3.0", source=source)
    (note,) = ep_library_notes()
    assert note == (
        f"{_ACME}, acme-2 of onnxruntime-b 3.0 are not used: onnxruntime-a 1.2 brings the same"
        " names"
    )


@pytest.mark.parametrize("is_own", [False, True])
def test_to_the_doctor_a_displaced_wheel_is_no_error(
    site: Path, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    monkeypatch.setattr(ep_registry, "installed_distributions", lambda: ())
    own = ("CPUExecutionProvider", *([_ACME] if is_own else []))
    monkeypatch.setattr(ep_registry, "list_ep_names", lambda _hardware: own)
    monkeypatch.setattr(EpLibraryFactory, "get_supported_devices", lambda *_: [])
    write_wheel(site, "onnxruntime-a")
    write_wheel(site, "onnxruntime-b", "3.0")
    complaints = [
        complaint for complaint in doctor(gather()).complaints if "is not used" in complaint.message
    ]
    remedies = {complaint.message: complaint.remedy for complaint in complaints}
    rival = f"{_ACME} of onnxruntime-b 3.0 is not used: onnxruntime-a 1.2 brings the same name"
    expected = {
        rival: "remove one of them: pip uninstall onnxruntime-b or pip uninstall onnxruntime-a"
    }
    if is_own:
        displaced = f"onnxruntime-a 1.2 is not used: this onnxruntime has its own {_ACME}"
        expected[displaced] = "nothing, or pip uninstall onnxruntime-a"
    assert remedies == expected
    assert {complaint.gravity for complaint in complaints} == {Gravity.INFO}


def test_a_library_that_is_a_link_into_an_installers_cache_is_the_wheels_own(
    site: Path, tmp_path: Path
) -> None:
    folder = write_wheel(
        site,
        source=SOURCE.replace(
            "os.path.dirname(__file__)", "os.path.dirname(os.path.realpath(__file__))"
        ),
    )
    cache = tmp_path / "archive"
    cache.mkdir()
    for name in ("__init__.py", LIBRARY):
        (folder / name).rename(cache / name)
        (folder / name).symlink_to(cache / name)
    forget_installed()
    assert [library.ep_name for library in installed_ep_libraries()] == [_ACME]


def _fail(*_: Any, **__: Any) -> Any:
    raise AssertionError("nobody is to be asked")


def _count_children(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    ask: Callable[..., ProbeAnswer] = backend_probe._ask_child

    def count(function: str, *arguments: Any) -> ProbeAnswer:
        asked.append(function)
        return ask(function, *arguments)

    monkeypatch.setattr(backend_probe, "_ask_child", count)
    return asked


def test_a_library_knows_what_to_tell_a_child() -> None:
    library = EpLibrary("a", "d", "1", "/x", siblings=("b",))
    assert library.arguments() == {
        "ep_name": "a",
        "path": "/x",
        "package": None,
        "siblings": ["b"],
    }
