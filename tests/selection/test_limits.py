"""Limits in a caller's words, and what recorded facts tell of size and precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import UsageError
from ortpkg.foundations.quantities import parse_duration_s, parse_nbytes
from ortpkg.package.package_info import Constraints, VariantInfo
from ortpkg.selection.matching.variant_facts import Precision, peak_memory_of, precision_of, size_of
from ortpkg.selection.matching.wished_limits import (
    NO_LIMITS,
    Limits,
    check_where_keys,
    has_value,
    limits_of,
    meets_condition,
    recorded_fact,
)
from ortpkg.selection.matching.wishes import SelectionWishes


def _variant(metadata: dict[str, Any]) -> VariantInfo:
    return VariantInfo(
        name="v",
        component_name="m",
        directory=Path("/p/v"),
        model_path=Path("/p/v/m.onnx"),
        constraints=Constraints(),
        metadata=metadata,
    )


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("500MB", 500_000_000),
        ("1.5 GiB", 3 << 29),
        ("2gb", 2 * 10**9),
        ("17", 17),
        (17, 17),
        ("0", 0),
        (".5kB", 500),
    ],
)
def test_a_size_is_read_as_people_write_it(text: str | int, nbytes: int) -> None:
    assert parse_nbytes(text, "max-size") == nbytes


@pytest.mark.parametrize("text", ["", "MB", "-1", "1e9", "5 apples", "1 GB 2", "nan", -1, True])
def test_what_is_no_size_is_a_usage_error_that_shows_one(text: Any) -> None:
    with pytest.raises(
        UsageError, match=r"max-size is no size: .*; write e\.g\. 500MB, 2GB or 1\.5GiB"
    ):
        parse_nbytes(text, "max-size")


@pytest.mark.parametrize(
    ("text", "duration_s"),
    [("5ms", 5e-3), ("200us", 2e-4), ("200 µs", 2e-4), ("2", 2.0), (0.1, 0.1)],
)
def test_a_duration_is_read_as_people_write_it(text: str | float, duration_s: float) -> None:
    assert parse_duration_s(text, "max-latency") == pytest.approx(duration_s)


@pytest.mark.parametrize("text", ["", "5 parsecs", "-5ms", float("inf"), float("nan"), -1.0])
def test_what_is_no_duration_is_a_usage_error(text: Any) -> None:
    with pytest.raises(UsageError, match="max-latency is no duration"):
        parse_duration_s(text, "max-latency")


def test_no_wishes_are_no_limits() -> None:
    assert limits_of(SelectionWishes()) == NO_LIMITS


def test_every_limit_is_described_in_words() -> None:
    wishes = SelectionWishes(
        max_memory="2GB", max_size=5, min_precision="bf16", where=["a=b"], max_latency="5ms", max_error=0.1,
        strict_facts=True,
    )  # fmt: skip
    limits = limits_of(wishes)

    assert limits.described() == (
        "memory up to 2.0 GB",
        "size up to 5 B",
        "precision fp16/bf16 or more",
        "a=b",
        "latency up to 5.0 ms",
        "error up to 0.1",
        "strict facts",
    )


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (
            {"min_precision": "int9"},
            r"there is no precision 'int9' \(did you mean 'int\d'\?\); known are: int4, int8",
        ),
        ({"where": ["quantization"]}, "where is no condition: 'quantization'; write KEY=VALUE"),
        ({"where": ["=int8"]}, "where is no condition"),
        ({"max_error": float("nan")}, "max-error is no distance"),
        ({"max_error": -1.0}, "max-error is no distance"),
    ],
)
def test_a_limit_that_is_none_is_a_usage_error(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        limits_of(SelectionWishes(**wish))


def test_metadata_can_be_asked_for_by_a_mapping_too() -> None:
    assert limits_of(SelectionWishes(where={"opset": 17, "quantization": None})) == Limits(
        where=(("opset", "17"), ("quantization", "none"))
    )


@pytest.mark.parametrize(
    ("recorded", "wanted", "holds"),
    [
        ("qdq-int8", "int8", True),
        ("qdq-int8", "QDQ-int8", True),
        ("qdq-int8", "int", False),
        (None, "none", True),
        (None, "int8", False),
        (17, "17", True),
        (17, "17.0", True),
        (17, "18", False),
        (17, "x", False),
        (True, "true", True),
        (True, "1", False),
        (["float", "int8"], "int8", True),
        (["float"], "int8", False),
        ({"a": 1}, "a", False),
    ],
)
def test_a_recorded_fact_is_compared_by_what_it_is(
    recorded: object, wanted: str, holds: bool
) -> None:
    assert has_value(recorded, wanted) is holds


@pytest.mark.parametrize(
    ("metadata", "of_package", "wanted", "holds"),
    [
        ({"version": "1.1"}, "1.0", "1.1", True),
        ({"version": "1.1"}, "1.0", "1.0", False),
        ({"version": "1.1"}, None, " 1.1.0 ", True),
        ({}, "1.0", "1.0", True),
        ({}, "1.0", "1.1", False),
        ({}, None, "1.0", None),
        ({"version": None}, "1.0", "1.0", None),
    ],
)
def test_a_variant_has_its_own_version_and_else_its_packages(
    metadata: dict[str, Any], of_package: str | None, wanted: str, holds: bool | None
) -> None:
    is_recorded, recorded = recorded_fact(_variant(metadata), "version", package_version=of_package)

    assert is_recorded is (holds is not None)
    assert meets_condition("version", recorded, wanted) is bool(holds)


def test_what_no_variant_records_cannot_be_asked_for() -> None:
    variants = [_variant({"opset": 17}), _variant({"quantization": "int8"})]

    check_where_keys([("opset", "1"), ("quantization", "x")], variants)
    check_where_keys([("version", "1.0")], variants, package_version="1.0")
    with pytest.raises(
        UsageError,
        match="no variant records 'version' in its metadata; recorded are: 'opset', 'quan",
    ):
        check_where_keys([("opset", "1"), ("version", "1.0")], variants)
    with pytest.raises(
        UsageError,
        match=r"'opset2' in its metadata \(did you mean 'opset'\?\); recorded are: 'opset'",
    ):
        check_where_keys([("opset2", "1")], variants)
    with pytest.raises(UsageError, match="recorded are: nothing"):
        check_where_keys([("opset", "1")], [])


@pytest.mark.parametrize(
    ("metadata", "precision"),
    [
        ({"quantization": "qdq-int8", "data_types": ["float", "int8"]}, Precision.INT8),
        ({"quantization": "int4-blockwise"}, Precision.INT4),
        ({"quantization": None, "data_types": ["float", "uint8"]}, Precision.FP32),
        ({"quantization": None, "data_types": ["float", "float16"]}, Precision.FP16),
        ({"data_types": ["float", "uint8"]}, Precision.INT8),
        ({"quantization": "bf16"}, Precision.FP16),
        ({"quantization": "something new", "data_types": ["double"]}, Precision.FP64),
        ({"quantization": "none", "data_types": ["float"]}, Precision.FP32),
        ({"quantization": None, "data_types": ["string"]}, None),
        ({"quantization": 8, "data_types": "float"}, None),
        ({}, None),
    ],
)
def test_precision_is_told_by_quantization_and_else_by_types(
    metadata: dict[str, Any], precision: Precision | None
) -> None:
    assert precision_of(metadata) == precision


@pytest.mark.parametrize("value", ["big", -1, True, None, float("nan"), 1 << 70, [1]])
def test_a_fact_that_is_no_number_of_bytes_is_unknown(value: object) -> None:
    assert size_of({"nbytes": value}) is None
    assert peak_memory_of({"peak_memory_nbytes": value}) is None
