"""convert: one package in every generation of the format, and back, with nothing lost."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from ortpkg.authoring.convert import convert
from ortpkg.authoring.create import add_variant, create, init_package
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import (
    AuthoringError,
    DigestMismatchError,
    PackageFormatError,
    Severity,
    UsageError,
)
from ortpkg.package.integrity.asset_digest import listing_digest
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.package_info import PackageFormat
from ortpkg.package.paths.asset_reference import asset_folder_name
from ortpkg.package.reader import open_package
from ortpkg.package.sidecar import DIGESTS_FILE
from tests.authoring.conftest import ModelMaker
from tests.package.failing_operations import content_of

FORMS = list(PackageFormat)
PAIRS = list(itertools.permutations(FORMS, 2))


@pytest.fixture
def models(make_model: ModelMaker, make_model_with_data: ModelMaker) -> list[NewVariant]:
    options = {"session.intra_op_num_threads": "2"}
    signature = "(float[batch, 4] x) => (float[batch, 4] y)"
    return [
        NewVariant.for_cpu(make_model("a", signature=signature)),
        NewVariant(
            model=make_model_with_data("big"), ep="cuda", device="gpu", session_options=options
        ),
        NewVariant(
            model=make_model("c"),
            ep="qnn",
            device="npu",
            architecture="v73",
            compatibility_info="key=1",
        ),
        NewVariant(model=make_model("d"), ep="openvino", provider_options={"device_type": "CPU"}),
    ]


def package_of(root: Path, models: list[NewVariant], form: PackageFormat) -> Path:
    create(root, models, name="p", version="1.2", description="says what", form=form)
    (root / "README.md").write_text("what it is")
    (root / DIGESTS_FILE).write_bytes(dump_digests(compute_digests(root)))
    return root


def errors_of(root: Path) -> list[str]:
    return [str(each) for each in validate(root) if each.severity is Severity.ERROR]


def edit(path: Path, **keys: Any) -> None:
    value = json.loads(path.read_bytes())
    path.write_text(json.dumps(value | keys, indent=2) + "\n")


@pytest.mark.requirement("K20")
@pytest.mark.requirement("K24")
@pytest.mark.parametrize(("origin", "target"), PAIRS)
def test_there_and_back_gives_every_byte_again(
    tmp_path: Path, models: list[NewVariant], origin: PackageFormat, target: PackageFormat
) -> None:
    root = package_of(tmp_path / "a", models, origin)

    there = convert(root, target, output=tmp_path / "b")
    convert(there.root, origin, output=tmp_path / "c")

    assert there.format is target
    assert errors_of(there.root) == []
    assert content_of(tmp_path / "c") == content_of(root)


@pytest.mark.parametrize(("origin", "target"), PAIRS)
def test_says_the_same_in_every_format(
    tmp_path: Path, models: list[NewVariant], origin: PackageFormat, target: PackageFormat
) -> None:
    before = open_package(package_of(tmp_path / "a", models, origin))

    after = convert(before.root, target, output=tmp_path / "b")

    for what in ("name", "version", "description", "inputs", "outputs"):
        assert getattr(after, what) == getattr(before, what), what
    for ours, theirs in zip(
        before.components[0].variants, after.components[0].variants, strict=True
    ):
        for what in ("name", "constraints", "session_options", "provider_options", "metadata"):
            assert getattr(theirs, what) == getattr(ours, what), what
        assert ours.model_path is not None
        assert theirs.model_path == after.root / ours.model_path.relative_to(before.root)


@pytest.mark.parametrize(("origin", "target"), PAIRS)
def test_in_place_gives_what_a_new_package_would_have(
    tmp_path: Path, models: list[NewVariant], origin: PackageFormat, target: PackageFormat
) -> None:
    root = package_of(tmp_path / "a", models, origin)
    convert(root, target, output=tmp_path / "b")

    convert(root, target)

    assert content_of(root) == content_of(tmp_path / "b")


def test_a_fresh_package_of_a_format_is_what_converting_to_it_makes(
    tmp_path: Path, models: list[NewVariant]
) -> None:
    fresh = content_of(create(tmp_path / "fresh", models, form="component").root)

    convert(create(tmp_path / "a", models, name="fresh").root, "component")

    assert content_of(tmp_path / "a") == fresh


# COMPONENT refuses such keys
@pytest.mark.parametrize("origin", [PackageFormat.UNIVERSAL, PackageFormat.METADATA])
def test_keys_that_nobody_knows_come_back(
    tmp_path: Path, models: list[NewVariant], origin: PackageFormat
) -> None:
    root = package_of(tmp_path / "a", models, origin)
    document = root / "models/model/metadata.json"
    variants = json.loads(document.read_bytes())["model_variants"]
    variants["a"] |= {"model_type": "cnn", "x-mine": [1, None]}
    variants["c"]["constraints"]["x-mine"] = 1
    edit(
        document,
        model_variants=variants,
        **{"x-mine": {"k": 0}, "additional_metadata": {"who": "me"}},
    )
    edit(root / "manifest.json", **{"x-mine": "m", "additional_metadata": ["list"]})
    before = {
        path: json.loads((root / path).read_bytes())
        for path in ("manifest.json", "models/model/metadata.json")
    }
    (root / "digests.json").unlink()

    convert(root, "component")
    assert errors_of(root) == []
    convert(root, origin)

    assert {path: json.loads((root / path).read_bytes()) for path in before} == before


def test_folders_of_a_foreign_package_move_to_where_every_release_looks(
    tmp_path: Path, make_model: ModelMaker, make_model_with_data: ModelMaker
) -> None:
    root = tmp_path / "foreign"
    (root / "parts/gpu").mkdir(parents=True)
    shutil.copytree(make_model_with_data("big").parent, root / "weights_and_model")
    shutil.copy(make_model("a"), root / "parts/gpu/net.onnx")
    weights = root / "weights_and_model/weights.bin"
    uri = listing_digest({"weights.bin": hashlib.sha256(weights.read_bytes()).hexdigest()})
    asset = root / "shared_assets" / asset_folder_name(uri)
    asset.mkdir(parents=True)
    shutil.move(weights, asset / "weights.bin")
    options = {"session.model_external_initializers_file_folder_path": uri}
    ort = {"model_file": "big.onnx", "session_options": options, "custom": 1}
    variants = {
        "cpu": {
            "variant_directory": "weights_and_model",
            "ep": "CPUExecutionProvider",
            "executor_info": {"ort": ort, "genai": {"k": 1}},
        },
        "gpu": {
            "variant_directory": "parts/gpu",
            "ep": "CUDAExecutionProvider",
            "device": "GPU",
            "executor_info": {"ort": {"model_file": "net.onnx"}},
        },
    }
    manifest = {
        "schema_version": "1.0",
        "package_name": "f",
        "components": {"net": {"variants": variants}},
    }
    (root / "manifest.json").write_text(json.dumps(manifest))

    info = convert(root, "universal", output=tmp_path / "out")

    cpu, gpu = info.components[0].variants
    assert cpu.directory == info.root / "models/net/cpu"
    assert sorted(path.name for path in cpu.directory.iterdir()) == ["big.onnx", "weights.bin"]
    assert cpu.session_options == {}
    assert cpu.executor_info["genai"] == {"k": 1}
    assert cpu.executor_info["ort"] == {"model_file": "big.onnx", "custom": 1}
    assert gpu.model_path == info.root / "models/net/gpu/net.onnx"
    assert errors_of(info.root) == []
    assert not (info.root / "parts").exists()


def test_refuses_what_the_target_cannot_mean_all_at_once(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = init_package(tmp_path / "p", form="metadata").root
    options = {"session.enable_profiling": "1", "session.optimized_model_filepath": "x"}
    add_variant(root, make_model("a"), ep="cpu", session_options=options)

    with pytest.raises(
        AuthoringError,
        match=r"cannot say all of this .*enable_profiling.*; .*optimized_model_filepath",
    ):
        convert(root, "component")
    notes: list[str] = []
    convert(root, "component", force=True, notify=notes.append)

    assert len(notes) == 2
    assert open_package(root).components[0].variants[0].session_options == {}


def test_names_the_file_that_is_damaged(tmp_path: Path, models: list[NewVariant]) -> None:
    root = create(tmp_path / "a", models).root
    weights = root / "models/model/big/weights.bin"
    content = bytearray(weights.read_bytes())
    content[5] ^= 1
    weights.write_bytes(content)

    with pytest.raises(
        DigestMismatchError,
        match=r"is damaged, and nothing was copied: 'models/model/big/weights.bin'",
    ):
        convert(root, "component", output=tmp_path / "b")

    assert not (tmp_path / "b").exists()


def test_refuses_the_format_that_it_has_and_one_that_is_none(
    tmp_path: Path, models: list[NewVariant]
) -> None:
    root = create(tmp_path / "a", models).root

    with pytest.raises(AuthoringError, match="is a universal package already"):
        convert(root, "universal")
    with pytest.raises(
        UsageError, match=r"format 'universl' is none of .*did you mean 'universal'"
    ):
        convert(root, "universl")


def test_a_component_on_its_own_becomes_a_package(tmp_path: Path, models: list[NewVariant]) -> None:
    root = create(tmp_path / "a", models).root / "models/model"

    info = convert(root, "universal", output=tmp_path / "b", notify=lambda _: None)

    assert [each.name for each in info.components[0].variants] == ["a", "big", "c", "d"]
    with pytest.raises(UsageError, match="component model on its own"):
        convert(root, "component", notify=lambda _: None)


def test_the_drafts_become_what_was_released(tmp_path: Path, make_model: ModelMaker) -> None:
    root = tmp_path / "draft"
    (root / "models/c/v").mkdir(parents=True)
    shutil.copy(make_model("a"), root / "models/c/v/a.onnx")
    variants = {"v": {"file": "a.onnx", "constraints": {"ep": "CPUExecutionProvider", "x-mine": 1}}}
    manifest = {"model_name": "d", "component_models": {"c": {"model_variants": variants}}}
    (root / "manifest.json").write_text(json.dumps(manifest))

    info = convert(root, "metadata", notify=lambda _: None)

    assert json.loads((info.root / "manifest.json").read_bytes())["component_models"] == ["c"]
    assert (
        json.loads((info.root / "models/c/metadata.json").read_bytes())["model_variants"]["v"][
            "model_file"
        ]
        == "a.onnx"
    )


@pytest.mark.parametrize("form", [PackageFormat.COMPONENT, PackageFormat.UNIVERSAL])
def test_a_name_that_only_the_metadata_generation_can_have_stops_it(
    tmp_path: Path, make_model: ModelMaker, form: PackageFormat
) -> None:
    """In place, too: nothing is changed."""
    root = tmp_path / "p"
    (root / "models/c/phi_1").mkdir(parents=True)
    (root / "models/c/phi_1/model.onnx").write_bytes(make_model("m").read_bytes())
    metadata = {"model_variants": {"phi:1": {"model_id": "phi:1", "constraints": {}}}}
    (root / "models/c/metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    (root / "manifest.json").write_text('{"model_name": "m"}', encoding="utf-8")

    with pytest.raises(
        AuthoringError, match="variant 'phi:1' of 'c' holds ':', which Windows does not allow"
    ):
        convert(root, form, notify=lambda _: None)
    assert open_package(root).components[0].variants[0].name == "phi:1"


@pytest.mark.parametrize("in_place", [True, False], ids=["in-place", "new"])
def test_a_damaged_record_is_believed_by_nobody(
    tmp_path: Path, models: list[NewVariant], in_place: bool
) -> None:
    root = package_of(tmp_path / "p", models, PackageFormat.UNIVERSAL)
    whole = (root / DIGESTS_FILE).read_text()
    (root / DIGESTS_FILE).write_text(whole.replace(json.loads(whole)["package"], "0" * 64))

    with pytest.raises(
        DigestMismatchError, match="its entries do not add up to the package digest that it states"
    ):
        convert(root, "component", output=None if in_place else tmp_path / "new")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are Unicode there")
def test_a_name_that_is_no_text_is_told_in_a_sentence(
    tmp_path: Path, models: list[NewVariant]
) -> None:
    root = package_of(tmp_path / "p", models, PackageFormat.UNIVERSAL)
    (root / DIGESTS_FILE).unlink()
    Path(os.fsdecode(os.fsencode(root) + b"/x\xff")).touch()

    with pytest.raises(
        PackageFormatError, match=r"'x\\udcff' is not well-formed Unicode \(rename the file\)"
    ):
        convert(root, "component", output=tmp_path / "new")
    assert not (tmp_path / "new").exists()
