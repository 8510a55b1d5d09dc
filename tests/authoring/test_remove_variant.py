"""remove_variant: the variant and what only it used go, everything else stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ortpkg.authoring.create import add_variant, create, init_package, remove_variant
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import AuthoringError, UnknownComponentError
from ortpkg.package.package_info import PackageFormat
from tests.authoring.conftest import ModelMaker
from tests.package.failing_operations import content_of


@pytest.fixture(params=list(PackageFormat))
def form(request: pytest.FixtureRequest) -> PackageFormat:
    return PackageFormat(request.param)


@pytest.fixture
def package(tmp_path: Path, make_model: ModelMaker, form: PackageFormat) -> Path:
    models = [NewVariant.for_cpu(make_model("a")), NewVariant.for_gpu(make_model("b"))]
    return create(tmp_path / "p.ortpackage", models, form=form).root


only_metadata = pytest.mark.parametrize("form", [PackageFormat.METADATA], indirect=True)
only_universal = pytest.mark.parametrize("form", [PackageFormat.UNIVERSAL], indirect=True)


@pytest.mark.requirement("K18")
def test_undoes_what_add_variant_did(package: Path, make_model_with_data: ModelMaker) -> None:
    before = content_of(package)
    add_variant(package, make_model_with_data("big"))

    remove_variant(package, "big")

    assert content_of(package) == before
    assert not (package / "models/model/big").exists()


def test_the_last_variant_takes_its_component_along(
    package: Path, tmp_path: Path, form: PackageFormat
) -> None:
    remove_variant(package, "a")

    info = remove_variant(package, "b")

    assert info.components == ()
    assert content_of(package) == content_of(
        init_package(tmp_path / "empty", name="p", form=form).root
    )


@only_metadata
def test_a_component_that_was_discovered_leaves_the_others_listed(
    package: Path, make_model: ModelMaker
) -> None:
    add_variant(package, make_model("c"), component="second")
    manifest = json.loads((package / "manifest.json").read_bytes())
    del manifest["component_models"]
    (package / "manifest.json").write_text(json.dumps(manifest))

    info = remove_variant(package, "c", component="second")

    assert [component.name for component in info.components] == ["model"]
    assert not (package / "models/second").exists()


@only_metadata
@pytest.mark.requirement("K06")
@pytest.mark.parametrize("where", ["manifest", "both", "file in the manifest only"])
def test_a_variant_goes_from_every_document_that_has_it(package: Path, where: str) -> None:
    manifest = json.loads((package / "manifest.json").read_bytes())
    metadata = json.loads((package / "models/model/metadata.json").read_bytes())
    manifest["component_models"] = {
        "model": {"model_variants": {"b": dict(metadata["model_variants"]["b"])}}
    }
    if where == "manifest":
        del metadata["model_variants"]["b"]
    elif where == "file in the manifest only":
        del metadata["model_variants"]["b"]["model_file"]
    (package / "manifest.json").write_text(json.dumps(manifest))
    (package / "models/model/metadata.json").write_text(json.dumps(metadata))

    info = remove_variant(package, "b")

    assert [variant.name for variant in info.components[0].variants] == ["a"]
    assert not (package / "models/model/b").exists()


@pytest.mark.requirement("K23")
def test_files_that_another_variant_uses_stay(
    tmp_path: Path, make_model_with_data: ModelMaker
) -> None:
    model = make_model_with_data("big")
    package = create(tmp_path / "p", [NewVariant.for_cpu(model)], form="metadata").root
    shared = package / "models/model/big"
    shutil.copy(shared / "big.onnx", shared / "second.onnx")
    document = package / "models/model/metadata.json"
    metadata = json.loads(document.read_bytes())
    metadata["model_variants"]["second"] = {"model_id": "big", "model_file": "second.onnx"}
    document.write_text(json.dumps(metadata))

    info = remove_variant(package, "second")

    assert sorted(path.name for path in shared.iterdir()) == ["big.onnx", "weights.bin"]
    assert [variant.name for variant in info.components[0].variants] == ["big"]


@only_universal
def test_refuses_an_unknown_name_with_a_suggestion(package: Path) -> None:
    with pytest.raises(
        UnknownComponentError,
        match=r"component model 'model' has no variant 'aa'.* it has 'a', 'b'",
    ):
        remove_variant(package, "aa")
    with pytest.raises(
        UnknownComponentError, match=r"no component model 'modle' \(did you mean 'model'\?\)"
    ):
        remove_variant(package, "a", component="modle")


@only_universal
def test_refuses_to_guess_among_several_components(package: Path, make_model: ModelMaker) -> None:
    add_variant(package, make_model("c"), component="second")

    with pytest.raises(
        UnknownComponentError, match=r"has 2 component models \('model', 'second'\): name one"
    ):
        remove_variant(package, "a")


def test_refuses_to_take_a_component_that_the_pipeline_uses(package: Path) -> None:
    remove_variant(package, "a")
    pipeline = {
        "schema_version": "1.0",
        "inputs": [{"name": "in", "type": "tensor(float)"}],
        "outputs": [{"name": "out", "type": "tensor(float)"}],
        "steps": [{"component": "model", "inputs": {"x": "in"}, "outputs": {"y": "out"}}],
    }
    (package / "pipeline.json").write_text(json.dumps(pipeline))

    with pytest.raises(
        AuthoringError, match=r"last variant of component model 'model', which pipeline.json uses"
    ):
        remove_variant(package, "b")


def test_a_package_stays_valid(package: Path) -> None:
    remove_variant(package, "b")

    assert validate(package, ignore=["ORT2"]) == ()
