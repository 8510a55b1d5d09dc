"""Weights in content-addressed shared assets, on request (component generation)."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.external_data_helper import load_external_data_for_model
from onnx.reference import ReferenceEvaluator

from ortpkg.api.model_package import ModelPackage
from ortpkg.authoring.create import add_variant, create, remove_variant
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.authoring.sharing.dedup import dedup
from ortpkg.foundations.errors import AuthoringError, Severity, UsageError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import hash_file
from ortpkg.package.derived_variants import derivation_of, recorded_digests, stale_variants
from ortpkg.package.integrity.asset_digest import directory_digest
from ortpkg.package.integrity.digest_check import check_digests
from ortpkg.package.reader import open_package
from tests.authoring.weight_models import Array, make_model, outputs_of, weight
from tests.authoring.weight_models import record as record_digests
from tests.package.failing_operations import OncePerState, content_of, stopped_at_each_operation

OPTION = "session.model_external_initializers_file_folder_path"
WEIGHTS = {"w0": weight(0), "w1": weight(1)}


def no_notes(_: str) -> None:
    """Takes what is notified."""


@pytest.fixture
def models(tmp_path: Path) -> dict[str, Path]:
    """``b`` has the weights of ``a``, packed otherwise.

    ``c`` has one of them and one of its own.
    """
    return {
        "a": make_model(tmp_path / "a", WEIGHTS),
        "b": make_model(
            tmp_path / "b", WEIGHTS, location="data/b.bin", packing=["w1", "w0"], padding=64
        ),
        "c": make_model(tmp_path / "c", {"w0": weight(0), "own": weight(5)}),
    }


@pytest.fixture
def package(tmp_path: Path, models: dict[str, Path]) -> Path:
    variants = [
        NewVariant(model=models[name], name=name, ep=ep)
        for name, ep in (("a", "cpu"), ("b", "openvino"))
    ]
    return create(tmp_path / "p.ortpackage", variants, form="component", notify=no_notes).root


def asset_of(root: Path) -> Path:
    (asset,) = (root / "shared_assets").iterdir()
    return asset


def outputs_with_the_option(root: Path) -> dict[str, Array]:
    """Variant → what onnxruntime computes with the session option that the package states."""
    found = {}
    feeds = {"x": np.linspace(-1, 1, 48, dtype=np.float32).reshape(3, 16)}
    for component in open_package(root).components:
        for variant in component.variants:
            options = onnxruntime.SessionOptions()
            if folder := variant.session_options.get(OPTION):
                options.add_session_config_entry(OPTION, folder)
            session = onnxruntime.InferenceSession(
                variant.model_path, options, providers=["CPUExecutionProvider"]
            )
            found[f"{component.name}/{variant.name}"] = session.run(None, feeds)[0]
    return found


@pytest.mark.requirement("K23")
def test_equal_weights_become_one_asset_however_they_are_packed(
    package: Path, models: dict[str, Path]
) -> None:
    expected = outputs_of(models["a"])[2]
    model_of_a = (package / "models/model/a/model.onnx").read_bytes()

    report = dedup(package, layout="shared-assets")

    asset = asset_of(package)
    assert directory_digest(asset) == "sha256:" + asset.name.removeprefix("sha256-")
    assert [path.name for path in asset.iterdir()] == ["weights.bin"]
    assert report.saved_nbytes > 2 * 1024
    assert (package / "models/model/a/model.onnx").read_bytes() == model_of_a
    assert not list((package / "models").rglob("*.bin"))
    for output in outputs_with_the_option(package).values():
        np.testing.assert_array_equal(output, expected)
    assert check_digests(package) == ()
    assert [str(each) for each in validate(package) if each.severity is Severity.ERROR] == []
    assert dedup(package, layout="shared-assets").moved == ()


def test_our_engine_and_the_onnx_package_read_them(package: Path, models: dict[str, Path]) -> None:
    expected = outputs_of(models["a"])[0]
    feeds = {"x": np.linspace(-1, 1, 48, dtype=np.float32).reshape(3, 16)}
    dedup(package, layout="shared-assets")
    asset = asset_of(package)

    session = ModelPackage(package).best_variant(variant="a").create_session(backend="embedded")
    np.testing.assert_array_equal(session.run(None, feeds)[0], expected)
    for variant in open_package(package).components[0].variants:
        assert variant.model_path is not None
        model = onnx.load(variant.model_path, load_external_data=False)
        load_external_data_for_model(model, str(asset))
        np.testing.assert_allclose(
            ReferenceEvaluator(model).run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5
        )


def test_who_has_weights_of_its_own_is_left_out_with_the_reason(
    package: Path, models: dict[str, Path]
) -> None:
    add_variant(package, models["c"], variant="c", ep="cuda", notify=no_notes)

    report = dedup(package, layout="shared-assets")

    assert [(each.variant, each.reason) for each in report.left_out] == [
        (
            "c",
            (
                "it has other weights too, and a shared asset holds all of a model's data files or"
                " none"
            ),
        )
    ]
    assert (package / "models/model/c/weights.bin").is_file()


def test_components_share_an_asset_and_later_variants_join_it(
    package: Path, models: dict[str, Path]
) -> None:
    add_variant(package, models["a"], component="other", variant="a", ep="cpu", notify=no_notes)
    dedup(package, layout="shared-assets")
    before = asset_of(package)
    told: list[str] = []

    joining = partial(add_variant, package, models["b"], component="other", variant="n", ep="qnn")
    joining(share_weights="shared-assets", notify=told.append)

    assert asset_of(package) == before
    assert any("variant 'n' shares its weights: 2" in each for each in told)
    assert len({output.tobytes() for output in outputs_with_the_option(package).values()}) == 1
    assert len(outputs_with_the_option(package)) == 4


def test_equal_weights_that_cannot_be_shared_are_not_denied(
    package: Path, models: dict[str, Path]
) -> None:
    remove_variant(package, "a")
    add_variant(
        package, models["b"], variant="joined", ep="qnn", share_weights=True, notify=no_notes
    )
    told: list[str] = []

    add_variant(
        package,
        models["b"],
        variant="n",
        ep="dml",
        share_weights="shared-assets",
        notify=told.append,
    )

    reason = "has the same, but its folder is that of another variant too"
    assert [text for text in told if "shares" in text] == [
        f"variant 'n' shares no weights: variant 'b' {reason}"
    ]


def test_an_asset_goes_with_the_last_variant_that_uses_it(
    package: Path, models: dict[str, Path]
) -> None:
    add_variant(package, models["c"], variant="c", ep="cuda", notify=no_notes)
    dedup(package, layout="shared-assets")

    remove_variant(package, "a")
    assert asset_of(package).is_dir()
    remove_variant(package, "b")

    assert not (package / "shared_assets").exists()
    assert check_digests(package) == ()


def test_a_package_of_another_format_is_refused(tmp_path: Path, models: dict[str, Path]) -> None:
    root = create(tmp_path / "u.ortpackage", [NewVariant.for_cpu(models["a"])]).root

    with pytest.raises(
        UsageError, match="shared assets mean nothing in a universal package: convert it first"
    ):
        dedup(root, layout="shared-assets")
    with pytest.raises(UsageError, match="shared assets mean nothing in a universal package"):
        add_variant(root, models["b"], share_weights="shared-assets")


def test_an_asset_that_is_there_and_damaged_is_not_used(package: Path) -> None:
    dedup(package, layout="shared-assets", dry_run=True)
    assert not (package / "shared_assets").exists()
    uri = "sha256-" + dedup_uri(package)
    (package / "shared_assets" / uri).mkdir(parents=True)
    (package / "shared_assets" / uri / "weights.bin").write_bytes(b"other")

    with pytest.raises(AuthoringError, match="is damaged: its content is not what its name says"):
        dedup(package, layout="shared-assets")


def dedup_uri(package: Path) -> str:
    """The hex of the asset that the package's weights would become."""
    report = dedup(package, layout="shared-assets", dry_run=True)
    (added,) = [file for file in report.added if file.startswith("shared_assets/")]
    return added.split("/")[1].removeprefix("sha256-")


def test_a_variant_compiled_from_a_model_that_is_rewritten_does_not_become_stale(
    package: Path, models: dict[str, Path]
) -> None:
    add_variant(package, models["c"], variant="c", ep="cuda", notify=no_notes)
    source = package / "models/model/b"
    record = {
        "variant": "b",
        "model": hash_file(source / "model.onnx").sha256,
        "data": {"data/b.bin": hash_file(source / "data/b.bin").sha256},
    }
    document = package / "models/model/component.json"
    component = json.loads(document.read_bytes())
    metadata = component["variants"]["c"].setdefault("additional_metadata", {})
    metadata.setdefault("ortpkg", {})["metadata"] = {"derived_from": record}
    document.write_text(json.dumps(component))
    record_digests(package)
    assert stale_of(package) == {}

    dedup(package, layout="shared-assets")

    assert (source / "model-2.onnx").is_file()
    assert stale_of(package) == {}
    assert check_digests(package) == ()


def stale_of(package: Path) -> dict[str, str]:
    info = open_package(package)
    (component,) = info.components
    derived = component.variant("c")
    assert derived is not None
    assert derivation_of(derived) is not None
    return stale_variants(component, recorded_digests(info))


@pytest.mark.sampled(2)
@pytest.mark.requirement("K18")
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "full disk"])
def test_stopped_at_any_file_operation_every_variant_still_loads(
    tmp_path: Path, package: Path, kill: bool
) -> None:
    whole = Path(shutil.copytree(package, tmp_path / "whole"))
    dedup(whole, layout="shared-assets")
    new, expected = content_of(whole), outputs_with_the_option(package)

    def command(root: Path, operations: FileOperations) -> object:
        return dedup(root, layout="shared-assets", operations=operations)

    def completed(root: Path) -> dict[str, bytes]:
        found = outputs_with_the_option(root)
        assert all(np.array_equal(found[name], expected[name]) for name in expected)
        command(root, FileOperations())
        return content_of(root)

    content_when_completed = OncePerState(completed)
    for root, is_done in stopped_at_each_operation(
        package, tmp_path / "stopped", command, kill=kill
    ):
        assert (content_of(root) if is_done else content_when_completed(root)) == new


def test_the_session_option_stands_beside_others(package: Path, models: dict[str, Path]) -> None:
    add_variant(
        package,
        models["a"],
        variant="n",
        ep="qnn",
        session_options={"session.use_env_allocators": "1"},
        notify=no_notes,
    )

    dedup(package, layout="shared-assets")

    body = json.loads((package / "models/model/component.json").read_bytes())["variants"]["n"]
    assert body["executor_info"]["ort"]["session_options"] == {
        "session.use_env_allocators": "1",
        OPTION: "sha256:" + asset_of(package).name.removeprefix("sha256-"),
    }
