"""The picture of a benchmark."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ortpkg.bench.plot import bench_svg
from ortpkg.devices.hardware import EpDevice
from ortpkg.measuring.accuracy import Distance
from ortpkg.measuring.bench_candidate import BenchCandidate
from ortpkg.measuring.measured_candidates import CandidateResult, Outcome
from ortpkg.measuring.run_statistics import run_times

_SVG = "{http://www.w3.org/2000/svg}"


def _result(
    name: str, *times_ns: int, outcome: Outcome = Outcome.MEASURED, reason: str = ""
) -> CandidateResult:
    ep_device = EpDevice(ep_name="CPUExecutionProvider", device=None, backend="embedded")
    return CandidateResult(
        candidate=BenchCandidate(
            component_name="c", variant_name=name, ep_device=ep_device, model_path=Path("m")
        ),
        outcome=outcome,
        reason=reason,
        is_held_against=outcome is not Outcome.MEASURED,
        times=run_times([times_ns]) if times_ns else None,
        distance=Distance(max_abs_error=0.5, is_within=outcome is Outcome.MEASURED)
        if times_ns
        else None,
    )


def _draw(*results: CandidateResult) -> ET.Element:
    return ET.fromstring(bench_svg(results, title="digits", subtitle="2 threads"))


def _bars(picture: ET.Element) -> list[ET.Element]:
    return [
        each for each in picture.iter(f"{_SVG}rect") if each.get("class") in {"bar", "outlined"}
    ]


def _texts(picture: ET.Element) -> str:
    return " | ".join("".join(each.itertext()) for each in picture.iter(f"{_SVG}text"))


def test_a_bar_is_as_long_as_the_median() -> None:
    short, long = _bars(_draw(_result("a", 1000), _result("b", 4000)))
    assert float(long.get("width", "")) == pytest.approx(
        4 * float(short.get("width", "")), rel=0.01
    )


def test_a_great_range_is_drawn_on_a_logarithmic_scale_and_says_so() -> None:
    picture = _draw(_result("a", 1_000), _result("b", 1_000_000))
    assert "(logarithmic scale)" in _texts(picture)
    assert "(scale from 0)" in _texts(_draw(_result("a", 1_000), _result("b", 2_000)))
    assert all(float(each.get("width", "")) > 10 for each in _bars(picture))


def test_flags_wrong_outputs_and_says_what_was_not_measured() -> None:
    picture = _draw(
        _result("good", 1000),
        _result("bad", 900, outcome=Outcome.WRONG_OUTPUT),
        _result("gone", outcome=Outcome.CRASHED, reason="it was ended by SIGSEGV"),
    )
    assert [each.get("class") for each in _bars(picture)] == ["bar", "outlined"]
    flags = [
        "".join(each.itertext())
        for each in picture.iter(f"{_SVG}text")
        if each.get("class") == "flag"
    ]
    assert flags == ["WRONG OUTPUT", "crashed: it was ended by SIGSEGV"]


def test_everything_stays_inside_the_picture() -> None:
    picture = _draw(_result("a", 1_000, 90_000), _result("b", 50_000))
    width, height = (float(each) for each in picture.get("viewBox", "").split()[2:])
    for each in picture.iter():
        for key, most in (
            ("x", width),
            ("x1", width),
            ("x2", width),
            ("y", height),
            ("y1", height),
            ("y2", height),
        ):
            assert 0 <= float(each.get(key, "0")) <= most


def test_names_of_strangers_do_no_harm() -> None:
    name = '"><script>alert(1)</script>\x00\x1b[2J\u202e' + "x" * 200
    picture = bench_svg([_result(name, 1000)], title=name, subtitle=name)
    ET.fromstring(picture)
    assert "<script" not in picture
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", picture)


@pytest.mark.parametrize(
    "results", [[], [_result("a", outcome=Outcome.SKIPPED)], [_result("a", 0)]]
)
def test_draws_nothing_much_of_nothing(results: list[CandidateResult]) -> None:
    assert "digits" in _texts(_draw(*results))
