"""Distances, statistics, memory, made-up inputs and arrays between processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.foundations.errors import UsageError
from ortpkg.graph.model_signature import ValueSignature
from ortpkg.graph.synthetic_inputs import synthetic_feed
from ortpkg.package.formats.samples import Tolerance
from ortpkg.selection.measuring.accuracy import distance, farthest
from ortpkg.selection.measuring.exchanged_arrays import read_arrays, write_arrays
from ortpkg.selection.measuring.gpu_memory import gpu_memory_nbytes, parse_nvidia_processes
from ortpkg.selection.measuring.run_statistics import run_times

_TIGHT = {"y": Tolerance(absolute=0.1)}


def _distance(actual: Any, expected: Any, tolerances: Any = _TIGHT) -> Any:
    return distance({"y": np.asarray(actual)}, {"y": np.asarray(expected)}, tolerances)


def test_tells_the_largest_difference_and_the_angle() -> None:
    found = _distance([3.0, 4.0], [3.0, 4.05])
    assert found.max_abs_error == pytest.approx(0.05)
    assert found.max_relative_error == pytest.approx(0.05 / 4.05)
    assert found.cosine == pytest.approx(1.0, abs=1e-4)
    assert found.is_within is True
    assert _distance([0.0, 1.0], [1.0, 0.0]).cosine == 0.0


@pytest.mark.parametrize("tolerances", [_TIGHT, None])
@pytest.mark.parametrize(
    ("actual", "expected"),
    [([1.0], [[1.0]]), ([np.nan], [1.0]), ([1.0], [np.nan]), ([np.inf], [1.0]), (["a"], ["b"])],
)
def test_what_no_tolerance_allows_is_wrong_even_without_one(
    actual: Any, expected: Any, tolerances: Any
) -> None:
    found = _distance(actual, expected, tolerances)
    assert found.max_abs_error == float("inf")
    assert found.is_within is False


@pytest.mark.parametrize("same", [[np.nan, np.inf, -1.0], [], [True, False], ["a", "b"]])
def test_the_same_is_at_no_distance(same: list[Any]) -> None:
    found = _distance(same, same)
    assert (found.max_abs_error, found.max_relative_error) == (0.0, 0.0)
    assert (found.is_within, found.what) == (True, "")


def test_without_tolerance_a_distance_is_not_judged() -> None:
    assert _distance([1.0], [2.0], None).is_within is None


def test_a_difference_from_nothing_but_zeros_is_infinitely_large_in_relation() -> None:
    found = _distance([0.0, 0.01], [0.0, 0.0])
    assert (found.max_abs_error, found.max_relative_error) == (0.01, float("inf"))


def test_an_output_that_is_missing_is_wrong() -> None:
    assert distance({}, {"y": np.ones(1)}, _TIGHT).what == "y is missing"


def test_low_precision_types_are_compared_as_numbers() -> None:
    low = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert _distance(low, np.array([1.0, 2.05], np.float32)).max_abs_error == pytest.approx(0.05)


def test_of_many_the_worst_counts() -> None:
    found = farthest([_distance([1.0], [1.0]), _distance([1.0], [3.0]), _distance([1.0], [1.01])])
    assert found.max_abs_error == 2.0
    assert found.is_within is False
    assert "off by up to 2" in found.what


def test_sums_up_rounds() -> None:
    found = run_times([[100, 200, 300], [400, 500, 600]])
    assert found.p50_s == pytest.approx(350e-9)
    assert found.p95_s == pytest.approx(600e-9)
    assert found.lowest_s == pytest.approx(200e-9)
    assert found.highest_s == pytest.approx(500e-9)
    assert found.throughput_per_s == pytest.approx(6 / 2100e-9)
    assert found.count == 6


def test_one_run_is_its_own_percentile() -> None:
    found = run_times([[7]])
    assert found.p50_s == found.p95_s == found.lowest_s == pytest.approx(7e-9)
    assert found.histogram == (1, *[0] * 11)


def test_counts_runs_by_ranges_of_time_up_to_the_percentile() -> None:
    found = run_times([[*[100] * 6, *[160] * 10], [220, 220, 220, 1_000_000]])
    assert (found.fastest_s, found.p95_s) == pytest.approx((100e-9, 220e-9))
    assert found.histogram == (6, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 3)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200))
def test_ranges_of_time_hold_all_runs_but_the_slowest(times_ns: list[int]) -> None:
    found = run_times([times_ns])
    assert 0.95 * len(times_ns) <= sum(found.histogram) <= len(times_ns)
    assert found.histogram[0] >= 1


# --- memory ---------------------------------------------------------------------------------------


def test_adds_up_what_the_kernel_says_of_gpus(tmp_path: Path) -> None:
    fdinfo = tmp_path / "7" / "fdinfo"
    fdinfo.mkdir(parents=True)
    client = "drm-driver:\txe\ndrm-client-id:\t5\ndrm-pdev:\t0000:03:00.0\n"
    (fdinfo / "1").write_text("pos:\t0\nflags:\t02\n")
    for name in ("3", "4"):  # two descriptors of one client
        (fdinfo / name).write_text(
            client + "drm-resident-vram0:\t2 MiB\ndrm-resident-system:\t9 MiB\n"
        )
    (fdinfo / "5").write_text("drm-driver:\tamdgpu\ndrm-client-id:\t9\ndrm-memory-vram:\t512 KiB\n")
    assert gpu_memory_nbytes(7, proc=tmp_path) == (2 << 20) + (512 << 10)


def test_nobody_tells_of_a_gpu() -> None:
    assert gpu_memory_nbytes(os.getpid(), proc=Path("/nowhere")) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12, 300\n7, 20\n7, 5\n", 25 << 20), ("7, [N/A]\n", None), ("", None), ("nonsense", None)],
)
def test_reads_the_list_of_nvidia_smi(text: str, expected: int | None) -> None:
    assert parse_nvidia_processes(text, 7) == expected


# --- made-up inputs -------------------------------------------------------------------------------


def _value(name: str, type_: str, shape: Any) -> ValueSignature:
    return ValueSignature(name=name, type=type_, shape=shape)


def test_open_dimensions_get_documented_sizes() -> None:
    inputs = [
        _value("image", "tensor(float)", (None, 3, "height", "width")),
        _value("ids", "tensor(int64)", ("batch_size", "sequence_length")),
        _value("other", "tensor(bool)", (2, "k", None)),
    ]
    feed = synthetic_feed(inputs, sizes={}, ranges={})
    assert [feed[name].shape for name in ("image", "ids", "other")] == [
        (1, 3, 224, 224),
        (1, 64),
        (2, 8, 8),
    ]
    assert set(np.unique(feed["ids"])) <= {0, 1}
    assert feed["other"].dtype == np.bool_


def test_the_caller_may_say_sizes_and_the_package_ranges() -> None:
    inputs = [_value("x", "tensor(uint8)", ("n", 100))]
    feed = synthetic_feed(inputs, sizes={"n": 3}, ranges={"x": (0, 255)})
    assert feed["x"].shape == (3, 100)
    assert feed["x"].max() > 100


def test_the_same_values_every_time() -> None:
    inputs = [_value("x", "tensor(float16)", (4,))]
    first, second = (synthetic_feed(inputs, sizes={}, ranges={})["x"] for _ in range(2))
    assert first.dtype == np.float16
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("value", "sizes", "said"),
    [
        (_value("x", "tensor(float)", None), {}, "input 'x' ('tensor(float)') has no known shape"),
        (
            _value("x", "seq(tensor(float))", (1,)),
            {},
            "input 'x' is 'seq(tensor(float))': no values",
        ),
        (
            _value("x", "tensor(float)", ("batch",)),
            {"bach": 2},
            "no input has a dimension 'bach' (did you mean 'batch'?)",
        ),
        (
            _value("x", "tensor(float)", (1 << 20, 1 << 10)),
            {},
            "input 'x' would have 4294967296 bytes",
        ),
    ],
)
def test_says_what_cannot_be_made_up(
    value: ValueSignature, sizes: dict[str, int], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        synthetic_feed([value], sizes=sizes, ranges={})
    assert said in str(caught.value)


def test_arrays_cross_between_processes_as_they_are(tmp_path: Path) -> None:
    feeds = [
        {
            "../a/b.npy": np.arange(3),
            "file": np.array(1.5, np.float16),
            "text": np.array(["x", "yy"], object),
        },
        {
            "low": np.array([1, 2], ml_dtypes.bfloat16),
            "bits": np.array([1, -2], ml_dtypes.int4),
            "no": [1, 2],
        },
    ]
    write_arrays(tmp_path / "arrays.npz", feeds)
    first, second = read_arrays(tmp_path / "arrays.npz")
    assert list(first) == ["../a/b.npy", "file", "text"]
    assert first["text"].tolist() == ["x", "yy"]
    assert first["file"].dtype == np.float16
    assert list(second) == ["low", "bits"]
    assert second["low"].dtype == ml_dtypes.bfloat16
    assert second["bits"].tolist() == [1, -2]
