"""A canary tries a variant in a child process first.

What fails there is not used here, and the next best is.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import DigestMismatchError, NoSuitableVariantError
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.formats.samples import Tolerance
from ortpkg.selection.matching.measurements import QuarantineCause
from ortpkg.selection.matching.verdict import ReasonCode
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.canary import CanaryWishes
from ortpkg.selection.measuring.measured_candidates import Plan, Workload
from ortpkg.selection.measuring.stored_record import stored_records
from ortpkg.selection.measuring.variant_trial import check_variant
from tests.measuring.conftest import (
    FAULTY_EP,
    CommandLine,
    Done,
    LineMaker,
    add_samples,
    scale_model,
)

_EMBEDDED = EpDevice(ep_name="CPUExecutionProvider", device=None, backend="embedded")
_ONE = np.ones((1, 3), np.float32)


@pytest.mark.parametrize(("factor", "cause"), [(2.0, None), (3.0, QuarantineCause.WRONG_OUTPUT)])
def test_compares_one_run_with_what_is_expected(
    tmp_path: Path, factor: float, cause: QuarantineCause | None
) -> None:
    candidate = BenchCandidate(
        component_name="c",
        variant_name="v",
        ep_device=_EMBEDDED,
        model_path=scale_model(tmp_path / "m.onnx", factor=factor),
        tolerances={"y": Tolerance(absolute=0.01)},
    )
    found = check_variant(
        candidate, Workload(feeds=[{"x": _ONE}], expected=[{"y": 2 * _ONE}]), Plan()
    )
    assert found.has_passed is (cause is None)
    assert found.cause is cause
    wrong = (
        "wrong output: y is off by up to 1 (50.00% of its largest number, 2; cosine 1.00000);"
        " allowed is 0.01"
    )
    assert found.reason == ("" if cause is None else wrong)
    assert found.result.times is None


def test_one_that_passed_is_not_tried_again(
    scale_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = ortpkg.ModelPackage(scale_package)
    assert package.best_variant(backend="embedded", canary=True).name == "cpu"

    def no_child(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a child process was started")

    monkeypatch.setattr(subprocess, "Popen", no_child)
    variant = package.best_variant(backend="embedded", canary=True)
    assert variant.verdict().ep_device is not None
    (y,) = variant.create_session().run(None, {"x": _ONE})
    assert y.tolist() == [[2.0, 2.0, 2.0]]


def test_where_everything_fails_nothing_is_chosen(scale_package: Path, tmp_path: Path) -> None:
    np.savez(scale_package / "samples" / "outputs.npz", y=np.full((4, 3), 77, np.float32))
    ortpkg.record_digests(scale_package)
    notes: list[str] = []
    place = ortpkg.ModelPackage(scale_package).best_variant().verdict(backend="embedded").ep_device
    with pytest.raises(
        NoSuitableVariantError,
        match="every variant of component 'model' that could run here failed",
    ) as caught:
        ortpkg.ModelPackage(scale_package).best_variant(
            backend="embedded", canary=CanaryWishes(on_note=notes.append)
        )
    assert caught.value.selection is not None
    codes = {
        verdict.code for verdict in caught.value.selection.verdicts if verdict.ep_device == place
    }
    assert codes == {ReasonCode.CANARY_FAILED}
    assert len(notes) == 1
    assert "'cpu' is not used on CPUExecutionProvider (embedded)" in notes[0]
    assert "wrong output: y is off by up to" in notes[0]


@dataclass(frozen=True)
class Tried:
    """A package whose best variant aborts, and a command line."""

    root: Path
    folder: Path
    ortpkg: CommandLine

    def choose(self) -> str:
        program = (
            "import sys, ortpkg; from ortpkg.selection.measuring.canary import CanaryWishes\n"
            "package = ortpkg.ModelPackage(sys.argv[1], trust=True)\n"
            "wishes = CanaryWishes(on_note=lambda text: print('NOTE', text))\n"
            "found = package.best_variant(canary=wishes)\n"
            "print('CHOSE', found.name)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(self.root)],
            env=dict(self.ortpkg.environment),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


@pytest.fixture
def tried(tmp_path: Path, command_line: LineMaker) -> Tried:
    model = scale_model(tmp_path / "m.onnx")
    faulty = ortpkg.NewVariant(
        model=model, name="npu", ep=FAULTY_EP, device="cpu", provider_options={"fault": "abort"}
    )
    root = tmp_path / "two.ortpackage"
    # a named EP ranks before any EP
    ortpkg.create(root, [faulty, ortpkg.NewVariant(model=model, name="cpu")])
    add_samples(root)
    return Tried(root=root, folder=tmp_path / "line", ortpkg=command_line(tmp_path / "line"))


def _codes(done: Done) -> set[tuple[str, str]]:
    """Variant and code of every verdict that ``ortpkg select --json`` printed."""
    return {
        (verdict["variant"], verdict["code"])
        for selection in done.json["selections"]
        for verdict in selection["verdicts"]
    }


def test_a_variant_that_crashes_goes_into_quarantine_until_its_ep_is_another(tried: Tried) -> None:
    tried.ortpkg(
        "bench", tried.root, "--rounds", 1, "--repeat", 1, "--backend", "faulty", "--trust"
    )
    here = _codes(tried.ortpkg("select", tried.root, "--json"))
    assert ("npu", "QUARANTINED") in here
    recorded = tried.folder / "plugins" / "faulty-1.0.dist-info" / "METADATA"
    recorded.write_text(recorded.read_text().replace("Version: 1.0", "Version: 2.0"))
    newer = _codes(tried.ortpkg("select", tried.root, "--json"))
    recorded.write_text(recorded.read_text().replace("Version: 2.0", "Version: 1.0"))
    assert "QUARANTINED" not in {code for _, code in newer}
    again = tried.ortpkg(
        "bench", tried.root, "--rounds", 1, "--repeat", 1, "--trust", "--json"
    ).json
    skipped = [each for each in again["results"] if each["outcome"] == "skipped"]
    assert [each["variant"] for each in skipped] == ["npu"]
    assert "SIGABRT" in skipped[0]["reason"]
    planned = tried.ortpkg("quarantine", "clear", tried.root, "--dry-run")
    assert "would lift model/npu of two on FaultyExecutionProvider (faulty)" in planned.out
    assert "nothing was changed" in planned.err
    assert "quarantine list changes nothing" in tried.ortpkg("quarantine", "--dry-run").err
    assert "1 entry lifted" in tried.ortpkg("quarantine", "clear", tried.root).out
    assert "nothing is in quarantine" in tried.ortpkg("quarantine").out


def test_the_next_best_is_taken_and_the_user_is_told(tried: Tried) -> None:
    told = tried.choose()
    assert "'npu' is not used on FaultyExecutionProvider (faulty)" in told
    assert "SIGABRT" in told
    assert "CHOSE cpu" in told
    assert "npu" in tried.ortpkg("quarantine").out
    assert tried.choose().split() == ["CHOSE", "cpu"]


def test_run_with_a_canary_takes_the_next_best_and_says_why(tried: Tried) -> None:
    done = tried.ortpkg("run", tried.root, "--canary", "--trust", "--json")
    assert done.code == 0, done.err
    assert done.json["ran"][0]["variant"] == "cpu"
    (warning,) = [
        line
        for line in done.err.splitlines()
        if line.startswith("warning: variant 'npu' is passed over")
    ]
    assert "CANARY_FAILED: its first try in a child process failed" in warning
    assert "SIGABRT" in warning
    again = tried.ortpkg("run", tried.root, "--trust", "--json")
    assert (again.code, again.json["ran"][0]["variant"]) == (0, "cpu")
    assert ("npu", "QUARANTINED") in _codes(tried.ortpkg("select", tried.root, "--json"))


@pytest.mark.parametrize(
    ("fault", "limit"), [("hang", ("--timeout", "8s")), ("memory", ("--memory-limit", "400MB"))]
)
def test_a_canary_keeps_to_the_limits_of_the_run(
    tmp_path: Path, command_line: LineMaker, fault: str, limit: tuple[str, str]
) -> None:
    model = scale_model(tmp_path / "m.onnx")
    faulty = ortpkg.NewVariant(
        model=model, name="npu", ep=FAULTY_EP, device="cpu", provider_options={"fault": fault}
    )
    root = tmp_path / "one.ortpackage"
    ortpkg.create(root, [faulty])
    add_samples(root)

    done = command_line(tmp_path / "line")("run", root, "--canary", "--trust", *limit)

    assert done.code == 3
    assert (
        "over the limit: " + ("no answer within 8 s" if fault == "hang" else "it held more than")
        in done.err
    )


def test_a_session_with_a_canary_is_made_on_what_survives(tried: Tried) -> None:
    program = (
        "import sys, ortpkg\n"
        "package = ortpkg.ModelPackage(sys.argv[1], trust=True)\n"
        "print(package.create_session(canary=True).get_providers())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tried.root)],
        env=dict(tried.ortpkg.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert FAULTY_EP not in done.stdout


def test_damage_is_not_taken_for_a_failure_of_the_backend(scale_package: Path) -> None:
    package = ortpkg.ModelPackage(scale_package)
    model = package.info.components[0].variants[0].model_path
    assert model is not None
    model.write_bytes(model.read_bytes()[:-1])
    with pytest.raises(DigestMismatchError):
        package.best_variant(backend="embedded", canary=True)
    assert stored_records() == ()
