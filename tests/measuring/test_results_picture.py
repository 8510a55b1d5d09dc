"""The picture of measurements, made just now and recorded earlier."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.machine.hardware import EpDevice
from ortpkg.selection.matching.measurements import Measurement
from ortpkg.selection.measuring.accuracy import Distance
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.measured_candidates import CandidateResult, Outcome
from ortpkg.selection.measuring.results_picture import results_figure, results_svg
from ortpkg.selection.measuring.run_statistics import run_times
from ortpkg.selection.measuring.shown_results import ShownResult, recorded_result, shown_result

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
    shown = [shown_result(each) for each in results]
    return ET.fromstring(results_svg(shown, title="digits", subtitle="2 threads"))


def _shown(variant: str = "v", **facts: Any) -> ShownResult:
    return ShownResult(
        component_name="c",
        variant_name=variant,
        ep_name="CPUExecutionProvider",
        backend="embedded",
        **facts,
    )


def _figure(*results: ShownResult) -> ET.Element:
    return ET.fromstring(results_figure(results, "digits", name="bench"))


def _bars(picture: ET.Element) -> list[ET.Element]:
    return [each for each in picture.iter() if each.get("class") in {"bar", "outlined"}]


def _texts(picture: ET.Element) -> list[str]:
    """What is drawn as text, without what is shown only where one points at it."""
    return [
        "".join([each.text or "", *(part.text or "" for part in each.iter(f"{_SVG}tspan"))])
        if each.tag.startswith(_SVG)
        else each.text or ""
        for each in picture.iter()
        if each.tag in {"text", f"{_SVG}text"}
    ]


def test_a_bar_is_as_long_as_the_median() -> None:
    short, long = _bars(_draw(_result("a", 1000), _result("b", 4000)))
    assert float(long.get("width", "")) == pytest.approx(
        4 * float(short.get("width", "")), rel=0.01
    )


def test_a_line_goes_from_the_lowest_to_the_highest_median_of_a_round() -> None:
    picture = _figure(_shown(p50_s=0.002, p95_s=0.005, lowest_s=0.001, highest_s=0.003))
    whisker = next(each for each in picture.iter("line") if each.get("class") == "whisker")
    (bar,) = _bars(picture)
    start, length = float(bar.get("x", "")), float(bar.get("width", ""))
    assert float(whisker.get("x1", "")) == pytest.approx(start + length / 2, abs=0.02)
    assert float(whisker.get("x2", "")) == pytest.approx(start + length * 1.5, abs=0.02)
    (p95,) = (each for each in picture.iter("circle") if each.get("class") == "dot")
    assert float(p95.get("cx", "")) == pytest.approx(start + length * 2.5, abs=0.02)
    assert "2 ms, rounds 1 ms to 3 ms, p95 5 ms" in _texts(picture)


def test_a_great_range_is_drawn_on_a_logarithmic_scale_and_says_so() -> None:
    picture = _draw(_result("a", 1_000), _result("b", 1_000_000))
    assert "time of one run logarithmic" in _texts(picture)
    assert "time of one run" in _texts(_draw(_result("a", 1_000), _result("b", 2_000)))
    assert all(float(each.get("width", "")) > 10 for each in _bars(picture))


def test_flags_wrong_outputs_and_says_what_was_not_measured() -> None:
    picture = _draw(
        _result("good", 1000),
        _result("bad", 900, outcome=Outcome.WRONG_OUTPUT),
        _result("gone", outcome=Outcome.CRASHED, reason="it was ended by SIGSEGV"),
    )
    assert [each.get("class") for each in _bars(picture)] == ["bar", "outlined"]
    flags = [each.text for each in picture.iter(f"{_SVG}text") if "flag" in each.get("class", "")]
    assert flags == ["WRONG OUTPUT, off by 0.5", "crashed: it was ended by SIGSEGV"]


def test_the_farther_a_dot_the_larger_the_error() -> None:
    picture = _figure(
        *(
            _shown(p50_s=0.001, max_abs_error=error, is_accurate=True)
            for error in (0.0, 1e-7, 1e-3, math.inf)
        )
    )
    dots = [float(each.get("cx", "")) for each in picture.iter("circle")]
    assert len(dots) == 3  # there is no place for the infinite one
    assert dots == sorted(dots)
    assert {"accurate, off by 0", "accurate, off by infinite", "accurate, off by 0.001"} <= set(
        _texts(picture)
    )


def test_memory_has_a_bar_of_its_own_where_it_is_known() -> None:
    picture = _figure(_shown(p50_s=0.001, peak_memory_nbytes=5_000_000), _shown("w", p50_s=0.001))
    assert len(_bars(picture)) == 3
    assert {"5.0 MB", "unknown"} <= set(_texts(picture))


def test_a_recorded_measurement_is_drawn_like_a_new_one() -> None:
    recorded = Measurement(
        component_name="c",
        variant_name="a",
        ep_name="CPUExecutionProvider",
        backend="embedded",
        device="none",
        p50_s=1e-6,
        p95_s=1e-6,
        lowest_s=1e-6,
        highest_s=1e-6,
        throughput_per_s=1e6,
        cold_start_s=0.0,
        first_run_s=0.0,
        max_abs_error=0.5,
        is_accurate=True,
    )
    assert recorded_result(recorded) == shown_result(_result("a", 1000))


def test_a_record_of_an_older_version_has_no_line_of_rounds() -> None:
    picture = _figure(_shown(p50_s=0.001, p95_s=0.002))
    assert "1 ms, p95 2 ms" in _texts(picture)
    assert not [each for each in picture.iter("line") if each.get("class") == "whisker"]


def test_the_fastest_that_is_not_wrong_is_named_for_those_who_cannot_see() -> None:
    picture = _figure(
        _shown("wrong", p50_s=0.001, is_accurate=False),
        _shown("slow", p50_s=0.003),
        _shown("fast", p50_s=0.002),
        _shown("gone", problem="skipped"),
        replace(_shown("other", p50_s=0.0005), component_name="d"),
    )
    assert picture.findtext("desc") == (
        "Time, error and memory of 4 of 5 candidates."
        " The fastest of c is fast on cpu, embedded: 2 ms."
        " The fastest of d is other on cpu, embedded: 500 µs."
    )


def test_of_very_many_results_the_first_are_drawn_and_the_others_counted() -> None:
    picture = _figure(*(_shown(f"v{number}", p50_s=0.001) for number in range(230)))
    assert len(_bars(picture)) == 200
    assert any(each.endswith("; 30 more are left out") for each in _texts(picture))


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(1, 50), st.floats(0, 1e9), st.integers(0, 10**13)),
        max_size=5,
    )
)
def test_everything_stays_inside_the_picture(
    found: list[tuple[float, float, float, int]],
) -> None:
    picture = _figure(
        *(
            _shown(
                p50_s=time_s,
                p95_s=time_s * factor,
                lowest_s=time_s / factor,
                highest_s=time_s * factor,
                max_abs_error=error,
                peak_memory_nbytes=nbytes,
            )
            for time_s, factor, error, nbytes in found
        )
    )
    width, height = (float(each) for each in picture.get("viewBox", "").split()[2:])
    for each in picture.iter():
        for keys, most in ((("x", "x1", "x2", "cx"), width), (("y", "y1", "y2", "cy"), height)):
            assert all(0 <= float(each.get(key, "0")) <= most for key in keys)


def test_names_of_strangers_do_no_harm() -> None:
    name = '"><script>alert(1)</script>\x00\x1b[2J\u202e' + "x" * 200
    picture = results_svg([shown_result(_result(name, 1000))], title=name, subtitle=name)
    ET.fromstring(picture)
    assert "<script" not in picture
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", picture)


@pytest.mark.parametrize(
    "results", [[], [_result("a", outcome=Outcome.SKIPPED)], [_result("a", 0)]]
)
def test_draws_nothing_much_of_nothing(results: list[CandidateResult]) -> None:
    assert "digits" in _texts(_draw(*results))
