"""The metadata generation: components, variants in two documents, places of model files."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import Finding
from ortpkg.package.formats.executor_info import PATH_SESSION_OPTIONS
from ortpkg.package.formats.model_search import why_no_model
from ortpkg.package.formats.variant_declarations import sanitize_model_id
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.package.reader import check_package, open_package
from tests.package.conftest import WritePackage

CPU = {"ep": "CPUExecutionProvider", "device": "cpu"}
MODEL = b"not opened here"


def variant_of(root: Path, name: str = "v") -> VariantInfo:
    variant = component_of(root).variant(name)
    assert variant is not None
    return variant


def component_of(root: Path, name: str = "c") -> ComponentInfo:
    component = open_package(root).component(name)
    assert component is not None
    return component


def findings_of(root: Path) -> list[Finding]:
    return list(check_package(root)[1])


def one_finding(root: Path) -> str:
    (finding,) = findings_of(root)
    return str(finding)


def metadata(**variants: Any) -> dict[str, Any]:
    return {"component_model_name": "c", "model_variants": variants}


def package(manifest: dict[str, Any] | None = None, **variants: Any) -> dict[str, Any]:
    """A package with component ``c``, variant ``v`` of one model, ``variants`` in documents."""
    return {
        "manifest.json": {"model_name": "m", "component_models": ["c"]} | (manifest or {}),
        "models/c/metadata.json": metadata(**variants),
        "models/c/v/model.onnx": MODEL,
    }


@pytest.mark.requirement("K01")
@pytest.mark.requirement("K02")
@pytest.mark.requirement("K05")
@pytest.mark.requirement("K15")
def test_reads_package_component_and_variant(write_package: WritePackage) -> None:
    body = {
        "file": "model.onnx",
        "constraints": {**CPU, "architecture": "arch1", "ep_compatibility_info": "v1;x"},
    }
    root = write_package(package({"model_version": "1.2", "description": "what it is"}, v=body))
    info = open_package(root)
    assert (info.name, info.version, info.description) == ("m", "1.2", "what it is")
    (component,) = info.components
    (variant,) = component.variants
    assert component.directory == root.resolve() / "models" / "c"
    assert variant.constraints == Constraints(
        ep="CPUExecutionProvider", device="cpu", architecture="arch1", ep_compatibility_info="v1;x"
    )
    assert variant.directory == root.resolve() / "models/c/v"
    assert variant.model_path == root.resolve() / "models/c/v/model.onnx"
    assert str(variant.source.pointer) == "/model_variants/v"


@pytest.mark.requirement("K03")
def test_discovers_folders_with_metadata_in_the_order_of_their_names(
    write_package: WritePackage,
) -> None:
    root = write_package(
        {
            "manifest.json": {"model_name": "m"},
            "models/b/metadata.json": metadata(v={}) | {"component_model_name": "b"},
            "models/b/v/x.onnx": MODEL,
            "models/a/metadata.json": metadata(v={}) | {"component_model_name": "a"},
            "models/a/v/x.onnx": MODEL,
            "models/without/x.onnx": MODEL,
            "models/file.txt": MODEL,
        }
    )
    assert [component.name for component in open_package(root).components] == ["a", "b"]


@pytest.mark.requirement("K04")
@pytest.mark.parametrize("entry", [{}, {"model_variants": {}}])
def test_an_empty_component_entry_takes_its_variants_from_metadata(
    write_package: WritePackage, entry: Any
) -> None:
    root = write_package(package({"component_models": {"c": entry}}, v={}))
    assert variant_of(root).model_path == root.resolve() / "models/c/v/model.onnx"


@pytest.mark.requirement("K04")
def test_reads_variants_inline_in_the_manifest(write_package: WritePackage) -> None:
    inline = {"model_variants": {"v": {"file": "model.onnx", "constraints": CPU}}}
    root = write_package(
        {
            "manifest.json": {"model_name": "m", "component_models": {"c": inline}},
            "models/c/v/model.onnx": MODEL,
        }
    )
    variant = variant_of(root)
    assert variant.constraints == Constraints(**CPU)
    assert variant.source.document == "manifest.json"
    assert variant.source.pointer == "/component_models/c/model_variants/v"


@pytest.mark.requirement("K06")
def test_metadata_wins_and_the_manifest_fills_what_it_lacks(write_package: WritePackage) -> None:
    inline = {
        "file": "b.onnx",
        "constraints": {"ep": "CUDAExecutionProvider", "device": "gpu", "architecture": "sm_90"},
        "provider_options": {"a": "manifest"},
    }
    own = {
        "model_file": "a.onnx",
        "constraints": {"ep": "CPUExecutionProvider", "device": ""},
        "provider_options": {"b": "metadata"},
    }
    files = package({"component_models": {"c": {"model_variants": {"v": inline}}}}, v=own)
    variant = variant_of(
        write_package({**files, "models/c/v/a.onnx": MODEL, "models/c/v/b.onnx": MODEL})
    )
    assert variant.model_path is not None
    assert variant.model_path.name == "a.onnx"
    assert variant.constraints == Constraints(
        ep="CPUExecutionProvider", device="gpu", architecture="sm_90"
    )
    assert dict(variant.provider_options) == {"b": "metadata"}


@pytest.mark.requirement("K06")
def test_the_manifest_fills_the_missing_required_file(write_package: WritePackage) -> None:
    inline = {"file": "b.onnx", "constraints": CPU}
    files = package({"component_models": {"c": {"model_variants": {"v": inline}}}}, v={})
    variant = variant_of(write_package({**files, "models/c/v/b.onnx": MODEL}))
    assert variant.model_path is not None
    assert variant.model_path.name == "b.onnx"
    assert variant.constraints == Constraints(**CPU)
    assert variant.source.document == "models/c/metadata.json"


def test_variants_stand_in_the_manifests_order_then_in_that_of_metadata(
    write_package: WritePackage,
) -> None:
    inline: dict[str, Any] = {"model_variants": {"z": {}, "y": {}}}
    files = package({"component_models": {"c": inline}}, b={}, y={}, a={})
    models = {f"models/c/{name}/m.onnx": MODEL for name in "abyz"}
    names = [variant.name for variant in component_of(write_package({**files, **models})).variants]
    assert names == ["z", "y", "b", "a"]


@pytest.mark.requirement("K24")
def test_keeps_facts_options_and_what_it_does_not_understand(write_package: WritePackage) -> None:
    body = {
        "metadata": {"quantization": "int8", "data_types": ["uint8"], "opset": {"": 17}},
        "session_options": {"session.intra_op_num_threads": "2"},
        "additional_metadata": [{"x": None}],
        "sdk_version": 3,
    }
    variant = variant_of(write_package(package(v=body)))
    assert variant.metadata["data_types"] == ("uint8",)
    assert variant.metadata["opset"][""] == 17
    assert dict(variant.session_options) == {"session.intra_op_num_threads": "2"}
    assert variant.additional_metadata[0]["x"] is None


def test_model_id_names_the_folder(write_package: WritePackage) -> None:
    root = write_package(
        {**package(v={"model_id": "phi4-cpu:1"}), "models/c/phi4-cpu_1/model.onnx": MODEL}
    )
    assert variant_of(root).directory == root.resolve() / "models/c/phi4-cpu_1"


def test_a_model_id_frees_the_variants_name_from_the_rules_for_folders(
    write_package: WritePackage,
) -> None:
    files = {**package(), "models/c/metadata.json": metadata(**{"a/b:c": {"model_id": "v"}})}
    assert variant_of(write_package(files), "a/b:c").directory.name == "v"


def test_sanitizes_every_character_that_onnxruntime_replaces() -> None:
    assert sanitize_model_id('a<>:"/\\|?*b') == "a_________b"


def test_several_variants_may_share_a_folder(write_package: WritePackage) -> None:
    variants = {name: {"model_id": "common", "model_file": f"{name}.onnx"} for name in "ab"}
    models = {f"models/c/common/{name}.onnx": MODEL for name in "ab"}
    root = write_package({**package(**variants), **models})
    assert {variant_of(root, name).directory.name for name in "ab"} == {"common"}


# --- where the model file is looked for -----------------------------------------------------------


@pytest.mark.parametrize("body", [{}, {"model_file": ""}, {"model_file": "."}])
def test_takes_the_only_onnx_file_of_the_folder(write_package: WritePackage, body: Any) -> None:
    root = write_package(
        {**package(v=body), "models/c/v/README.txt": MODEL, "models/c/v/sub/other.onnx": MODEL}
    )
    assert variant_of(root).model_path == root.resolve() / "models/c/v/model.onnx"


def test_takes_the_only_onnx_file_of_a_named_folder_whatever_its_case(
    write_package: WritePackage,
) -> None:
    root = write_package({**package(v={"model_file": "sub"}), "models/c/v/sub/M.ONNX": MODEL})
    assert variant_of(root).model_path == root.resolve() / "models/c/v/sub/M.ONNX"


def test_takes_a_file_relative_to_the_components_folder(write_package: WritePackage) -> None:
    root = write_package(
        {**package(w={"file": "w.onnx"}, v={"file": "v/model.onnx"}), "models/c/w.onnx": MODEL}
    )
    assert variant_of(root, "w").model_path == root.resolve() / "models/c/w.onnx"
    assert variant_of(root, "w").directory == root.resolve() / "models/c"
    assert variant_of(root, "v").model_path == root.resolve() / "models/c/v/model.onnx"


@pytest.mark.parametrize("reference", ["w/model.onnx", "./w//model.onnx", "w", "in/model.onnx"])
def test_takes_no_other_variants_model(write_package: WritePackage, reference: str) -> None:
    root = write_package(
        {**package(v={"model_file": reference}, w={}), "models/c/w/model.onnx": MODEL}
    )
    (root / "models/c/in").symlink_to("w")
    assert (
        one_finding(root)
        == f"models/c/metadata.json#/model_variants/v/model_file: model file {reference!r} does not"
        " exist in 'models/c/v' (what is meant lies in 'w', the folder of another variant)"
        " [ORT010]"
    )


@pytest.mark.parametrize(
    ("variant", "owner"),
    [
        ({"model_file": "m.onnx"}, {"model_file": "m.onnx"}),
        ({"model_file": "m.onnx"}, {}),
        ({"model_file": ".//m.onnx"}, {"model_file": "./m.onnx"}),
        ({"file": "link.onnx"}, {"file": "m.onnx"}),
        ({"model_file": "sub/s.onnx"}, {"model_file": "sub"}),
        ({"model_file": "sub"}, {"model_file": "sub/s.onnx"}),
    ],
)
def test_takes_no_model_of_a_variant_in_the_components_own_folder(
    write_package: WritePackage, variant: Any, owner: Any
) -> None:
    bodies = {"v": variant, "w": {"model_id": ".", **owner}}
    root = write_package(
        {**package(**bodies), "models/c/m.onnx": MODEL, "models/c/sub/s.onnx": MODEL}
    )
    if variant == {"file": "link.onnx"}:
        (root / "models/c/link.onnx").symlink_to("m.onnx")
    found = one_finding(root)
    remedy = "what is meant is the model of another variant, whose folder is 'models/c'"
    assert found.startswith(
        f"models/c/metadata.json#/model_variants/v/{next(iter(variant))}: model file "
    )
    assert found.endswith(f" does not exist in 'models/c/v' ({remedy}) [ORT010]")


def test_a_draft_has_models_beside_that_of_a_variant_in_the_components_own_folder(
    write_package: WritePackage,
) -> None:
    variants = {
        "v": {"file": "v.onnx"},
        "w": {"model_id": ".", "file": "w.onnx"},
        "x": {"file": "v.onnx"},
    }
    root = write_package(
        {**package(**variants), "models/c/v.onnx": MODEL, "models/c/w.onnx": MODEL}
    )
    found = {name: variant_of(root, name).model_path for name in variants}
    assert found == {
        name: root.resolve() / f"models/c/{'w' if name == 'w' else 'v'}.onnx" for name in variants
    }


def test_takes_a_model_of_the_folder_that_variants_share(write_package: WritePackage) -> None:
    variants = {name: {"model_id": "common", "file": "common/model.onnx"} for name in "ab"}
    root = write_package({**package(**variants), "models/c/common/model.onnx": MODEL})
    assert variant_of(root, "a").model_path == root.resolve() / "models/c/common/model.onnx"


@pytest.mark.parametrize("key", PATH_SESSION_OPTIONS)
def test_refuses_a_path_option_with_a_nul(write_package: WritePackage, key: str) -> None:
    variant = {"model_file": "model.onnx", "session_options": {key: "a\0b"}}
    found = one_finding(write_package(package(v=variant)))
    assert found.startswith(
        f"models/c/metadata.json#/model_variants/v/session_options/{key}: path 'a\\x00b' holds"
        " control characters"
    )


def test_prefers_the_variants_folder_to_the_components(write_package: WritePackage) -> None:
    root = write_package({**package(v={"file": "model.onnx"}), "models/c/model.onnx": MODEL})
    assert variant_of(root).model_path == root.resolve() / "models/c/v/model.onnx"


@pytest.mark.requirement("K02")
@pytest.mark.parametrize("names", [[], ["encoder.onnx", "decoder.onnx"]])
def test_a_genai_variant_is_a_folder(write_package: WritePackage, names: list[str]) -> None:
    models = {f"models/c/g/{name}": MODEL for name in names}
    root = write_package({**package(g={}), **models, "models/c/g/genai_config.json": {}})
    assert (variant_of(root, "g").model_path, variant_of(root, "g").directory.name) == (None, "g")


def test_lists_the_candidates_where_there_are_several(write_package: WritePackage) -> None:
    found = one_finding(write_package({**package(v={}), "models/c/v/b.onnx": MODEL}))
    assert (
        found
        == "models/c/metadata.json#/model_variants/v: the folder 'models/c/v' holds 2 ONNX files:"
        " 'b.onnx', 'model.onnx' (name one of them in model_file) [ORT031]"
    )


def test_says_where_there_is_no_model(write_package: WritePackage) -> None:
    found = one_finding(write_package({**package(w={}), "models/c/w/readme.txt": MODEL}))
    assert (
        "models/c/metadata.json#/model_variants/w: the folder 'models/c/w' holds no ONNX file"
        in found
    )


def test_says_where_the_folder_is_missing(write_package: WritePackage) -> None:
    assert "the variant's folder 'models/c/w' does not exist" in one_finding(
        write_package(package(w={}))
    )


def test_names_what_is_there_where_the_named_file_is_missing(write_package: WritePackage) -> None:
    assert (
        one_finding(write_package(package(v={"model_file": "modle.onnx"})))
        == "models/c/metadata.json#/model_variants/v/model_file: model file 'modle.onnx' does not"
        " exist in 'models/c/v' (there is 'model.onnx') [ORT010]"
    )


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("../../../x.onnx", "leads out"),
        ("/x.onnx", "is absolute"),
        ("C:x.onnx", "names a drive"),
        ("a\\b", "backslash"),
    ],
)
def test_refuses_a_model_file_that_leaves_the_package(
    write_package: WritePackage, reference: str, reason: str
) -> None:
    found = one_finding(write_package(package(v={"file": reference})))
    assert found.startswith("models/c/metadata.json#/model_variants/v/file: path ")
    assert reason in found
    assert "[ORT008]" in found


def test_points_into_the_manifest_where_the_manifest_names_the_file(
    write_package: WritePackage,
) -> None:
    inline = {"model_variants": {"v": {"file": "/x"}}}
    found = one_finding(write_package(package({"component_models": {"c": inline}}, v={})))
    assert found.startswith("manifest.json#/component_models/c/model_variants/v/file: ")


@pytest.mark.parametrize(
    "place", ["models/c/w", "models/c/metadata.json", "models/d", "models/c/v/model.onnx"]
)
def test_refuses_links_that_leave_the_package(
    write_package: WritePackage, tmp_path: Path, place: str
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "model.onnx").write_bytes(MODEL)
    root = write_package(
        package({"component_models": ["c", "d"]} if place == "models/d" else None, v={})
    )
    if place == "models/c/w":
        write_package({"models/c/metadata.json": metadata(w={})})
    (root / place).unlink(missing_ok=True)
    target = tmp_path / "outside" / ("model.onnx" if "." in place else "")
    try:
        (root / place).symlink_to(target, target_is_directory=target.is_dir())
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")
    found = one_finding(root)
    assert "leads out of the package through a symbolic link" in found
    assert "[ORT009]" in found


@pytest.mark.parametrize("name", ["..", "../c", "a/b", "con", "", "c "])
def test_refuses_component_names_that_are_no_folder_names(
    write_package: WritePackage, name: str
) -> None:
    found = findings_of(write_package(package({"component_models": {name: {}}})))
    assert [finding.rule for finding in found] == ["ORT008"]
    assert "component model" in found[0].message


@pytest.mark.parametrize("name", ["..", "a/b", "nul", "a:b", "v."])
def test_refuses_variant_names_that_are_no_folder_names(
    write_package: WritePackage, name: str
) -> None:
    found = one_finding(write_package(package(**{name: {}})))
    assert f"variant {name!r} " in found
    assert "name the folder in model_id" in found


def test_a_model_id_that_no_folder_can_have_is_not_told_to_be_moved_to_the_model_id(
    write_package: WritePackage,
) -> None:
    files = {**package(), "models/c/metadata.json": metadata(v={"model_id": "con"})}
    found = one_finding(write_package(files))
    assert "model_id 'con' " in found
    assert "(use a name that every operating system allows)" in found


def test_refuses_a_model_id_that_leads_out(write_package: WritePackage) -> None:
    assert "model_id '..' leads out of its folder" in one_finding(
        write_package(package(v={"model_id": ".."}))
    )


@pytest.mark.skipif(sys.platform == "win32", reason="such folders cannot be made there")
def test_refuses_discovered_folders_with_names_for_one_system_only(
    write_package: WritePackage,
) -> None:
    root = write_package(
        {"manifest.json": {"model_name": "m"}, "models/a\x1b[2J/metadata.json": metadata()}
    )
    found = one_finding(root)
    assert found.startswith(r"manifest.json: component model 'a\x1b[2J' holds control characters")


def test_says_when_a_folder_cannot_be_read(
    write_package: WritePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_package(package(v={}))

    def refuse(path: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuse)
    assert "folder 'v' cannot be read: Permission denied" in one_finding(root)
    write_package({"manifest.json": {"model_name": "m"}})
    assert one_finding(root).startswith(
        "manifest.json: folder 'models' cannot be read: Permission denied"
    )


def test_reports_where_a_linked_component_really_is(write_package: WritePackage) -> None:
    root = write_package(package({"component_models": ["alias"]}, v={}))
    try:
        (root / "models" / "alias").symlink_to("c", target_is_directory=True)
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")
    assert component_of(root, "alias").directory == root.resolve() / "models" / "c"


def test_a_loop_of_links_is_not_a_component(write_package: WritePackage) -> None:
    root = write_package({**package(v={}), "manifest.json": {"model_name": "m"}})
    try:
        (root / "models" / "loop").symlink_to("loop")
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")
    assert [component.name for component in open_package(root).components] == ["c"]


def test_refuses_a_component_listed_twice(write_package: WritePackage) -> None:
    found = one_finding(write_package(package({"component_models": ["c", "c"]}, v={})))
    assert found.startswith(
        "manifest.json#/component_models/1: component model 'c' is listed twice"
    )


def test_refuses_a_listed_component_that_is_not_there(write_package: WritePackage) -> None:
    found = one_finding(write_package(package({"component_models": ["c", "d"]}, v={})))
    assert (
        "manifest.json#/component_models/d: component model 'd' has no models/d/metadata.json"
        in found
    )


# --- what is only doubtful ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ep", "suggestion"),
    [
        ("cpuexecutionprovider", "did you mean CPUExecutionProvider?"),
        ("OpenVINO", "did you mean OpenVINOExecutionProvider?"),
        ("MyOwnThing", "use ONNX Runtime's full name"),
    ],
)
def test_warns_of_an_unknown_ep_and_opens(
    write_package: WritePackage, ep: str, suggestion: str
) -> None:
    root = write_package(package(v={"constraints": {"ep": ep}}))
    found = one_finding(root)
    assert found.startswith("models/c/metadata.json#/model_variants/v/constraints/ep: ep ")
    assert suggestion in found
    assert variant_of(root).constraints.ep == ep


def test_device_is_lower_cased_and_an_unknown_one_is_a_warning(write_package: WritePackage) -> None:
    root = write_package(package(v={"constraints": {"device": "TPU"}}))
    assert "constraints/device: device 'tpu' never matches" in one_finding(root)
    assert variant_of(root).constraints.device == "tpu"
    root = write_package(package(v={"constraints": {"device": "GPU"}}))
    assert variant_of(root).constraints.device == "gpu"
    assert findings_of(root) == []


def test_the_folders_name_counts_not_component_model_name(write_package: WritePackage) -> None:
    root = write_package(
        {**package(), "models/c/metadata.json": metadata(v={}) | {"component_model_name": "other"}}
    )
    assert "component_model_name is 'other', the folder is 'c'" in one_finding(root)
    assert component_of(root).variant("v")


def test_a_component_without_variants_opens_with_a_warning(write_package: WritePackage) -> None:
    root = write_package(package())
    assert "component model 'c' has no variants" in one_finding(root)
    assert component_of(root).variants == ()


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (
            ["genai_config.json", "a.onnx"],
            r"is a GenAI variant: a set of files in '.*' for onnxruntime-genai",
        ),
        (
            ["a.onnx"],
            (
                r"names no model in executor_info: 'a.onnx' in '.*' would be one for its"
                r" ort.model_file"
            ),
        ),
        (
            ["a.onnx", "b.onnx"],
            r"names no model in executor_info.ort.model_file, and '.*' holds 'a.onnx', 'b.onnx'",
        ),
        (["a.txt"], r"names no model in executor_info.ort.model_file, and '.*' holds no ONNX file"),
    ],
)
def test_says_why_a_variant_has_no_model(
    write_package: WritePackage, files: list[str], reason: str
) -> None:
    document = {
        "schema_version": "1.0",
        "components": {"c": {"variants": {"v": {"ep": "CPUExecutionProvider"}}}},
    }
    root = write_package({"manifest.json": document, **{f"v/{name}": "{}" for name in files}})
    assert re.match(reason, why_no_model(open_package(root).components[0].variants[0]))
