"""select, inspect and devices on the sample package."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.machine.machine import Machine
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.providers import machine_offer as machine
from ortpkg.selection.choosing import package_selection
from ortpkg.selection.measuring import record_store
from ortpkg.selection.measuring.package_digest import package_digest
from tests.cli.conftest import DIGITS, RunCommand


def test_select_prints_the_variant_and_where_it_lies(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS)
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first.startswith("classifier: cpu-fp32 on CPUExecutionProvider")
    assert second.strip() == str(DIGITS / "models" / "classifier" / "cpu-fp32" / "model.onnx")


def test_select_for_a_device_that_is_not_there_says_why_each_variant_fell(
    ortpkg: RunCommand,
) -> None:
    done = ortpkg("select", DIGITS, "--device", "npu")
    assert done.code == 3
    assert done.out == ""
    for name in ("cpu-fp32", "cpu-int8", "openvino-npu", "openvino-gpu", "cuda"):
        assert f"'{name}'" in done.err


@pytest.mark.requirement("K09", "K12")
def test_provider_options_take_part_and_say_whose_they_are(ortpkg: RunCommand) -> None:
    laptop = ("select", DIGITS, "--profile", "intel-core-ultra-laptop", "--json")
    chosen = ortpkg(*laptop, "--provider-option", "device_type=GPU").json["selections"][0]
    assert chosen["selected"]["variant"] == "openvino-gpu"
    assert chosen["provider_options"] == {"OpenVINOExecutionProvider": {"device_type": "GPU"}}
    assert check_schema(chosen, "selection", document="selection") == ()
    wrong = ortpkg("select", DIGITS, "--provider-option", "threads=1")
    assert wrong.code == 2
    assert "name the execution provider too" in wrong.err


def test_a_run_has_the_provider_options_that_were_asked_for(ortpkg: RunCommand) -> None:
    asked = (
        "run",
        DIGITS,
        "--backend",
        "onnxruntime",
        "--variant",
        "cpu-fp32",
        "--provider-option",
    )
    assert ortpkg(*asked, "use_arena=1", "--ep", "cpu").code == 0
    refused = ortpkg(*asked, "intra_op_num_threads=many", "--ep", "cpu")
    assert refused.code != 0
    assert "intra_op_num_threads" in refused.err


def test_explain_shows_every_variant_with_a_code_even_where_nothing_fits(
    ortpkg: RunCommand,
) -> None:
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
    assert ("CPUExecutionProvider", "embedded") in {
        (each["ep"], each["backend"]) for each in listed["ep_devices"]
    }
    assert ortpkg("devices").code == 0


# --- other machines, limits, logs -----------------------------------------------------------------


def test_several_profiles_give_a_table_with_a_column_for_each(ortpkg: RunCommand) -> None:
    done = ortpkg(
        "select", DIGITS, "--profile", "intel-core-ultra-laptop", "--profile", "plain-server"
    )
    assert done.code == 0
    heading, row = done.out.splitlines()
    assert heading.split() == ["package", "component", "intel-core-ultra-laptop", "plain-server"]
    assert "openvino-npu: OpenVINO on NPU" in row
    assert "cpu-fp32: CPU on CPU" in row
    assert "digits on plain-server: the machine profile 'plain-server' is constructed" in done.err


def test_several_packages_are_rows_and_a_cell_without_a_variant_is_exit_code_3(
    ortpkg: RunCommand, model: Callable[..., Path], tmp_path: Path
) -> None:
    package = tmp_path / "gpu-only.ortpackage"
    ortpkg("create", package, "--gpu", model())
    done = ortpkg(
        "select", DIGITS, package, "--profile", "plain-server", "--profile", "this-machine"
    )
    assert done.code == 3
    assert [line.split()[0] for line in done.out.splitlines()] == ["package", "digits", "gpu-only"]
    assert done.out.splitlines()[2].count("none: DEVICE_NOT_PRESENT") == 2
    assert "covers a CPU" in done.err


def test_machines_and_packages_of_one_name_are_told_apart_by_their_paths(
    ortpkg: RunCommand, tmp_path: Path
) -> None:
    first, second = tmp_path / "a" / "m.json", tmp_path / "b" / "m.json"
    for path in (first, second):
        path.parent.mkdir()
        ortpkg("devices", "--export", path)
    done = ortpkg("select", DIGITS, DIGITS, "--profile", first, "--profile", second)
    heading, *rows = done.out.splitlines()
    assert heading.split() == ["package", "component", str(first), str(second)]
    assert [row.split()[0] for row in rows] == [str(DIGITS)] * 2


def test_json_has_a_selection_for_every_package_and_machine(ortpkg: RunCommand) -> None:
    done = ortpkg(
        "select", DIGITS, "--profile", "snapdragon-x-laptop", "--profile", "this-machine", "--json"
    )
    found = [(each["package"]["name"], each["machine"]) for each in done.json["selections"]]
    assert found == [("digits", "snapdragon-x-laptop"), ("digits", None)]
    for each in done.json["selections"]:
        assert check_schema(each, "selection", document="selection") == ()


def test_explain_says_which_machine_it_is_about(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS, "--profile", "intel-core-ultra-laptop", "--explain")
    assert done.out.startswith(
        "component 'classifier' on machine 'intel-core-ultra-laptop': 'openvino-npu' on "
    )


def test_a_profile_that_is_none_is_a_usage_error_that_says_where(
    ortpkg: RunCommand, tmp_path: Path
) -> None:
    broken = tmp_path / "m.json"
    broken.write_text('{"kind": "machine_profile"}', encoding="utf-8")
    assert "snapdragon-x-laptop" in ortpkg("select", DIGITS, "--profile", "snapdragon").err
    done = ortpkg("select", DIGITS, "--profile", broken)
    assert (done.code, done.out) == (2, "")
    assert "m.json" in done.err


def test_limits_choose_and_explain(ortpkg: RunCommand) -> None:
    chosen = ortpkg(
        "select",
        DIGITS,
        "--max-size",
        "50kB",
        "--where",
        "quantization=int8",
        "--min-precision",
        "int8",
    )
    assert chosen.out.startswith("classifier: cpu-int8 on ")
    done = ortpkg("select", DIGITS, "--max-size", "30kB", "--explain")
    assert done.code == 3
    assert (
        "SIZE_TOO_LARGE  'cpu-int8': its files have 34.0 kB; at most 30.0 kB was asked for"
        in done.out
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--max-size", "big"],
            "max-size is no size: 'big'; write e.g. 500MB, 2GB or 1.5GiB; a number alone is bytes",
        ),
        (["--max-memory", "-1"], "max-memory is no size"),
        (["--max-latency", "soon"], "max-latency is no duration"),
        (["--min-precision", "fp17"], "did you mean 'fp1"),
        (["--where", "quantisation=int8"], "did you mean 'quantization'?"),
        (["--where", "quantization"], "KEY=VALUE"),
        (["--policy", "mesured"], "did you mean 'measured'?"),
        (["--compare", "--profile", "plain-server", "--profile", "this-machine"], "one machine"),
        (["--log-json", "-", "--json"], "standard output"),
        (["--log-json", "/nowhere/log.json"], "cannot write '/nowhere/log.json'"),
    ],
)
def test_a_wrong_wish_is_a_usage_error_that_says_what_would_be_right(
    ortpkg: RunCommand, words: list[str], message: str
) -> None:
    done = ortpkg("select", DIGITS, *words)
    assert done.code == 2
    assert message in done.err


def test_decisions_are_appended_to_a_log(ortpkg: RunCommand, tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    assert ortpkg("select", DIGITS, "--log-json", log).code == 0
    assert ortpkg("select", DIGITS, "--device", "npu", "--log-json", log).code == 3
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [record["kind"] for record in records] == ["selection_decision"] * 2
    assert records[0]["selection"]["selected"]["variant"] == "cpu-fp32"
    assert (records[1]["selection"]["selected"], records[1]["selection"]["device"]) == (None, "npu")


def test_a_decision_can_be_printed_instead(ortpkg: RunCommand) -> None:
    first, *_ = ortpkg("select", DIGITS, "--log-json", "-").out.splitlines()
    assert json.loads(first)["package"]["name"] == "digits"


def test_what_is_compared_with_releases_can_be_another_machine(ortpkg: RunCommand) -> None:
    done = ortpkg("select", DIGITS, "--compare", "--profile", "intel-core-ultra-laptop")
    assert done.code == 0
    assert "openvino-npu" in done.out


def test_many_components_ask_the_machine_and_read_its_records_once(
    tmp_path: Path, ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "p.ortpackage"
    variants = {
        "v": {"ep": "CPUExecutionProvider", "executor_info": {"ort": {"model_file": "m.onnx"}}}
    }
    for name in "abc":
        (root / name / "v").mkdir(parents=True)
        shutil.copy(next(DIGITS.rglob("*.onnx")), root / name / "v" / "m.onnx")
        (root / name / "component.json").write_text(json.dumps({"variants": variants}))
    components = {name: name for name in "abc"}
    (root / "manifest.json").write_text(
        json.dumps({"schema_version": "1.0", "components": components})
    )
    asked: list[None] = []
    real = probe

    def counted() -> Machine:
        asked.append(None)
        return real()

    digested: list[Path] = []

    def digest_of(found: Path) -> str:
        digested.append(found)
        return package_digest(found)

    monkeypatch.setattr(machine, "probe", counted)
    monkeypatch.setattr(package_selection, "has_records", lambda: True)
    monkeypatch.setattr(record_store, "has_records", lambda: True)
    monkeypatch.setattr(record_store, "package_digest", digest_of)
    assert ortpkg("select", root).code == 0
    assert (len(asked), len(digested)) == (1, 1)


def test_what_is_doubtful_of_the_whole_package_is_said_once(
    ortpkg: RunCommand, tmp_path: Path
) -> None:
    root = tmp_path / "p.ortpackage"
    for name in "abc":
        folder = root / name
        folder.mkdir(parents=True)
        shutil.copyfile(DIGITS / "models/classifier/cpu-fp32/model.onnx", folder / "model.onnx")
        (folder / "component.json").write_text(
            json.dumps({"variants": {"v": {"variant_directory": "."}}})
        )
    content = {"schema_version": "1.0", "components": {name: name for name in "abc"}}
    (root / "manifest.json").write_text(json.dumps(content))

    said = ortpkg("select", root)
    assert [said.code, said.err.count("unverified: the package has no digests.json")] == [0, 1]
