"""select, inspect and devices on the sample package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS, RunCommand


def test_select_prints_the_variant_and_where_it_lies(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS)
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first.startswith("classifier: cpu-fp32 on CPUExecutionProvider")
    assert second.strip() == str(DIGITS / "models" / "classifier" / "cpu-fp32" / "model.onnx")


def test_select_for_a_device_that_is_not_there_says_why_each_variant_fell(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS, "--device", "npu")
    assert done.code == 3
    assert done.out == ""
    for name in ("cpu-fp32", "cpu-int8", "openvino-npu", "openvino-gpu", "cuda"):
        assert f"'{name}'" in done.err


def test_explain_shows_every_variant_with_a_code_even_where_nothing_fits(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS, "--device", "npu", "--explain")
    assert done.code == 3
    assert "DEVICE_NOT_PRESENT  'openvino-npu'" in done.out
    assert "DEVICE_NOT_REQUESTED" in done.out


def test_json_carries_the_same_verdicts(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS, "--json")
    (selection,) = done.json["selections"]
    assert selection["selected"]["variant"] == "cpu-fp32"
    assert {verdict["variant"] for verdict in selection["verdicts"]} == {
        "cpu-fp32",
        "cpu-int8",
        "openvino-npu",
        "openvino-gpu",
        "cuda",
    }
    assert all(verdict["reason"] and verdict["code"] for verdict in selection["verdicts"])


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--component", "clasifier"], 2, "did you mean 'classifier'?"),
        (["--variant", "cpu-fp23"], 2, "did you mean 'cpu-fp32'?"),
        (["--policy", "prefer-gpuu"], 2, "prefer-gpu"),
        (["--device", "tpu"], 2, "cpu, gpu, npu"),
        (["--ep", "openvin"], 2, "OpenVINOExecutionProvider"),
    ],
)
def test_a_mistyped_name_is_a_usage_error_with_a_suggestion(
    ortpkg: RunCommand, words: list[str], code: int, message: str
) -> None:
    done = ortpkg("select", DIGITS, *words)
    assert done.code == code
    assert message in done.err


def test_inspect_shows_components_and_variants(ortpkg: RunCommand) -> None:
    done = ortpkg("inspect", DIGITS)
    assert done.code == 0
    assert "digits 1.0.0: " in done.out
    assert "component model classifier" in done.out
    assert "openvino-npu" in done.out


def test_inspect_shows_hostile_names_as_plain_text(
    ortpkg: RunCommand, model: Callable[..., Path], tmp_path: Path
) -> None:
    package = tmp_path / "p.ortpackage"
    ortpkg("create", package, "--cpu", model(), "--name", "\x1b[2J[bold]boo\u202e")
    done = ortpkg("inspect", package)
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "\\x1b[2J[bold]boo\\u202e" in done.out


def test_devices_shows_the_cpu_and_the_embedded_provider(ortpkg: RunCommand) -> None:
    listed = ortpkg("devices", "--json").json
    assert "cpu" in {device["type"] for device in listed["hardware"]}
    assert ("CPUExecutionProvider", "embedded") in {(each["ep"], each["backend"]) for each in listed["ep_devices"]}
    assert ortpkg("devices").code == 0
