"""validate: one broken package per rule, and what the finding says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ortpkg.authoring.create import add_variant, create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.authoring.rules import AUTHORING_RULES
from ortpkg.package.rules import PACKAGE_RULES
from tests.authoring.conftest import ModelMaker
from tests.package.failing_operations import FailingOperations, Killed

WEIGHTS = "models/model/big/weights.bin"


@pytest.fixture
def package(tmp_path: Path, make_model_with_data: ModelMaker) -> Path:
    return create(tmp_path / "p.ortpackage", [NewVariant.for_cpu(make_model_with_data("big"))]).root


def found(root: Path) -> dict[str, str]:
    """Rule → its findings' texts, but for digests' rules, which nearly all damage sets off."""
    texts: dict[str, str] = {}
    for finding in validate(root):
        if finding.rule not in ("ORT401", "ORT402"):
            texts[finding.rule] = f"{texts.get(finding.rule, '')}{finding}\n"
    return texts


def exchange_weights_with_their_digest(root: Path) -> None:
    content = b"x" * (root / WEIGHTS).stat().st_size
    (root / WEIGHTS).write_bytes(content)
    record = json.loads((root / "digests.json").read_text())
    record["files"][WEIGHTS]["digests"] = [hashlib.sha256(content).hexdigest()]
    (root / "digests.json").write_text(json.dumps(record, indent=2) + "\n")


def test_a_good_package_has_no_findings(package: Path) -> None:
    assert validate(package) == ()


@pytest.mark.parametrize(
    ("change", "rule", "message"),
    [
        (
            lambda root: (root / "models/model/big/weights.bin").write_bytes(b"x" * 64),
            "ORT401",
            "are not those recorded",
        ),
        (
            lambda root: (root / "models/model/big/weights.bin").unlink(),
            "ORT402",
            "recorded, but not there",
        ),
        (
            lambda root: (root / "notes.txt").write_text(""),
            "ORT404",
            "notes.txt: there, but not recorded",
        ),
        (
            exchange_weights_with_their_digest,
            "ORT401",
            "digests.json: its entries do not add up to the package digest",
        ),
        (lambda root: (root / "digests.json").unlink(), "ORT405", "the package is unverified"),
        (lambda root: (root / "digests.json").write_text("{}"), "ORT005", "digests.json"),
    ],
)
def test_notices_what_digests_tell(
    package: Path, change: Callable[[Path], object], rule: str, message: str
) -> None:
    change(package)

    assert any(finding.rule == rule and message in str(finding) for finding in validate(package))


def test_notices_a_model_that_is_not_onnx(package: Path) -> None:
    (package / "models/model/big/big.onnx").write_bytes(b"rubbish")

    assert "models/model/metadata.json#/model_variants/big: " in found(package)["ORT110"]


@pytest.mark.parametrize(
    ("content", "rule", "message"),
    [
        (None, "ORT104", "data file 'weights.bin' of tensor 'w' in variant 'big' does not exist"),
        (
            b"abc",
            "ORT105",
            "data file 'weights.bin' of variant 'big' is too short: 3 bytes of 64 needed",
        ),
    ],
)
def test_notices_data_that_is_missing_or_too_short(
    package: Path, content: bytes | None, rule: str, message: str
) -> None:
    data = package / WEIGHTS
    data.unlink()
    if content is not None:
        data.write_bytes(content)

    assert message in found(package)[rule]


def test_notices_variants_that_differ(package: Path, make_model: ModelMaker) -> None:
    add_variant(
        package, make_model("b", signature="(int64[batch, 4] x) => (int64[batch, 4] y)"), force=True
    )

    assert (
        "variant 'b' differs from 'big': input 'x' has the type 'tensor(int64)'"
        in found(package)["ORT120"]
    )


def test_warns_of_dimensions_fixed_at_different_sizes(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    models = [
        make_model(f"b{size}", signature=f"(float[{size}, 4] x) => (float[{size}, 4] y)")
        for size in (1, 8)
    ]
    root = create(tmp_path / "p", [NewVariant.for_cpu(model) for model in models]).root

    assert "'x' has the fixed dimension 8 at axis 0, not 1" in found(root)["ORT121"]


def test_warns_of_overall_values_that_are_not_those_of_the_model(package: Path) -> None:
    manifest = json.loads((package / "manifest.json").read_bytes())
    manifest["inputs"][0]["name"] = "image"
    (package / "manifest.json").write_text(json.dumps(manifest))

    assert (
        "inputs are 'image: tensor(float)', those of the model are 'x: tensor(float)'"
        in found(package)["ORT122"]
    )


def test_notices_a_pipeline_that_feeds_what_the_model_does_not_have(package: Path) -> None:
    pipeline = {
        "schema_version": "1.0",
        "inputs": [{"name": "in", "type": "tensor(float)"}],
        "outputs": [{"name": "out", "type": "tensor(float)"}],
        "steps": [{"component": "model", "inputs": {"image": "in"}, "outputs": {"y": "out"}}],
    }
    (package / "pipeline.json").write_text(json.dumps(pipeline))

    assert "uses the input 'image'; there is 'x: tensor(float)'" in found(package)["ORT501"]


def test_warns_where_no_variant_runs_on_a_cpu(tmp_path: Path, make_model: ModelMaker) -> None:
    root = create(tmp_path / "p", [NewVariant.for_npu(make_model())]).root

    assert "component model 'model' has no variant that runs on a CPU" in found(root)["ORT201"]


def test_notices_a_genai_configuration_that_names_a_missing_file(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    folder = tmp_path / "genai"
    folder.mkdir()
    for name in ("a", "b"):
        make_model(name).rename(folder / f"{name}.onnx")
    config = {
        "model": {"decoder": {"filename": "a.onnx"}, "vision": {"filename": "../escape.onnx"}}
    }
    (folder / "genai_config.json").write_text(json.dumps(config))
    root = create(tmp_path / "p", [NewVariant(model=folder)]).root

    assert (
        "genai_config.json#/model/vision/filename: '../escape.onnx' is not in the variant's"
        in found(root)["ORT602"]
    )


def test_says_that_a_change_was_interrupted(package: Path, make_model: ModelMaker) -> None:
    model = make_model("b")
    for at, message in (
        (("create", "document0"), "was left over by a command that was interrupted"),
        (("replace", "metadata.json"), "a change to 'models/model/metadata.json' was interrupted"),
    ):
        with pytest.raises(Killed):
            add_variant(package, model, operations=FailingOperations(at=at, kill=True))

        assert set(found(package)) == {"ORT406"}
        assert message in found(package)["ORT406"]


def test_rule_ids_are_unique() -> None:
    ids = [rule.id for rule in (*PACKAGE_RULES, *AUTHORING_RULES)]
    assert len(ids) == len(set(ids))


def test_an_alias_of_an_execution_provider_is_checked_as_what_it_means(package: Path) -> None:
    """``validate`` understands what selection does: device, EP and options of the EP."""
    documents = sorted(package.rglob("metadata.json"))
    for document in documents:
        content = json.loads(document.read_text())
        for entry in content["model_variants"].values():
            entry["constraints"] = {"ep": "openvino", "device": "npu"}
            entry["provider_options"] = {"device_type": "GPU"}
            entry.get("metadata", {}).pop("ep", None)
        content.pop("variants", None)
        document.write_text(
            json.dumps({key: content[key] for key in content if key != "schema_version"})
        )
    (package / "manifest.json").write_text(json.dumps({"model_name": "p"}))

    rules = found(package)

    assert "its device_type is 'GPU'" in rules["ORT206"]
    assert not [text for text in rules.values() if "sets 'device_type'" in text]
