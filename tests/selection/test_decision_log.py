"""The record of a decision."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from ortpkg.package.package_info import PackageFormat, PackageInfo
from ortpkg.selection.matching.decision_log import log_decision
from tests.selection.conftest import _ROOT


def _package() -> PackageInfo:
    return PackageInfo(
        root=_ROOT, format=PackageFormat.METADATA, name="p", version="1.2", components=()
    )


def test_a_record_has_the_package_the_wishes_every_verdict_and_the_time(
    machines: Any, variants: Any, select: Any
) -> None:
    records: list[dict[str, Any]] = []
    selection = select(
        machines["core-ultra"],
        [variants["ov-npu"], variants["cuda"]],
        device="npu",
        policy="prefer-npu",
    )

    log_decision(selection, _package(), duration_s=0.5, log=records.append)

    (record,) = json.loads(json.dumps(records))
    assert list(record) == [
        "schema_version",
        "kind",
        "recorded_at",
        "ortpkg",
        "package",
        "duration_s",
        "selection",
    ]
    assert record["package"] == {
        "name": "p",
        "version": "1.2",
        "format": "metadata",
        "root": str(_ROOT),
    }
    assert record["duration_s"] == 0.5
    assert (record["selection"]["policy"], record["selection"]["device"]) == ("prefer-npu", "npu")
    assert record["selection"]["selected"]["variant"] == "ov-npu"
    assert len(record["selection"]["verdicts"]) == len(selection.verdicts)


def test_one_line_goes_to_pythons_logging_and_no_verdict_is_made_for_it(
    machines: Any, variants: Any, select: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="ortpkg.selection.matching.decision_log"):
        log_decision(
            select(machines["bare"], [variants["cpu"]]), _package(), duration_s=0.5, log=None
        )

    assert caplog.messages == ["selected 'cpu' of 'model' (policy default)"]
