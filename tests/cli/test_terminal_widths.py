"""Tables on terminals of 60 to 150 columns: no name and no number is broken."""

from __future__ import annotations

import functools
import io
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.api.bench.benchmark import BenchReport
from ortpkg.api.doctor.diagnosis import doctor
from ortpkg.authoring.create import add_variant, create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.cli import bench_text
from ortpkg.cli.app import run
from ortpkg.cli.batch_output import BatchOutput
from ortpkg.cli.rendering import Output
from ortpkg.cli.wrapping import display_width, unbroken_parts
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.package.reader import open_package
from ortpkg.runtime.providers import user_ep_libraries
from ortpkg.runtime.providers.ep_discovery.ep_libraries import EpLibrary
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.scale.batches.batch_progress import PartDone
from ortpkg.scale.batches.package_runner import ChosenVariant
from ortpkg.selection.matching.measurements import QuarantineCause, QuarantineEntry
from ortpkg.selection.measuring.accuracy import Distance
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.measured_candidates import CandidateResult, Outcome, Plan
from ortpkg.selection.measuring.record_store import write_quarantine
from ortpkg.selection.measuring.run_statistics import run_times
from tests.cli.conftest import DIGITS
from tests.cli.test_weight_commands import make_model

WIDTHS = [60, 80, 100, 150]
TINYCHAR = DIGITS.with_name("tinychar.ortpackage")
LONG = "a-name-that-somebody-generated-from-every-flag-of-the-exporter-int8-qdq-opset-21"
MakeModel = Callable[..., Path]

#: Module with a table → a command line for each of its tables; {long} and {digits} are packages.
TABLES: dict[str, list[str]] = {
    "cache": ["cache list"],
    "comparison_table": ["select {long} --compare", "select {digits} --compare"],
    "dedup": ["dedup {equal} --dry-run"],
    "devices": ["devices --profile rtx-workstation --facts", "devices --list-profiles"],
    "explain": ["explain", "explain ORT121"],
    "history": ["history long"],
    "inspect": ["inspect {long}", "inspect {digits}", "inspect {tinychar}"],
    "list_packages": ["list"],
    "migrate_check": ["migrate-check {long}", "migrate-check {digits}"],
    "outdated": ["outdated"],
    "plan": [
        "plan {digits} --nodes --memory",
        "plan {tinychar} -c decode --nodes --memory",
        "plan {long} --nodes",
    ],
    "plan_costs": ["plan {digits} --partition cost"],
    "plan_refusals": ["plan {refused} --ep llvm", "plan {refused} --ep llvm --nodes"],
    "quarantine": ["quarantine"],
    "ep": ["ep"],
    "run": ["run {long} -i x={inputs} --backend embedded"],
    "run_results": ["run {digits} --backend embedded"],
    "selection_table": ["select {long} {digits} --profile rtx-workstation --profile plain-server"],
    "settings_command": ["settings"],
    "slim": ["slim {long} --device cpu -o {new}"],
    "unpack": ["unpack {packed} --list"],
}
#: What is no table, but has lines that are as long.
TREES = [
    "select {long} --explain",
    "select {digits} --explain",
    "select {long}",
    "validate {long}",
    "doctor",
    "inspect {long} --tree",
    "inspect {tinychar} --tree",
]
#: Of pictures: maps of steps and columns of bytes are as wide as the terminal.
_PICTURE = re.compile(r"(?:[A-Z]─*)+|[ ▁▂▃▄▅▆▇█]+")
#: Branches of trees, and the mark below a picture, which are other characters on a terminal, and
#: words on what only terminals show.
_DRAWN = {"│", "├─", "└─", "↑"} | {
    *("Spread:", "how", "often", "time", "was", "met,", "but", "slowest", "fastest", "88")
}
#: Columns of what only terminals show.
_COLUMNS_DRAWN = re.compile(r"[▁▂▃▄▅▆▇█]+")
_UNIT = re.compile(r"\W*(B|[kMG]B|[mµ]?s|%)\b")


class Terminal(io.StringIO):
    """Keeps what is written to it."""

    is_terminal = True

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setattr("ortpkg.cli.rendering.sys", SimpleNamespace(stdout=made, stderr=Terminal()))
    monkeypatch.setattr("ortpkg.cli.run_results.duration_text", lambda _: "1.2 ms")
    # free memory changes from one to the next
    monkeypatch.setattr("ortpkg.cli.doctor.doctor", functools.cache(doctor))
    monkeypatch.setenv("NO_COLOR", "1")
    return made


@pytest.fixture
def places(
    tmp_path: Path, model: MakeModel, few_digits: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Path]:
    """Packages, real and with long names, something in quarantine and in the cache."""
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    named = model(f"{LONG}.onnx")
    long = create(
        tmp_path / f"{LONG}.ortpackage", [NewVariant.for_cpu(named)], component=f"c-{LONG}"
    ).root
    add_variant(long, named, variant=f"w-{LONG}", ep="openvino", device="npu")
    heavy = make_model(tmp_path / "heavy", 1, f"{LONG}.bin")
    equal = create(
        tmp_path / "equal.ortpackage", [NewVariant.for_cpu(heavy)], component=f"c-{LONG}"
    ).root
    add_variant(equal, heavy, variant="b", ep="cuda")
    run(["-q", "pack", str(long), "-o", str(tmp_path / "p.ortpkg")])
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    entry = quarantine_entry(
        "cpu-fp32", "the process ended by signal 11, while it loaded the model 'm.onnx'"
    )
    write_quarantine(
        open_package(few_digits), [entry, replace(entry, ep_name="OpenVINOExecutionProvider")]
    )
    write_quarantine(open_package(long), [replace(entry, variant_name=LONG)])
    library = EpLibrary(f"{LONG}EP", f"onnxruntime-{LONG}", "1.2.3", f"/opt/{LONG}/libacme.so")
    monkeypatch.setattr(user_ep_libraries, "installed_distributions", lambda: ("onnxruntime",))
    monkeypatch.setattr(user_ep_libraries, "installed_ep_libraries", lambda: (library,))
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.ep_context_cache", "1")
    InferenceSession(named, options, providers=["llvm"])
    refused = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]> g (float[n, 8] x) => (int64[2, m] y)
        {{ [{LONG.replace("-", "_")}] y = NonZero (x) }}"""
    )
    onnx.save(refused, tmp_path / "refused.onnx")
    return {
        "refused": tmp_path / "refused.onnx",
        "long": long,
        "equal": equal,
        "digits": few_digits,
        "tinychar": TINYCHAR,
        "inputs": tmp_path / "x.npy",
    } | {
        "packed": tmp_path / "p.ortpkg",
        "new": tmp_path / "new.ortpackage",
    }


def quarantine_entry(variant: str, detail: str) -> QuarantineEntry:
    return QuarantineEntry(
        component_name="classifier",
        variant_name=variant,
        ep_name="CPUExecutionProvider",
        backend="onnxruntime",
        device="cpu",
        ep_version="1.31.1",
        driver_version="",
        cause=QuarantineCause.CRASH,
        detail=detail,
        recorded_at="2026-01-01T12:00:00+00:00",
    )


def check(screen: Terminal, monkeypatch: pytest.MonkeyPatch, show: Callable[[], None]) -> None:
    """Runs ``show`` without a terminal and on several, and compares what they show."""
    screen.is_terminal = False
    show()
    whole = screen.getvalue()
    words = set(whole.split()) | set(short_ep_names(whole).split())
    assert words
    screen.is_terminal = True
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        screen.seek(0)
        screen.truncate()
        show()
        lines = [
            line
            for line in screen.getvalue().splitlines()
            if set(line) != {"─"} and not _PICTURE.fullmatch(line)
        ]
        shown = {
            word for line in lines for word in line.split() if not _COLUMNS_DRAWN.fullmatch(word)
        }
        unknown = shown - words - _DRAWN
        assert not unknown, f"at {width} columns: {unknown}"
        for line in lines:
            assert not _UNIT.match(line), f"at {width} columns: a unit without its number: {line!r}"
            longest = max(map(display_width, unbroken_parts(line)), default=0)
            assert display_width(line) <= width or longest > width - 40, (
                f"at {width} columns: {line!r}"
            )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("line", [*(line for lines in TABLES.values() for line in lines), *TREES])
def test_no_name_and_no_number_is_broken(
    line: str, places: dict[str, Path], screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        word.format_map({name: str(path) for name, path in places.items()}) for word in line.split()
    ]

    if words[0] in {"history", "list", "outdated"}:
        install_long(places["long"])

    def show() -> None:
        shutil.rmtree(places["new"], ignore_errors=True)
        assert run(words) in {0, 1, 3}, screen.getvalue()

    check(screen, monkeypatch, show)


def install_long(package: Path) -> None:
    """Puts a package into the store as ``long``, of which its layout has newer versions."""
    layout = f"oci-layout:{package.with_name(LONG)}"
    for tag in ("1.0", "2.0", "3.0"):
        assert run(["-q", "push", str(package), f"{layout}:{tag}"]) == 0
    words = ["-q", "install", f"{layout}:1.0", "--name", "long", "--all-variants"]
    assert run(words) == 0


@pytest.mark.parametrize("name", ["cpu-int8", LONG])
def test_no_figure_of_a_benchmark_is_broken(
    name: str, screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    npu = HardwareDevice(type=DeviceType.NPU, name="Intel(R) AI Boost", source="test")
    places = [
        EpDevice(ep_name="CPUExecutionProvider", device=None, backend="embedded"),
        EpDevice(ep_name="OpenVINOExecutionProvider", device=npu, backend="openvino"),
    ]
    results = [
        CandidateResult(
            candidate=BenchCandidate(
                component_name="c", variant_name=name, ep_device=place, model_path=Path("m")
            ),
            outcome=Outcome.MEASURED,
            times=run_times([[1_234_567, 2_345_678], [99_000, 88_000]]),
            peak_memory_nbytes=123_456_789,
            distance=Distance(max_abs_error=0.0123, cosine=0.999999, is_within=True),
        )
        for place in places
    ]
    failed = replace(
        results[0], outcome=Outcome.CRASHED, times=None, reason="the process ended by signal 11"
    )
    report = BenchReport(
        package_name=name, results=(*results, failed), workloads={"c": "its samples"}, plan=Plan()
    )
    check(screen, monkeypatch, lambda: bench_text.print_report(report, Output()))


@pytest.mark.parametrize("name", ["cpu-int8", LONG])
def test_no_name_in_what_ran_a_batch_is_broken(
    name: str, screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ChosenVariant(
        component="c",
        variant=name,
        ep="OpenVINOExecutionProvider",
        backend="openvino",
        device="Intel(R) AI Boost",
        device_type="npu",
        reason="its device comes first under the policy prefer-npu",
    )
    done = PartDone(part=0, rows=1_234_567, errors=3, worker="w", node=name, variants=(chosen,))
    job: Any = SimpleNamespace(
        parts=(),
        row_count=1_234_570,
        folder=SimpleNamespace(root=Path("out"), errors=lambda _: iter(())),
    )
    output = BatchOutput(Output())
    with output.progress(job) as advance:
        advance(done)
    check(screen, monkeypatch, lambda: output.finish(job, None))


def test_every_module_with_a_table_is_here() -> None:
    folder = Path(bench_text.__file__).parent
    found = {
        path.stem
        for path in folder.glob("*.py")
        if re.search(r"\.table\(", path.read_text(encoding="utf-8"))
    }
    assert found == {*TABLES, "batch_output", "bench_text"}
