"""validate and explain, as authors and code scanning services use them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import onnx.parser
import pytest

from ortpkg.authoring.rule_registry import RULES
from tests.cli.conftest import RunCommand

MakeModel = Callable[..., Path]

#: The part of the standard that we write: tests/data/sarif/README.md.
SARIF_SCHEMA = json.loads(
    (Path(__file__).parents[1] / "data/sarif/subset-2.1.0.schema.json").read_bytes()
)


@pytest.fixture
def package(ortpkg: RunCommand, model: MakeModel, tmp_path: Path) -> Path:
    """A package for the CPU with two findings: an unrecorded file, and a reserved name."""
    root = tmp_path / "p.ortpackage"
    assert ortpkg("create", root, "--cpu", model()).code == 0
    (root / "notes é.txt").write_text("", encoding="utf-8")
    metadata = root / "models/model/metadata.json"
    document = json.loads(metadata.read_text(encoding="utf-8"))
    document["model_variants"]["double"]["constraints"]["device"] = "gpu"
    document.pop("variants", None)
    metadata.write_text(json.dumps(document, indent=2), encoding="utf-8")
    manifest = root / "manifest.json"
    manifest.write_text(
        json.dumps({"model_name": "p", "component_models": ["model"]}), encoding="utf-8"
    )
    assert ortpkg("verify", root, "--record").code == 0
    (root / "more.txt").write_text("", encoding="utf-8")
    return root


def rules(done: Any) -> list[str]:
    return [finding["rule"] for finding in done.json["findings"]]


def test_findings_can_be_selected_and_ignored(ortpkg: RunCommand, package: Path) -> None:
    assert rules(ortpkg("validate", package, "--json")) == ["ORT201", "ORT205", "ORT404"]
    assert rules(ortpkg("validate", package, "--json", "--select", "ORT1,ORT205")) == ["ORT205"]
    assert (
        rules(ortpkg("validate", package, "--json", "--ignore", "ORT2", "--ignore", "ORT404")) == []
    )
    assert ortpkg("validate", package, "--strict").code == 1
    assert ortpkg("validate", package, "--strict", "--ignore", "ORT2,ORT404").code == 0


def test_what_keeps_a_package_from_being_opened_cannot_be_ignored(
    ortpkg: RunCommand, package: Path
) -> None:
    (package / "manifest.json").write_text("{", encoding="utf-8")

    done = ortpkg("validate", package, "--ignore", "ORT", "--json")
    assert (done.code, rules(done)) == (4, ["ORT003"])


def test_a_target_says_what_its_reader_would_do(ortpkg: RunCommand, package: Path) -> None:
    done = ortpkg(
        "validate",
        package,
        "--target",
        "onnxruntime-1.31",
        "--target",
        "onnxruntime-1.27",
        "--select",
        "ORT7",
    )

    assert done.code == 4
    assert (
        "ORT701 error for onnxruntime-1.31: manifest.json: onnxruntime 1.31 refuses the package"
        in done.out
    )
    assert (
        "ORT702 warning for onnxruntime-1.27: models/model/metadata.json#/model_variants/double: "
        in done.out
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--select", "OTR101"], "there is no rule 'OTR101' (did you mean 'ORT101'?)"),
        (
            ["--target", "onnxruntime-1.3"],
            "there is no target 'onnxruntime-1.3' (did you mean 'onnxruntime-1.32'?)",
        ),
        (["--format", "sarif", "--json"], "--json means --format json"),
    ],
)
def test_a_wrong_option_is_a_usage_error(
    ortpkg: RunCommand, package: Path, words: list[str], message: str
) -> None:
    done = ortpkg("validate", package, *words)
    assert done.code == 2
    assert message in done.err


def test_errors_are_json_where_json_was_asked_for(ortpkg: RunCommand, tmp_path: Path) -> None:
    for words in (["--json"], ["--format", "json"]):
        assert (
            ortpkg("validate", tmp_path / "nowhere", *words).json["error"]["type"]
            == "PackageNotFoundError"
        )


def check_sarif(log: Any) -> None:
    jsonschema.Draft202012Validator(
        SARIF_SCHEMA, format_checker=jsonschema.FormatChecker()
    ).validate(log)
    (run,) = log["runs"]
    for base in run["originalUriBaseIds"].values():
        assert base["uri"].startswith("file:///")
        assert base["uri"].endswith("/")


def test_sarif_has_what_its_consumers_rely_on(ortpkg: RunCommand, package: Path) -> None:
    (package / "notes é.txt").write_text("changed", encoding="utf-8")
    done = ortpkg("validate", package, "--format", "sarif", "--target", "onnxruntime-1.31")

    log = done.json
    check_sarif(log)
    (run,) = log["runs"]
    described = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [described[result["ruleIndex"]] for result in run["results"]] == [
        each["ruleId"] for each in run["results"]
    ]
    assert described == sorted({each["ruleId"] for each in run["results"]})
    by_rule = {each["ruleId"]: each for each in run["results"]}
    assert (
        by_rule["ORT401"]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        == "notes%20%C3%A9.txt"
    )
    assert by_rule["ORT701"]["properties"] == {"target": "onnxruntime-1.31"}
    (place,) = by_rule["ORT205"]["locations"]
    assert place["logicalLocations"] == [
        {"fullyQualifiedName": "/model_variants/double", "kind": "member"}
    ]
    lines = (package / "models/model/metadata.json").read_text(encoding="utf-8").splitlines()
    region = place["physicalLocation"]["region"]
    assert lines[region["startLine"] - 1][region["startColumn"] - 1 :].startswith('"double": {')


def test_sarif_of_a_package_that_cannot_be_read(ortpkg: RunCommand, package: Path) -> None:
    (package / "manifest.json").write_text(
        '{"a": 1, "a": 2, "name": "\\u001b[31m"', encoding="utf-8"
    )

    log = ortpkg("validate", package, "--format", "sarif").json

    check_sarif(log)
    assert [result["level"] for result in log["runs"][0]["results"]] == ["error"]


def test_the_schema_of_sarif_is_closed(ortpkg: RunCommand, package: Path) -> None:
    log = ortpkg("validate", package, "--format", "sarif", "--target", "onnxruntime-1.31").json
    (run,) = log["runs"]

    wrong_level = {**run["results"][0], "level": "fatal"}
    changes: list[dict[str, Any]] = [
        {"resultz": []},
        {"columnKind": "bytes"},
        {"results": [wrong_level]},
    ]
    for change in changes:
        with pytest.raises(jsonschema.ValidationError):
            check_sarif({**log, "runs": [{**run, **change}]})


def test_sarif_of_a_package_without_findings_has_no_results(
    ortpkg: RunCommand, package: Path
) -> None:
    log = ortpkg("validate", package, "--format", "sarif", "--select", "ORT1").json
    check_sarif(log)
    assert log["runs"][0]["results"] == []


def test_a_fingerprint_survives_a_change_elsewhere_in_the_document(
    ortpkg: RunCommand, package: Path
) -> None:
    def fingerprint() -> tuple[str, int]:
        (result,) = ortpkg("validate", package, "--format", "sarif", "--select", "ORT205").json[
            "runs"
        ][0]["results"]
        line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
        return result["partialFingerprints"]["ortpkgFinding/v1"], line

    before, line = fingerprint()
    metadata = package / "models/model/metadata.json"
    metadata.write_text("\n\n" + metadata.read_text(encoding="utf-8"), encoding="utf-8")
    assert fingerprint() == (before, line + 2)


def test_explain_says_why_and_what_to_do(ortpkg: RunCommand) -> None:
    done = ortpkg("explain", "ort101")
    assert done.code == 0
    assert done.out.startswith("ORT101 (error): External data stays in the model's folder\n")
    for heading in ("Why it matters", "Example", "What to do"):
        assert f"\n{heading}\n    " in done.out
    assert ortpkg("explain", "ORT610").out.splitlines()[1] == "only with --target genai"


def test_explain_without_a_rule_lists_all(ortpkg: RunCommand) -> None:
    listed = [line.split()[0] for line in ortpkg("explain").out.splitlines()[1:]]
    assert listed == list(RULES)
    assert [rule["id"] for rule in ortpkg("explain", "--json").json["rules"]] == list(RULES)


def test_explain_as_json_has_all_of_a_rule(ortpkg: RunCommand) -> None:
    rule = ortpkg("explain", "ORT101", "--json").json
    assert {
        "id",
        "title",
        "severity",
        "explanation",
        "example",
        "remedy",
        "formats",
        "targets",
    } <= rule.keys()


def test_explain_suggests_a_rule_for_a_mistyped_one(ortpkg: RunCommand) -> None:
    done = ortpkg("explain", "OTR101")
    assert done.code == 2
    assert "there is no rule 'OTR101' (did you mean 'ORT101'?)" in done.err


def test_operators_of_a_bare_model_are_looked_at(ortpkg: RunCommand, tmp_path: Path) -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]> g (float[1] x) => (float[1] y) {'
        " %s }"
    )
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text % "a = NoSuchOp(x) y = com.acme.Frob(a)"), path)
    done = ortpkg("validate", path)
    assert done.code == 4
    assert "has no definition of 'ai.onnx:NoSuchOp' of opset 17" in done.out + done.err
    assert "needs the operator 'com.acme:Frob', which no known library has" in done.out + done.err
