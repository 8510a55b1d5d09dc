"""slim: what is named stays, what nothing refers to goes."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ortpkg.authoring.convert import convert
from ortpkg.authoring.create import add_variant, create, remove_variant
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.authoring.slim import slim
from ortpkg.foundations.errors import (
    AuthoringError,
    DigestMismatchError,
    ResultUnreadableError,
    Severity,
    UnknownComponentError,
    UsageError,
)
from ortpkg.machine.hardware import DeviceType
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES
from ortpkg.package import reader
from ortpkg.package.formats.samples import read_samples
from ortpkg.package.integrity.digest_check import check_digests, compute_digests
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.package_info import PackageFormat, PackageInfo
from tests.authoring.conftest import ModelMaker
from tests.package.failing_operations import content_of


@pytest.fixture(params=list(PackageFormat))
def package(request: pytest.FixtureRequest, tmp_path: Path, make_model: ModelMaker) -> Path:
    models = [
        NewVariant.for_cpu(make_model("cpu")),
        NewVariant(model=make_model("cuda"), ep="cuda", device="gpu"),
        NewVariant(model=make_model("npu"), ep="qnn", device="npu"),
        NewVariant(
            model=make_model("ov"),
            ep="openvino",
            provider_options={"device_type": "HETERO:NPU,CPU"},
        ),
        NewVariant(model=make_model("any")),
    ]
    return create(tmp_path / "p", models, form=request.param).root


def names_of(package: PackageInfo) -> list[str]:
    return [variant.name for component in package.components for variant in component.variants]


def errors_of(root: Path) -> list[str]:
    return [str(each) for each in validate(root) if each.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ({"devices": ["gpu"]}, ["cuda", "any"]),
        ({"devices": ["CPU", "npu"]}, ["cpu", "npu", "ov", "any"]),
        ({"eps": ["openvino", "cpu"]}, ["cpu", "ov", "any"]),
        ({"devices": ["cpu"], "eps": ["openvino"]}, ["ov", "any"]),
        ({"variants": ["npu"]}, ["npu"]),
        ({"devices": ["gpu"], "variants": ["model/cpu"]}, ["cpu", "cuda", "any"]),
    ],
)
def test_keeps_what_suits(package: Path, wanted: dict[str, list[str]], left: list[str]) -> None:
    form = json.loads((package / "manifest.json").read_bytes()).get("schema_version")

    report = slim(package, **wanted)  # type: ignore[arg-type]

    assert names_of(report.package) == left
    assert [each.variant for each in report.variants if each.is_kept] == left
    assert sorted(
        path.name for path in (package / "models/model").iterdir() if path.is_dir()
    ) == sorted(left)
    assert check_digests(package) == ()
    assert json.loads((package / "manifest.json").read_bytes()).get("schema_version") == form


@pytest.mark.parametrize(("ep", "implied"), IMPLIED_DEVICE_TYPES.items())
def test_an_ep_for_one_kind_of_device_goes_unless_that_is_asked_for(
    ep: str, implied: DeviceType, tmp_path: Path, make_model: ModelMaker
) -> None:
    eps = {
        "asked": ep,
        "several": "DmlExecutionProvider",
        "plug-in": "MyExecutionProvider",
        "any": None,
    }
    models = [NewVariant(model=make_model(name), ep=each) for name, each in eps.items()]
    root = create(tmp_path / "p", models, notify=lambda _: None).root

    for device in DeviceType:
        report = slim(root, devices=[device], output=tmp_path / device, notify=lambda _: None)
        expected = ["asked"] * (device is implied) + ["several", "plug-in", "any"]
        assert names_of(report.package) == expected


def test_an_ep_that_only_the_package_knows_can_be_asked_for(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    models = [
        NewVariant.for_cpu(make_model("a")),
        NewVariant(model=make_model("b"), ep="MyExecutionProvider"),
    ]
    root = create(tmp_path / "p", models, notify=lambda _: None).root

    assert names_of(slim(root, eps=["MyExecutionProvider"]).package) == ["b"]


def test_a_new_package_is_what_slimming_in_place_gives(package: Path, tmp_path: Path) -> None:
    before = content_of(package)

    report = slim(package, devices=["gpu"], output=tmp_path / "new")

    assert content_of(package) == before
    assert errors_of(report.package.root) == []
    assert report.before_nbytes - report.after_nbytes == sum(map(len, before.values())) - sum(
        len(content) for content in content_of(tmp_path / "new").values()
    ) - (len(before["digests.json"]) - len((tmp_path / "new/digests.json").read_bytes()))
    slim(package, devices=["gpu"])
    assert content_of(package) == content_of(tmp_path / "new")


def _keep_cuda_alone(package: Path) -> PackageInfo:
    return slim(package, variants=["cuda"]).package


def _remove_cpu(package: Path) -> PackageInfo:
    return remove_variant(package, "cpu")


@pytest.mark.parametrize("leave", [_keep_cuda_alone, _remove_cpu], ids=["slim", "remove-variant"])
def test_tolerances_of_samples_go_with_their_variants(
    package: Path, leave: Callable[[Path], PackageInfo]
) -> None:
    (package / "samples").mkdir()
    np.savez(package / "samples/in.npz", x=np.ones((1, 4), np.float32))
    np.savez(package / "samples/out.npz", y=np.ones((1, 4), np.float32))
    tolerances = {"tolerances": {"y": {"absolute": 1.0, "relative": 0.0}}}
    sample = {"name": "s", "inputs": "in.npz", "expected_outputs": "out.npz"}
    sample["variants"] = {"cpu": tolerances, "cuda": tolerances}  # type: ignore[assignment]
    (package / "samples/samples.json").write_text(
        json.dumps({"schema_version": "1.0", "samples": [sample]})
    )
    (package / "digests.json").write_bytes(dump_digests(compute_digests(package)))

    (read,) = read_samples(leave(package))
    assert read.tolerance("y", variant="cuda") is not None
    assert [each.rule for each in validate(package) if each.rule.startswith("ORT05")] == []
    assert "cpu" not in (package / "samples/samples.json").read_text()


def test_shared_weights_stay_as_long_as_one_needs_them(
    tmp_path: Path, make_model_with_data: ModelMaker
) -> None:
    big = make_model_with_data("big")
    root = create(
        tmp_path / "p", [NewVariant(model=big, name="one", ep="cpu")], form="component"
    ).root
    shutil.copy(root / "models/model/one/big.onnx", root / "models/model/one/two.onnx")
    document = root / "models/model/component.json"
    component = json.loads(document.read_bytes())
    ort = {"ort": {"model_file": "two.onnx"}}
    component["variants"]["two"] = {
        "variant_directory": "one",
        "ep": "CUDAExecutionProvider",
        "executor_info": ort,
    }
    document.write_text(json.dumps(component))
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))

    slim(root, variants=["two"])

    assert sorted(path.name for path in (root / "models/model/one").iterdir()) == [
        "two.onnx",
        "weights.bin",
    ]
    assert errors_of(root) == []


def test_an_asset_goes_when_nothing_mentions_it_any_more(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    models = [
        NewVariant(model=make_model("a"), ep="cpu"),
        NewVariant(model=make_model("b"), ep="cuda"),
    ]
    root = create(tmp_path / "p", models, form="component").root
    kept, dropped, declared = (f"sha256:{digit * 64}" for digit in "abc")
    for uri in (kept, dropped):
        folder = root / "shared_assets" / uri.replace(":", "-")
        folder.mkdir(parents=True)
        (folder / "t.json").write_text("{}")
    (root / "elsewhere").mkdir()
    (root / "elsewhere/t.json").write_text("{}")
    (root / "models/model/a/genai_config.json").write_text(
        json.dumps({"model": {"tokenizer_dir": kept}})
    )
    (root / "models/model/b/genai_config.json").write_text(
        json.dumps({"a": dropped, "b": declared})
    )
    manifest = json.loads((root / "manifest.json").read_bytes())
    manifest["shared_assets"] = {declared: "elsewhere"}
    (root / "manifest.json").write_text(json.dumps(manifest))
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))

    report = slim(root, variants=["a"])

    assert [asset.uri for asset in report.package.shared_assets] == [kept]
    assert not (root / "elsewhere").exists()
    assert not (root / "shared_assets" / dropped.replace(":", "-")).exists()
    assert check_digests(root) == ()


def test_refuses_what_would_leave_a_component_without_variants(
    tmp_path: Path, make_model: ModelMaker
) -> None:
    root = create(tmp_path / "p", [NewVariant.for_cpu(make_model("a"))]).root
    for name in ("second", "third"):
        add_variant(
            root,
            make_model(f"b-{name}"),
            component=name,
            ep="cuda",
            device="gpu",
            notify=lambda _: None,
        )
    before = content_of(root)

    with pytest.raises(
        AuthoringError, match="no variant would be left of component model 'second', 'third'"
    ):
        slim(root, devices=["cpu"])

    assert content_of(root) == before


def test_refuses_what_names_nothing(package: Path) -> None:
    with pytest.raises(UsageError, match="say what to keep"):
        slim(package)
    with pytest.raises(UsageError, match=r"device 'gpuu' is none of .*did you mean 'gpu'"):
        slim(package, devices=["gpuu"])
    with pytest.raises(
        UnknownComponentError, match=r"has no variant 'cudaa' \(did you mean 'cuda'\?\); it has '"
    ):
        slim(package, variants=["cudaa"])
    with pytest.raises(
        UsageError, match=r"no execution provider 'cudda'; did you mean 'CUDAExecutionProvider'\?"
    ):
        slim(package, eps=["cpu", "cudda"])
    with pytest.raises(AuthoringError, match=r"every variant .* is wanted"):
        slim(package, devices=["cpu", "gpu", "npu"])


def test_says_what_nothing_was_kept_for(tmp_path: Path, make_model: ModelMaker) -> None:
    models = [
        NewVariant.for_cpu(make_model("a")),
        NewVariant(model=make_model("b"), ep="cuda", device="gpu"),
    ]
    root = create(tmp_path / "p", models).root
    notes: list[str] = []

    slim(root, devices=["cpu", "npu"], notify=notes.append)

    assert notes == ["no variant is for the device 'npu'"]


def test_damage_is_named_and_nothing_is_copied(package: Path, tmp_path: Path) -> None:
    (package / "models/model/cpu/cpu.onnx").write_bytes(b"x")

    with pytest.raises(DigestMismatchError, match=r"'models/model/cpu/cpu.onnx'"):
        slim(package, devices=["gpu"], output=tmp_path / "new")

    assert not (tmp_path / "new").exists()


def test_a_slimmed_package_still_converts(package: Path) -> None:
    slim(package, devices=["gpu"])
    target = (
        "metadata" if "schema_version" in (package / "manifest.json").read_text() else "component"
    )

    assert names_of(convert(package, target)) == ["cuda", "any"]


def test_what_is_written_is_done_though_it_cannot_be_read_back(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "new"
    real = reader.open_package

    def fail_behind(root: Path) -> PackageInfo:
        if root == target:
            raise OSError(errno.EIO, "Input/output error", str(root))
        return real(root)

    monkeypatch.setattr("ortpkg.authoring.slim.open_package", fail_behind)
    with pytest.raises(ResultUnreadableError, match="was written and is complete"):
        slim(package, devices=["gpu"], output=target)
    assert names_of(real(target)) == ["cuda", "any"]
