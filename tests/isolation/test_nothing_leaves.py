"""No command sends anything, or writes outside our folders and what it was asked for."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import ortpkg
from ortpkg.cli import app
from tests.cli.conftest import DIGITS
from tests.isolation.audited_processes import Audited, run_audited

MODEL = "models/classifier/cpu-fp32/model.onnx"

#: Where platformdirs puts our caches, records and state below a home directory.
OWN_FOLDERS = (
    ".cache/ortpkg",
    ".local/share/ortpkg",
    ".local/state/ortpkg",
    ".config/ortpkg",
    "Library",
    "AppData",
)

#: Commands that begin where no backend was asked anything yet; the others, where the first of them
#: was given before.
FIRST = ("devices", "doctor")
#: A command's words → whether it starts children.
COMMANDS: dict[str, bool] = {"devices": True, "doctor": True, "--version": False}
#: Lines of commands that one process runs after each other, each of which starts children. PKG is a
#: copy of the digits package, OV one with a variant for OpenVINO, OUT a folder of the test's own.
PARENTS: tuple[str, ...] = (
    "run OV --backend openvino --isolate",
    "run PKG --backend onnxruntime --isolate",
    "bench PKG --repeat 2 --rounds 1",
    "report PKG -o OUT/page.html --profile plain-server",
    "compile PKG --ep openvino",
)
#: The same, for commands that start no child of their own, or the same as above.
LINES: tuple[str, ...] = (
    "explain ORT115",
    "--help",
    "select PKG --explain",
    "plan PKG",
    "validate PKG",
    "verify PKG",
    "pack PKG -o OUT/digits.ortpkg",
    "settings",
    "diff PKG PKG",
    "migrate-check PKG",
    "batch PKG --input OUT/rows.npy --output OUT/batch --in-process",
    "quarantine list",
    "ep list",
    "cache list",
    "cache why PKG",
    "init OUT/empty --name empty",
    "create OUT/made --cpu PKG/MODEL --component classifier --name digits",
    "add-variant OUT/made PKG/MODEL --ep cuda --variant cuda",
    "edit OUT/made --model-version 2.0",
    "samples record OUT/made --name noise --random",
    "samples add OUT/made --name zeros --input image=OUT/zeros.npy",
    "dedup OUT/made",
    "slim OUT/made --device cpu -o OUT/slim",
    "remove-variant OUT/made cuda",
    "convert OUT/made --to component -o OUT/converted",
    "merge OUT/made PKG -o OUT/merged",
    "pack OUT/made -o OUT/made.ortpkg",
    "unpack OUT/made.ortpkg -o OUT/unpacked",
    "compile-models PKG/MODEL --ep openvino -o OUT/compiled",
    "quarantine clear PKG",
    "cache clear",
    "push PKG oci-layout:OUT/layout",
    "logout registry.example",
    "sign --new-key OUT/key.pem",
    "sign OUT/made --key OUT/key.pem",
    "install oci-layout:OUT/layout:1.0.0 --name kept",
    "pull oci-layout:OUT/layout:1.0.0 -o OUT/pulled",
    "list",
    "show kept",
    "history kept",
    "outdated",
    "upgrade kept --dry-run",
    "install oci-layout:OUT/layout:1.0.0 --name kept --variant cpu-int8",
    "rollback kept",
    "repair kept",
    "gc --dry-run",
    "uninstall kept",
)
#: The same, for lines that start no child at all.
ALONE: tuple[str, ...] = (
    "run PKG",
    "select PKG",
    "inspect PKG",
    "run PKG --backend onnxruntime",
    "run OV --backend openvino",
    "run OV --backend openvino --cache",
)
#: What these are for is to go to the network, and where their words say.
NETWORK = frozenset({"login", "lock", "sync", "serve"})
#: Runs the lines that follow it, as JSON.
RUN_LINES = """
import json, sys, sitecustomize
from ortpkg.cli.app import run
failed = []
for line in json.loads(sys.argv[1]):
    sitecustomize.begin_line()
    failed += [line] if run(line) != 0 else []
assert not failed, failed
"""


def audited(
    lines: Sequence[str], folder: Path, digits: Path, home_of: Path | None = None
) -> Audited:
    places = {name: folder / "work" / name.lower() for name in ("PKG", "OV", "OUT")}
    places["OUT"].mkdir(parents=True)
    np.save(places["OUT"] / "zeros.npy", np.zeros((1, 1, 28, 28), np.float32))
    np.save(places["OUT"] / "rows.npy", np.zeros((2, 64), np.float32))
    shutil.copytree(digits, places["PKG"])
    shutil.copytree(digits, places["OV"])
    ortpkg.add_variant(
        places["OV"],
        places["PKG"] / MODEL,
        component="classifier",
        variant="openvino",
        ep="openvino",
    )
    names = {**{name: str(place) for name, place in places.items()}, "MODEL": MODEL}
    filled = [
        [re.sub("PKG|OV|OUT|MODEL", lambda name: names[name[0]], word) for word in line.split()]
        for line in lines
    ]
    words = (
        ["-m", "ortpkg", *filled[0]] if len(filled) == 1 else ["-c", RUN_LINES, json.dumps(filled)]
    )
    return run_audited(words, folder / "audit", home_of=home_of)


@dataclass(frozen=True)
class Asked:
    """What the first command did, in ``folder``: whom every other one can ask has answered then."""

    folder: Path
    done: Audited


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, few_digits: Path) -> Asked:
    folder = tmp_path_factory.mktemp("asked")
    return Asked(folder, audited(FIRST[:1], folder, few_digits))


def test_every_command_is_here() -> None:
    lines = (*COMMANDS, *PARENTS, *LINES, *ALONE)
    named = {line.split()[0] for line in lines} - {"--version", "--help"}
    assert set(app.COMMANDS) - named - NETWORK == set(), "add a line with them to LINES"
    assert (named | NETWORK) - set(app.COMMANDS) == set(), "there are no such commands"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "lines",
    [*((words,) for words in COMMANDS), PARENTS, LINES, ALONE],
    ids=lambda lines: f"{len(lines)} {lines[0]}",
)
def test_no_command_goes_to_the_network_or_writes_outside_our_folders(
    lines: Sequence[str], asked: Asked, few_digits: Path, tmp_path: Path
) -> None:
    folder = asked.folder if lines == FIRST[:1] else tmp_path
    home = None if lines[0] in FIRST else asked.folder / "audit" / "home"
    done = asked.done if lines == FIRST[:1] else audited(lines, folder, few_digits, home)
    starts_children = lines is not ALONE and COMMANDS.get(lines[0], True)
    assert done.code == 0, done.errors
    assert (done.process_count > 1) >= starts_children, "a child ran without the hook"
    if lines is PARENTS:
        assert all(done.processes_of_lines), dict(zip(lines, done.processes_of_lines, strict=True))
    assert done.network == ()
    assert [name for name in done.home if not name.startswith(OWN_FOLDERS)] == []
    own = [folder / "audit/home" / each for each in OWN_FOLDERS]
    allowed = (*own, folder / "work", folder / "audit/tmp")
    foreign = [
        path for path in done.written if not any(path.is_relative_to(place) for place in allowed)
    ]
    assert [path for path in foreign if not is_harmless(path, allowed)] == []


def is_harmless(path: Path, allowed: Sequence[Path]) -> bool:
    """Whether it is a device, a process's own settings, or a folder around one of ours."""
    if path.is_relative_to("/dev") or path.is_relative_to("/proc"):
        return True
    return any(place.is_relative_to(path) for place in allowed)


@pytest.mark.parametrize(
    "program",
    [
        "import ortpkg.runtime.providers.openvino_library",
        "from ortpkg.runtime.providers.openvino_probe import list_devices; list_devices()",
        (
            "import ortpkg; ortpkg.InferenceSession(PKG + '/models/classifier/cpu-fp32/model.onnx',"
            " backend='openvino')"
        ),
    ],
)
def test_openvino_does_not_find_the_package_that_sends(program: str, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    done = run_audited(["-c", program.replace("PKG", repr(str(DIGITS)))], tmp_path)
    assert done.code == 0, done.errors
    assert "telemetry-was-imported" not in done.home


@pytest.mark.skipif(
    sys.platform == "win32", reason="the home directory of a fresh user is named by more variables"
)
def test_the_hook_sees_what_openvino_does_by_itself(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    done = run_audited(["-c", "import openvino"], tmp_path)
    assert "telemetry-was-imported" in done.home


def test_the_hook_refuses_and_notes_the_network_in_a_child_too(tmp_path: Path) -> None:
    program = (
        "from ortpkg.foundations.isolation.child import"
        " call_in_child;print(call_in_child('socket:create_connection', {'address': ['localhost',"
        " 9]}, timeout_s=60).reason)"
    )
    done = run_audited(["-c", program], tmp_path)
    assert done.code == 0, done.errors
    assert done.network
    assert done.process_count == 2


def test_the_telemetry_package_is_as_it_was_for_the_program_itself(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    program = (
        "import sys, openvino_telemetry as before;"
        "import ortpkg.runtime.providers.openvino_library, openvino_telemetry;"
        "assert openvino_telemetry is before, 'another module'"
    )
    done = run_audited(["-c", program], tmp_path)
    assert done.code == 0, done.errors
