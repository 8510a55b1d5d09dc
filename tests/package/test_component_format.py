"""The component generation: what is read from it.

What opens at all is in test_component_verdicts.py.
"""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.documents.document_schemas import load_schema
from ortpkg.foundations.errors import (
    Finding,
    PackageFormatError,
    PackageNotFoundError,
    UnsupportedSchemaVersionError,
    UsageError,
)
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_31
from ortpkg.package.formats.component_format import COMPONENT_KEYS, MANIFEST_KEYS, VARIANT_KEYS
from ortpkg.package.package_info import (
    ComponentInfo,
    Constraints,
    Layout,
    PackageFormat,
    ValueInfo,
    VariantInfo,
)
from ortpkg.package.reader import check_package, open_package
from tests.package.component_cases import (
    ASSET,
    ASSET_FOLDER,
    FOLDER_OPTION,
    HEX,
    OTHER_HEX,
    component,
    ort,
    package,
)
from tests.package.conftest import WritePackage


def component_of(root: Path, **how: Any) -> ComponentInfo:
    (found,) = open_package(root, **how).components
    return found


def variant_of(root: Path, **how: Any) -> VariantInfo:
    (found,) = component_of(root, **how).variants
    return found


def one_finding(root: Path) -> Finding:
    (found,) = check_package(root)[1]
    return found


def test_reads_the_smallest_package(write_package: WritePackage) -> None:
    root = write_package(
        {"manifest.json": {"schema_version": 1, "components": {"c": {"variants": {"v": {}}}}}}
    )
    info = open_package(root, compat=ONNXRUNTIME_1_31)
    assert (info.format, info.schema_version, info.layout) == (
        PackageFormat.COMPONENT,
        (1, 0),
        Layout.PORTABLE,
    )
    assert (info.name, info.version, info.description, info.additional_metadata) == (
        "p",
        None,
        None,
        None,
    )
    (variant,) = info.components[0].variants
    assert variant.constraints == variant.component_constraints == Constraints()
    assert (variant.has_directory, variant.model_path, dict(variant.executor_info)) == (
        False,
        None,
        {},
    )


@pytest.mark.requirement("K02")
@pytest.mark.requirement("K14")
@pytest.mark.requirement("K15")
def test_reads_everything_inline(write_package: WritePackage) -> None:
    variant = {
        "ep": "CUDAExecutionProvider",
        "device": "GPU",
        "compatibility_string": "sm_90",
        "variant_directory": "decoder/cuda_fp16",
        "executor_info": {
            "ort": {"model_file": "m.onnx", "provider_options": {"device_id": "0"}},
            "other": {"x": [1]},
        },
        "additional_metadata": {"at": "variant"},
    }
    body = {
        "component_name": "decoder",
        "variants": {"cuda": variant},
        "additional_metadata": {"at": "component"},
    }
    manifest = {
        "schema_version": "1.0",
        "package_name": "llm",
        "package_version": "2",
        "description": "what it is",
        "components": {"decoder": body},
        "additional_metadata": {"at": "package"},
    }
    root = write_package({"manifest.json": manifest, "decoder/cuda_fp16/m.onnx": ""})
    info = open_package(root)
    assert (info.name, info.version, info.description) == ("llm", "2", "what it is")
    read = variant_of(root)
    assert [
        info.additional_metadata,
        info.components[0].additional_metadata,
        read.additional_metadata,
    ] == [
        {"at": "package"},
        {"at": "component"},
        {"at": "variant"},
    ]
    assert info.components[0].directory == info.root
    assert read.directory == info.root / "decoder" / "cuda_fp16"
    assert read.model_path == info.root / "decoder" / "cuda_fp16" / "m.onnx"
    assert read.constraints == Constraints(
        ep="CUDAExecutionProvider", device="gpu", ep_compatibility_info="sm_90"
    )
    assert read.component_constraints == Constraints(
        ep="CUDAExecutionProvider", device="GPU", ep_compatibility_info="sm_90"
    )
    assert dict(read.provider_options) == {"device_id": "0"}
    assert read.executor_info["other"]["x"] == (1,)
    assert read.source.pointer == "/components/decoder/variants/cuda"
    assert pickle.loads(pickle.dumps(info)) == info


@pytest.mark.parametrize(
    ("place", "document"), [("parts/c.json", "parts/c.json"), ("parts", "parts/component.json")]
)
def test_folders_of_an_external_component_are_relative_to_its_document(
    write_package: WritePackage, place: str, document: str
) -> None:
    files = component(place) | {document: {"variants": {"v": {}}}, "parts/v/genai_config.json": {}}
    root = write_package(files)
    assert component_of(root).directory == root.resolve() / "parts"
    variant = variant_of(root)
    assert variant.directory == root.resolve() / "parts" / "v"
    assert (variant.source.document, variant.source.pointer) == (document, "/variants/v")


def test_components_and_variants_stand_in_the_order_in_which_they_are_written(
    write_package: WritePackage,
) -> None:
    variants: dict[str, Any] = {name: {"variant_directory": "v"} for name in ("z", "a", "m")}
    manifest = {
        "schema_version": "1.0",
        "components": {name: {"variants": variants} for name in ("q", "b")},
    }
    info = open_package(write_package({"manifest.json": manifest, "v/genai_config.json": {}}))
    assert [each.name for each in info.components] == ["q", "b"]
    assert [each.name for each in info.components[0].variants] == ["z", "a", "m"]


def test_of_a_repeated_key_the_last_counts_in_the_place_of_the_first(
    write_package: WritePackage,
) -> None:
    first, last = '{"variants": {"x": {"variant_directory": "none"}}}', '{"variants": {}}'
    text = f'{{"schema_version": "1.0", "components": {{"a": {first}, "b": {last}, "a": {last}}}}}'
    info = open_package(write_package({"manifest.json": text}), compat=ONNXRUNTIME_1_31)
    assert [(each.name, each.variants) for each in info.components] == [("a", ()), ("b", ())]


def test_payloads_of_every_executor_are_kept(write_package: WritePackage) -> None:
    declared = {"ort": "ort.json", "other": {"a": None}, "third": "third.json"}
    files = package({"executor_info": declared}) | {
        "v/ort.json": {"model_file": "model.onnx"},
        "v/third.json": "[1.5]",
    }
    variant = variant_of(write_package(files))
    assert variant.executor_info == {
        "ort": {"model_file": "model.onnx"},
        "other": {"a": None},
        "third": (1.5,),
    }
    assert variant.model_path is not None


@pytest.mark.requirement("K02")
def test_a_variant_without_a_model_is_for_genai_or_doubtful(write_package: WritePackage) -> None:
    root = write_package(package({"ep": "CPUExecutionProvider"}))
    assert (
        str(one_finding(root))
        == "manifest.json#/components/c/variants/v: variant 'v' names no model (add"
        " executor_info.ort.model_file) [ORT068]"
    )
    write_package({"v/genai_config.json": {}})
    assert check_package(root)[1] == ()
    assert variant_of(root).model_path is None


def test_without_a_folder_a_model_is_looked_for_in_the_package(write_package: WritePackage) -> None:
    root = write_package(package({"executor_info": {"ort": {"model_file": "m.onnx"}}}, name="none"))
    variant = variant_of(root, compat=ONNXRUNTIME_1_31)
    assert (variant.has_directory, variant.model_path) == (False, root.resolve() / "m.onnx")


@pytest.mark.requirement("K23")
def test_by_the_rules_of_the_release_a_folder_is_where_its_name_comes_to(
    write_package: WritePackage,
) -> None:
    body = {"ep": "CPUExecutionProvider", "executor_info": {"ort": {"model_file": "model.onnx"}}}
    root = write_package(
        {**package(body, name="nowhere/../v", layout="installed"), "model.onnx": ""}
    )
    variant = variant_of(root, compat=ONNXRUNTIME_1_31)
    assert (variant.has_directory, variant.model_path) == (True, root.resolve() / "v/model.onnx")


@pytest.mark.parametrize("layout", ["portable", "installed"])
@pytest.mark.parametrize("segment", [".", "nothing"])
def test_the_cost_of_a_path_grows_with_its_length(
    write_package: WritePackage, segment: str, layout: str
) -> None:
    """A million names: squared, that is minutes."""
    reference = f"{segment}/" * 1_000_000 + "model.onnx"
    root = write_package(ort({"model_file": reference}, layout=layout))
    start_s = time.process_time()
    path = variant_of(root, compat=ONNXRUNTIME_1_31).model_path
    assert time.process_time() - start_s < 20
    assert path is not None
    assert (path == root.resolve() / "v/model.onnx") == (segment == ".")


def test_of_components_that_are_equal_up_to_a_nul_the_release_takes_the_first(
    write_package: WritePackage,
) -> None:
    components: dict[str, Any] = {
        "c\0x": {"variants": {"first": {}}},
        "c": {"variants": {"second": {}}},
    }
    document = {"schema_version": "1.0", "components": components}
    found = open_package(
        write_package({"manifest.json": document}), compat=ONNXRUNTIME_1_31
    ).component("c")
    assert found is not None
    assert [variant.name for variant in found.variants] == ["first"]


def test_several_variants_share_a_folder_or_an_asset(write_package: WritePackage) -> None:
    def body(model: str) -> dict[str, Any]:
        options = {FOLDER_OPTION: ASSET}
        ort_payload = {"model_file": model, "session_options": options}
        return {"variant_directory": "common", "executor_info": {"ort": ort_payload}}

    files = component({"variants": {"a": body("a.onnx"), "b": body(f"{ASSET}/b.onnx")}})
    root = write_package(files | {"common/a.onnx": "", f"{ASSET_FOLDER}/b.onnx": ""})
    first, second = component_of(root).variants
    asset = root.resolve() / ASSET_FOLDER
    assert (first.directory, second.directory) == (root.resolve() / "common",) * 2
    assert (first.model_path, second.model_path) == (
        root.resolve() / "common" / "a.onnx",
        asset / "b.onnx",
    )
    assert first.session_options[FOLDER_OPTION] == str(asset)


def test_path_options_are_resolved_and_others_left_alone(write_package: WritePackage) -> None:
    options = {
        "ep.context_file_path": "ctx/m_ctx.onnx",
        "session.intra_op_num_threads": "4",
        FOLDER_OPTION: "",
    }
    root = write_package(ort({"model_file": "model.onnx", "session_options": options}))
    assert dict(variant_of(root).session_options) == {
        "ep.context_file_path": str(root.resolve() / "v" / "ctx" / "m_ctx.onnx"),
        "session.intra_op_num_threads": "4",
        FOLDER_OPTION: "",
    }


@pytest.mark.requirement("K23")
def test_declared_assets_come_first_and_folders_follow_in_order(
    write_package: WritePackage,
) -> None:
    middle = "0" * 64
    files = package(shared_assets={f"sha256:{OTHER_HEX}": "v"})
    folders = {f"shared_assets/{name}/x": "" for name in (
        f"sha256-{HEX}", f"sha256-{middle}", f"sha256-{OTHER_HEX}", "sha256-short",
        f"sha256-{HEX}.tmp.0123456789abcdef", f"sha256-{HEX.upper()}",
    )}  # fmt: skip
    root = write_package(files | folders | {f"shared_assets/sha256-{'c' * 64}": "a file"})
    assets = open_package(root).shared_assets
    assert [(asset.uri.removeprefix("sha256:"), asset.is_declared) for asset in assets] == [
        (OTHER_HEX, True),
        (middle, False),
        (HEX, False),
    ]
    assert assets[0].path == root.resolve() / "v"
    assert assets[2].path == root.resolve() / ASSET_FOLDER


@pytest.mark.requirement("K20")
@pytest.mark.requirement("K24")
def test_keeps_what_the_format_has_no_keys_for_under_a_key_of_its_own(
    write_package: WritePackage,
) -> None:
    inputs = [{"name": "x", "type": "tensor(float)", "shape": [1, "n"]}]
    variant = {"additional_metadata": {"ortpkg": {"metadata": {"quantization": "int8"}}}}
    files = package(variant, additional_metadata={"ortpkg": {"inputs": inputs}}) | {
        "v/genai_config.json": {}
    }
    root = write_package(files)
    assert open_package(root).inputs == (ValueInfo(name="x", type="tensor(float)", shape=(1, "n")),)
    assert variant_of(root).metadata == {"quantization": "int8"}
    files["manifest.json"]["additional_metadata"]["ortpkg"]["inputs"] = 1
    found = one_finding(write_package(files))
    assert (found.rule, found.pointer) == ("ORT005", "/additional_metadata/ortpkg/inputs")
    assert open_package(root, compat=ONNXRUNTIME_1_31).inputs == ()


# --- what is allowed, and by whom -----------------------------------------------------------------


def test_an_installed_package_leaves_its_root_only_where_the_caller_allows_it(
    write_package: WritePackage, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "v").mkdir(parents=True)
    (elsewhere / "component.json").write_text(
        '{"variants": {"v": {"executor_info": {"o": "../o.json"}}}}'
    )
    (elsewhere / "o.json").write_text("{}")
    root = write_package(component(elsewhere.as_posix(), layout="installed"))
    with pytest.raises(
        PackageFormatError, match=r"/components/c: path '.*' (is absolute|names a drive)"
    ):
        open_package(root)
    assert variant_of(root, allow_external_paths=True).directory == elsewhere.resolve() / "v"
    assert variant_of(root, compat=ONNXRUNTIME_1_31).directory == elsewhere.resolve() / "v"
    root = write_package(component(elsewhere.as_posix(), layout="portable"))
    with pytest.raises(PackageFormatError, match=r"is absolute|names a drive"):
        open_package(root, allow_external_paths=True)


def test_an_allowed_external_path_still_may_not_deceive(write_package: WritePackage) -> None:
    root = write_package(component("/x\x1b[2J", layout="installed"))
    with pytest.raises(PackageFormatError, match="holds control characters"):
        open_package(root, allow_external_paths=True)


def test_reports_everything_that_is_wrong_at_once(write_package: WritePackage) -> None:
    body = {"variants": {"v": {"ep": "Odd", "executor_info": {"ort": {"model_file": "none", "session_options": {
        "session.enable_profiling": "1"}}}}, "w": {}}}  # fmt: skip
    files = component(body, extra=1, shared_assets={"sha256:1": "v"})
    files["manifest.json"]["components"]["d"] = "none.json"
    assert [(each.rule, each.pointer) for each in check_package(write_package(files))[1]] == [
        ("ORT062", "/extra"),
        ("ORT065", "/shared_assets/sha256:1"),
        ("ORT010", "/components/c/variants/v/executor_info/ort/model_file"),
        (
            "ORT067",
            "/components/c/variants/v/executor_info/ort/session_options/session.enable_profiling",
        ),
        ("ORT032", "/components/c/variants/v/ep"),
        ("ORT063", "/components/c/variants/w"),
        ("ORT010", "/components/d"),
    ]


def test_an_unsupported_version_is_an_error_of_its_own(write_package: WritePackage) -> None:
    root = write_package(package(version="2.0"))
    for compat in (None, ONNXRUNTIME_1_31):
        with pytest.raises(
            UnsupportedSchemaVersionError, match=r"has schema_version 2\.0, this ortpkg knows 1\.x"
        ):
            open_package(root, compat=compat)


def test_findings_carry_the_status_of_the_release_and_no_warnings(
    write_package: WritePackage,
) -> None:
    root = write_package(package({"ep": "Odd", "variant_directory": "none"}))
    with pytest.raises(
        PackageFormatError, match=r"path 'none' does not exist in '\.'.*\[ORTC-NOT_FOUND\]"
    ) as caught:
        open_package(root, compat=ONNXRUNTIME_1_31)
    assert [each.rule for each in caught.value.findings] == ["ORTC-NOT_FOUND"]


def test_a_package_without_a_manifest_is_not_one_by_any_rules(tmp_path: Path) -> None:
    with pytest.raises(PackageNotFoundError, match=r"there is no manifest\.json"):
        open_package(tmp_path, compat=ONNXRUNTIME_1_31)


def test_no_release_knows_our_own_documents(write_package: WritePackage) -> None:
    files = package() | {"pipeline.json": {}, "samples/samples.json": {}, "digests.json": []}
    info, findings = check_package(write_package(files), compat=ONNXRUNTIME_1_31)
    assert info is not None
    assert (info.has_pipeline, info.compat, findings) == (False, ONNXRUNTIME_1_31, ())


def test_refuses_a_release_that_it_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError,
        match=r"compat 'onnxruntime-9' is not known: use onnxruntime-1\.30, onnxruntime-1\.31",
    ):
        open_package(tmp_path, compat="onnxruntime-9")


def test_the_known_keys_are_those_of_the_schemas() -> None:
    body = load_schema("component")
    assert frozenset(load_schema("component_manifest")["properties"]) == MANIFEST_KEYS
    assert frozenset(body["properties"]) == COMPONENT_KEYS
    assert frozenset(body["$defs"]["variant"]["properties"]) == VARIANT_KEYS


@pytest.mark.parametrize(
    ("body", "hint"), [({}, "may name another folder"), ({"variant_directory": "v"}, "may stay")]
)
def test_a_name_that_no_folder_can_have_is_refused_with_what_to_do_about_it(
    write_package: WritePackage, body: dict[str, str], hint: str
) -> None:
    (found,) = check_package(
        write_package(package({"executor_info": {"ort": {}}} | body, name="con") | {"v/x": ""})
    )[1]
    assert (found.rule, hint in found.remedy) == ("ORT008", True)
