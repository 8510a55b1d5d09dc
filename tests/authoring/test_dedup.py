"""dedup: equal weights are stored once, and every variant computes what it did."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortpkg.authoring.create import add_variant, create, remove_variant
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.authoring.sharing.dedup import dedup
from ortpkg.foundations.errors import (
    AuthoringError,
    DigestMismatchError,
    ModelFileError,
    PackageFormatError,
    Severity,
    UsageError,
)
from ortpkg.package.integrity.digest_check import check_digests
from ortpkg.package.reader import open_package
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.authoring.weight_models import (
    assert_same_results,
    edit_metadata,
    external,
    make_model,
    make_package,
    nbytes_of,
    record,
    results_of,
    save_chain,
    weight,
    with_location,
)
from tests.package.failing_operations import content_of

LAYOUTS = ["common-directory", "shared-weights"]


def files_of(root: Path) -> list[str]:
    """Models and data, relative to the only component's folder."""
    folder = root / "models/model"
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".json"
    )


def rules_of(root: Path) -> list[str]:
    """What ``validate`` finds; no error in any test."""
    findings = validate(root)
    assert [str(finding) for finding in findings if finding.severity is Severity.ERROR] == []
    return [finding.rule for finding in findings]


def deduplicated(root: Path, **options: object) -> int:
    """Runs dedup; every promise that holds whatever was shared is checked.

    Returns the bytes saved.
    """
    before, nbytes, content, findings = (
        results_of(root),
        nbytes_of(root),
        content_of(root),
        rules_of(root),
    )
    planned = dedup(root, dry_run=True, **options)  # type: ignore[arg-type]
    assert content_of(root) == content

    report = dedup(root, **options)  # type: ignore[arg-type]

    assert (report.moved, report.added, report.removed) == (
        planned.moved,
        planned.added,
        planned.removed,
    )
    assert report.saved_nbytes == nbytes - nbytes_of(root)
    assert_same_results(before, results_of(root))
    assert rules_of(root) == findings
    after = content_of(root)
    assert dedup(root, **options).saved_nbytes == 0  # type: ignore[arg-type]
    assert content_of(root) == after
    assert [
        path
        for path in root.rglob("*")
        if path.is_symlink() or (path.is_file() and path.stat().st_nlink > 1)
    ] == []
    return report.saved_nbytes


WEIGHTS = {"w0": weight(0), "w1": weight(1), "w2": weight(2)}


@pytest.mark.requirement("K23")
def test_equal_files_are_stored_once_and_the_models_stay_byte_for_byte(tmp_path: Path) -> None:
    root = make_package(
        tmp_path / "p",
        {"a": make_model(tmp_path / "a", WEIGHTS), "b": make_model(tmp_path / "b", WEIGHTS)},
    )

    saved = deduplicated(root)

    assert files_of(root) == ["a/b.onnx", "a/model.onnx", "a/weights.bin"]
    assert (root / "models/model/a/b.onnx").read_bytes() == (tmp_path / "b/model.onnx").read_bytes()
    assert saved == 3 * 1024


@pytest.mark.requirement("K23")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_tensors_in_differently_packed_files_are_stored_once(
    tmp_path: Path, layout: str
) -> None:
    renamed = {"p": weight(1), "q": weight(7)}
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS),
        "b": make_model(
            tmp_path / "b", WEIGHTS, location="data/b.bin", packing=["w2", "w0", "w1"], padding=100
        ),
        "c": make_model(tmp_path / "c", renamed, location="weights.bin", padding=8),
    }
    root = make_package(tmp_path / "p", models)

    saved = deduplicated(root, layout=layout)

    assert saved > 3 * 1024  # all of b's weights, one of c's, and padding
    assert not (root / "models/model/b").exists()


@pytest.mark.requirement("K01", "K23")
def test_shared_weights_are_addressed_by_checksum_where_that_is_asked_for(tmp_path: Path) -> None:
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS),
        "b": make_model(tmp_path / "b", WEIGHTS | {"w2": weight(5)}, location="b.bin"),
    }
    root = make_package(tmp_path / "p", models)

    deduplicated(root, layout="shared-weights")

    shared = next(path for path in files_of(root) if "shared_weights" in path)
    folder, checksum, name = shared.split("/")
    recorded = json.loads((root / "digests.json").read_bytes())["files"][f"models/model/{shared}"]
    assert (folder, name) == ("shared_weights", "model.data")
    assert recorded["digests"] == [checksum]
    assert len(files_of(root)) == 5  # two models, a data file of each, and the shared one


def test_a_file_per_set_of_users_lets_each_go_with_its_last_user(tmp_path: Path) -> None:
    common, of_two = weight(1), weight(2)
    models = {
        "a": make_model(tmp_path / "a", {"c": common, "t": of_two}),
        "b": make_model(tmp_path / "b", {"c": common, "t": of_two}),
        "c": make_model(tmp_path / "c", {"c": common, "o": weight(3)}),
    }
    root = make_package(tmp_path / "p", models)
    deduplicated(root, layout="shared-weights")
    before = results_of(root)
    shared = [path for path in files_of(root) if "shared_weights" in path]
    assert len(shared) == 2

    remove_variant(root, "a")
    remove_variant(root, "b")

    assert [path for path in files_of(root) if "shared_weights" in path] in (
        [shared[0]],
        [shared[1]],
    )
    assert_same_results({"model/c": before["model/c"]}, results_of(root))
    assert check_digests(root) == ()


@pytest.mark.requirement("K23")
@pytest.mark.parametrize("removed", ["a", "b"])
def test_a_variant_that_goes_leaves_what_others_share_and_the_last_one_takes_it(
    tmp_path: Path, removed: str
) -> None:
    models = {name: make_model(tmp_path / name, WEIGHTS) for name in ("a", "b")}
    models["other"] = make_model(tmp_path / "other", {"o": weight(9)})
    root = make_package(tmp_path / "p", models)
    deduplicated(root)
    before = results_of(root)

    remove_variant(root, removed)

    kept = "b" if removed == "a" else "a"
    assert_same_results(
        {name: before[name] for name in (f"model/{kept}", "model/other")}, results_of(root)
    )
    assert check_digests(root) == ()
    remove_variant(root, kept)
    assert files_of(root) == ["other/model.onnx", "other/weights.bin"]
    assert check_digests(root) == ()


@pytest.mark.parametrize("form", ["metadata", "universal"])
def test_a_variant_that_lost_its_model_gets_none_of_those_that_share(
    tmp_path: Path, form: str
) -> None:
    for name in ("a", "b", "c/a"):
        make_model(tmp_path / name, WEIGHTS).rename(tmp_path / name / f"{name[-1]}.onnx")
    root = tmp_path / "p"
    create(root, [NewVariant.for_cpu(tmp_path / name / f"{name}.onnx") for name in "ab"], form=form)
    deduplicated(root, layout="shared-weights")
    (component,) = open_package(root).components
    assert (component.directory / "a.onnx").is_file()
    add_variant(root, tmp_path / "c/a/a.onnx", variant="c", ep="cpu")
    (component.directory / "c/a.onnx").unlink()
    (root / "digests.json").unlink()

    with pytest.raises(PackageFormatError, match="the model of another variant"):
        open_package(root)

    assert "ORT010" in {each.rule for each in validate(root) if each.severity is Severity.ERROR}


def test_nothing_to_save_changes_no_byte(tmp_path: Path) -> None:
    models = {
        "a": make_model(tmp_path / "a", {"w": weight(1)}),
        "b": make_model(tmp_path / "b", {"w": weight(2)}),
        "small": make_model(tmp_path / "s", {"w": weight(3, 15)}),
        "small too": make_model(tmp_path / "t", {"w": weight(3, 15)}),
        "embedded": make_model(tmp_path / "e", {"w": weight(1)}, embedded=["w"]),
    }
    root = make_package(tmp_path / "p", models)
    before = content_of(root)

    report = dedup(root)

    assert (report.saved_nbytes, report.moved, report.left_out) == (0, (), ())
    assert content_of(root) == before


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("embedded", [("w0", "w1", "w2"), ("w1",)])
def test_weights_in_the_models_are_shared_on_request(
    tmp_path: Path, layout: str, embedded: tuple[str, ...]
) -> None:
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS, embedded=embedded),
        "b": make_model(tmp_path / "b", WEIGHTS | {"w2": weight(8)}, embedded=embedded),
        "c": make_model(tmp_path / "c", WEIGHTS),
    }
    root = make_package(tmp_path / "p", models)

    saved = deduplicated(root, layout=layout, externalize_nbytes=1024)

    assert saved > 4 * 1024
    assert dedup(root).saved_nbytes == 0


def test_a_model_with_other_weights_in_it_keeps_them(tmp_path: Path) -> None:
    own = {"mine": weight(20)}
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS | own, embedded=[*WEIGHTS, "mine"]),
        "b": make_model(tmp_path / "b", WEIGHTS, embedded=list(WEIGHTS)),
    }
    root = make_package(tmp_path / "p", models)

    deduplicated(root, externalize_nbytes=1024)

    embedded = [
        each.name
        for path in root.rglob("*.onnx")
        for each in onnx.load(path, load_external_data=False).graph.initializer
        if each.raw_data
    ]
    assert embedded == ["mine"]


def test_a_folder_with_other_files_takes_others_in_but_does_not_move(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        make_model(tmp_path / name, WEIGHTS)
    for name in ("b", "c"):
        (tmp_path / name / "labels.txt").write_text("cat", encoding="utf-8")
    root = make_package(
        tmp_path / "p", {"a": tmp_path / "a/model.onnx", "b": tmp_path / "b", "c": tmp_path / "c"}
    )

    report = dedup(root)

    assert [(each.variant, each.model_file) for each in report.moved] == [
        ("a", "models/model/b/a.onnx")
    ]
    assert [(each.variant, each.reason) for each in report.left_out] == [
        ("c", "its folder holds other files: 'labels.txt'")
    ]
    assert "b/labels.txt" in files_of(root)
    assert results_of(root)


def test_a_model_that_is_found_without_being_named_is_named_before_another_joins(
    tmp_path: Path,
) -> None:
    root = make_package(
        tmp_path / "p", {name: make_model(tmp_path / name, WEIGHTS) for name in ("a", "b")}
    )
    path = edit_metadata(
        root, lambda variants: [body.pop("model_file") for body in variants.values()]
    )

    deduplicated(root)

    variants = json.loads(path.read_bytes())["model_variants"]
    assert variants["a"]["model_file"] == "model.onnx"
    assert (variants["b"]["model_id"], variants["b"]["model_file"]) == ("a", "b.onnx")


def test_a_package_of_the_drafts_keeps_its_form(tmp_path: Path) -> None:
    root = make_package(
        tmp_path / "p", {name: make_model(tmp_path / name, WEIGHTS) for name in ("a", "b")}
    )
    path = edit_metadata(root, lambda variants: None)
    variants = json.loads(path.read_bytes())["model_variants"]
    for body in variants.values():
        body["file"] = body.pop("model_file")
    manifest = {
        "model_name": "p",
        "x": [1],
        "component_models": {"model": {"note": "n", "model_variants": variants}},
    }
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    path.unlink()
    record(root)

    deduplicated(root)

    edited = json.loads((root / "manifest.json").read_bytes())
    assert list(edited) == ["model_name", "x", "component_models"]
    assert edited["component_models"]["model"]["model_variants"]["b"]["file"] == "b.onnx"
    assert not path.exists()


def test_a_package_of_the_component_generation_shares_through_variant_directory(
    tmp_path: Path,
) -> None:
    root = tmp_path / "p"
    body: dict[str, object] = {}
    for name in ("a", "b"):
        make_model(root / "m" / name, WEIGHTS)
        body[name] = {
            "ep": "CPUExecutionProvider",
            "executor_info": {"ort": {"model_file": "model.onnx"}},
        }
    (root / "m/component.json").write_text(json.dumps({"variants": body}), encoding="utf-8")
    manifest = {"schema_version": "1.0", "components": {"m": "m"}}
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    before = results_of(root)

    assert dedup(root).saved_nbytes == 3 * 1024

    assert_same_results(before, results_of(root))
    edited = json.loads((root / "m/component.json").read_bytes())["variants"]["b"]
    assert edited["variant_directory"] == "a"
    assert edited["executor_info"] == {"ort": {"model_file": "b.onnx"}}
    assert not (root / "m/b").exists()


def test_a_universal_package_changes_both_lists_alike(tmp_path: Path) -> None:
    root = make_package(
        tmp_path / "p", {name: make_model(tmp_path / name, WEIGHTS) for name in ("a", "b")}
    )
    path = edit_metadata(root, lambda variants: None)
    metadata = json.loads(path.read_bytes())
    metadata["variants"] = {
        name: {
            "ep": body["constraints"]["ep"],
            "executor_info": {"ort": {"model_file": "model.onnx"}},
        }
        for name, body in metadata["model_variants"].items()
    }
    path.write_text(json.dumps(metadata), encoding="utf-8")
    manifest = json.loads((root / "manifest.json").read_bytes())
    manifest |= {"schema_version": "1.1000", "components": {"model": "models/model/metadata.json"}}
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    record(root)
    before = results_of(root)

    assert dedup(root).saved_nbytes == 3 * 1024

    assert_same_results(before, results_of(root))
    edited = json.loads(path.read_bytes())
    assert (
        edited["model_variants"]["b"]["model_id"]
        == edited["variants"]["b"]["variant_directory"]
        == "a"
    )


def test_data_that_lies_twice_in_one_folder_or_one_file_is_stored_once(tmp_path: Path) -> None:
    tied = {"embedding": weight(1, 40), "head": weight(1, 40)}
    root = make_package(tmp_path / "p", {"tied": make_model(tmp_path / "tied", tied)})
    folder = root / "models/model/tied"
    for name in ("m1", "m2"):
        make_model(folder, {"w": weight(4, 40)}, name=f"{name}.onnx", location=f"{name}.bin")
    others = {name: {"model_id": "tied", "model_file": f"{name}.onnx"} for name in ("m1", "m2")}
    edit_metadata(root, lambda variants: variants.update(others))

    saved = deduplicated(root)

    assert saved > 2 * 6000


def test_two_variants_of_one_model_file_move_together(tmp_path: Path) -> None:
    root = make_package(
        tmp_path / "p", {name: make_model(tmp_path / name, WEIGHTS) for name in ("a", "b")}
    )
    again = {"again": {"model_id": "b", "model_file": "model.onnx"}}
    edit_metadata(root, lambda variants: variants.update(again))

    deduplicated(root)

    assert files_of(root) == ["a/b.onnx", "a/model.onnx", "a/weights.bin"]


def test_each_component_shares_on_its_own(tmp_path: Path) -> None:
    root = make_package(
        tmp_path / "p", {name: make_model(tmp_path / name, WEIGHTS) for name in ("a", "b")}
    )
    for name in ("c", "d"):
        add_variant(root, make_model(tmp_path / name, WEIGHTS), component="second", variant=name)

    saved = deduplicated(root)

    assert saved == 2 * 3 * 1024


def test_names_that_differ_in_case_only_are_kept_apart(tmp_path: Path) -> None:
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS, location="Own.bin"),
        "b": make_model(tmp_path / "b", WEIGHTS, name="MODEL.onnx"),
        "c": make_model(tmp_path / "c", WEIGHTS),
    }
    (tmp_path / "c/own.BIN").write_bytes(weight(30).tobytes())
    tensors = [*onnx.load(models["c"], load_external_data=False).graph.initializer]
    save_chain(models["c"], [*tensors, external("own", weight(30), "own.BIN", 0)])
    root = make_package(tmp_path / "p", models)

    deduplicated(root)

    names = [name.casefold() for name in files_of(root)]
    assert len(names) == len(set(names)) == 5


def make_nested_model(folder: Path, location: str) -> Path:
    """External tensors in branches of an If, in a Constant, and in one of a function."""
    arrays = {
        name: weight(seed) for seed, name in enumerate(("then", "else", "constant", "function"))
    }
    folder.mkdir()
    (folder / location).write_bytes(b"".join(array.tobytes() for array in arrays.values()))
    tensors = {
        name: external(name, array, location, index * 1024)
        for index, (name, array) in enumerate(arrays.items())
    }
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("MatMul", ["a", name], [f"{name}_out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, ["batch", 16])],
            [tensors[name]],
        )
        for name in ("then", "else")
    }
    nodes = [
        helper.make_node("Constant", [], ["k"], value=tensors["constant"]),
        helper.make_node("MatMul", ["x", "k"], ["a"]),
        helper.make_node("If", ["c"], ["b"], **branches),
        helper.make_node("f", ["b"], ["y"], domain="local"),
    ]
    inner = [
        helper.make_node("Constant", [], ["w"], value=tensors["function"]),
        helper.make_node("MatMul", ["z", "w"], ["out"]),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 16]) for name in "xy")
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    function = helper.make_function("local", "f", ["z"], ["out"], inner, opsets[:1])
    graph = helper.make_graph(nodes, "g", [x, c], [y])
    model = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=9)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def test_sub_graphs_functions_and_attributes_are_followed(tmp_path: Path) -> None:
    models = {
        "a": make_nested_model(tmp_path / "a", "weights.bin"),
        "b": make_nested_model(tmp_path / "b", "w.bin"),
    }
    root = make_package(tmp_path / "p", models)
    feeds = {"x": np.ones((2, 16), dtype=np.float32), "c": np.array(True)}
    before = InferenceSession(models["b"]).run(None, feeds)[0]

    assert dedup(root).saved_nbytes > 4 * 1024 - 100

    shared = open_package(root).components[0].variants[1].model_path
    assert shared is not None
    assert shared.parent.name == "a"
    np.testing.assert_array_equal(InferenceSession(shared).run(None, feeds)[0], before)
    onnx.checker.check_model(str(shared))
    assert files_of(root) == ["a/b.onnx", "a/model.onnx", "a/weights.bin"]


def test_sparse_initializers_are_followed(tmp_path: Path) -> None:
    def make(name: str, location: str) -> Path:
        values = external("s", weight(1).reshape(-1), location, 0)
        indices = with_location(
            numpy_helper.from_array(np.arange(256, dtype=np.int64) * 2, ""),
            location=location,
            offset=1024,
            length=2048,
        )
        path = save_chain(
            tmp_path / name / "model.onnx", [external("w", weight(2), location, 3072)]
        )
        model = onnx.load(path, load_external_data=False)
        model.graph.sparse_initializer.append(
            onnx.SparseTensorProto(values=values, indices=indices, dims=[512])
        )
        path.write_bytes(model.SerializeToString())
        (tmp_path / name / location).write_bytes(
            weight(1).tobytes()
            + (np.arange(256, dtype=np.int64) * 2).tobytes()
            + weight(2).tobytes()
        )
        return path

    root = make_package(tmp_path / "p", {"a": make("a", "weights.bin"), "b": make("b", "b.bin")})

    dedup(root)

    b = onnx.load(root / "models/model/a/b.onnx", load_external_data=False).graph
    places = [b.sparse_initializer[0].values, b.sparse_initializer[0].indices, b.initializer[0]]
    assert [[entry.value for entry in tensor.external_data] for tensor in places] == [
        ["weights.bin", "0", "1024"],
        ["weights.bin", "1024", "2048"],
        ["weights.bin", "3072", "1024"],
    ]


def test_a_length_that_is_not_stated_is_that_of_type_and_shape(tmp_path: Path) -> None:
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS),
        "b": make_model(tmp_path / "b", {"w1": weight(1)}, location="b.bin", length=None),
    }
    root = make_package(tmp_path / "p", models)

    deduplicated(root)

    (tensor,) = onnx.load(
        root / "models/model/a/b.onnx", load_external_data=False
    ).graph.initializer
    assert [entry.value for entry in tensor.external_data] == ["weights.bin", "1024", "1024"]


def test_a_checksum_of_a_file_that_is_left_does_not_stay(tmp_path: Path) -> None:
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS),
        "b": make_model(tmp_path / "b", WEIGHTS, location="b.bin", checksum="0" * 40),
    }
    root = make_package(tmp_path / "p", models)

    deduplicated(root)

    for tensor in onnx.load(
        root / "models/model/a/b.onnx", load_external_data=False
    ).graph.initializer:
        assert [entry.key for entry in tensor.external_data] == ["location", "offset", "length"]


@pytest.mark.parametrize("is_equal", [True, False])
def test_a_file_that_only_some_reader_understands_is_shared_whole_or_not_at_all(
    tmp_path: Path, is_equal: bool
) -> None:
    foreign: dict[str, Any] = {"prepacked_0": "key|0;1024"}
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS, **foreign),
        "b": make_model(
            tmp_path / "b", WEIGHTS, location="b.bin", padding=0 if is_equal else 64, **foreign
        ),
    }
    root = make_package(tmp_path / "p", models)

    report = dedup(root)

    assert [each.variant for each in report.moved] == (["b"] if is_equal else [])
    if is_equal:
        assert files_of(root) == ["a/b.onnx", "a/model.onnx", "a/weights.bin"]
        for tensor in onnx.load(
            root / "models/model/a/b.onnx", load_external_data=False
        ).graph.initializer:
            assert tensor.external_data[0].value == "weights.bin"


def test_overlapping_ranges_are_never_taken_apart(tmp_path: Path) -> None:
    def make(name: str, offsets: range) -> Path:
        path = save_chain(
            tmp_path / name / "model.onnx",
            [
                external(f"w{index}", weight(0), "w.bin", offset)
                for index, offset in enumerate(offsets)
            ],
        )
        (tmp_path / name / "w.bin").write_bytes(
            b"".join(weight(seed).tobytes() for seed in range(3))
        )
        return path

    models = {"overlapping": make("o", range(0, 1025, 4)), "plain": make("p", range(0, 2049, 1024))}
    root = make_package(tmp_path / "p.ortpackage", models)
    before = content_of(root)

    assert dedup(root).saved_nbytes == 0
    assert content_of(root) == before


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": 2049}, "is too short: 3072 bytes of 3073 needed"),
        ({"offset": (1 << 63) - 1}, "is too short"),
        ({"offset": 1 << 63}, "a whole number was expected"),
        ({"offset": -1}, "a whole number was expected"),
        ({"length": 4}, "has 4 bytes of external data; its type and shape need 1024"),
        ({"length": 1 << 40}, "is too short|bytes of external data"),
        ({"location": "../a/weights.bin"}, "leaves the model's folder"),
        ({"location": "missing.bin"}, "does not exist"),
    ],
)
def test_damaged_models_are_refused_and_nothing_is_changed(
    tmp_path: Path, entries: dict[str, object], message: str
) -> None:
    root = make_package(
        tmp_path / "p", {name: make_model(tmp_path / name, WEIGHTS) for name in ("a", "b")}
    )
    path = root / "models/model/b/model.onnx"
    tensors = [*onnx.load(path, load_external_data=False).graph.initializer]
    values = {"location": "weights.bin", "offset": 2048, "length": 1024} | entries
    del tensors[2].external_data[:]
    save_chain(path, [*tensors[:2], with_location(tensors[2], **values)])
    record(root)
    before = content_of(root)

    with pytest.raises(ModelFileError, match=message):
        dedup(root)

    assert content_of(root) == before


def test_damage_is_not_recorded_as_if_it_were_good(tmp_path: Path) -> None:
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS),
        "b": make_model(tmp_path / "b", WEIGHTS | {"w2": weight(5)}),
    }
    root = make_package(tmp_path / "p", models)
    data = bytearray((root / "models/model/b/weights.bin").read_bytes())
    data[-1] ^= 1
    (root / "models/model/b/weights.bin").write_bytes(data)
    before = content_of(root)

    with pytest.raises(
        DigestMismatchError, match=r"'models/model/b/weights.bin' is not as digests.json records it"
    ):
        dedup(root)

    assert content_of(root) == before


def test_hard_links_are_not_shared_and_symbolic_links_are_refused(tmp_path: Path) -> None:
    root = make_package(
        tmp_path / "p", {name: make_model(tmp_path / name, WEIGHTS) for name in ("a", "b")}
    )
    os.link(root / "models/model/a/weights.bin", tmp_path / "second name")

    report = dedup(root)

    assert [each.model_file for each in report.moved] == ["models/model/b/a.onnx"]
    assert results_of(root)
    (root / "models/model/b/link").symlink_to("weights.bin")
    with pytest.raises(
        AuthoringError, match=r"'models/model/b/link' is a symbolic link: weights are shared only"
    ):
        dedup(root)


def test_a_set_of_files_is_left_as_it_is(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_model(tmp_path / name, WEIGHTS)
        (tmp_path / name / "genai_config.json").write_text("{}", encoding="utf-8")
        save_chain(tmp_path / name / "second.onnx", [external("w", weight(0), "weights.bin", 0)])
    root = make_package(tmp_path / "p", {name: tmp_path / name for name in ("a", "b")})
    before = content_of(root)

    assert dedup(root).saved_nbytes == 0
    assert content_of(root) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "flat"}, "the layout 'flat' is none of common-directory, shared-weights"),
        (
            {"externalize_nbytes": 1023},
            "weights below 1024 bytes stay in the model, 1023 was given",
        ),
    ],
)
def test_refuses_what_makes_no_sense(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        dedup(tmp_path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_openvino_loads_what_is_shared(tmp_path: Path, layout: str) -> None:
    openvino = pytest.importorskip("openvino")
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS),
        "b": make_model(
            tmp_path / "b",
            WEIGHTS | {"w2": weight(5)},
            location="b.bin",
            packing=["w2", "w1", "w0"],
        ),
    }
    root = make_package(tmp_path / "p", models)
    before = results_of(root)
    feeds = np.linspace(-1, 1, 48, dtype=np.float32).reshape(3, 16)

    assert dedup(root, layout=layout).saved_nbytes > 0

    for variant in open_package(root).components[0].variants:
        compiled = openvino.Core().compile_model(
            str(variant.model_path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
        )
        np.testing.assert_allclose(
            compiled([feeds])[0], before[f"model/{variant.name}"][0], rtol=1e-4, atol=1e-5
        )


def test_data_that_another_variant_is_pointed_to_stays_where_it_is(tmp_path: Path) -> None:
    root = tmp_path / "p"
    ort: dict[str, Any] = {"model_file": "model.onnx"}
    options = {"session.model_external_initializers_file_folder_path": "b"}
    body: dict[str, Any] = {
        name: {"ep": "CPUExecutionProvider", "executor_info": {"ort": dict(ort)}}
        for name in ("a", "b", "pointed")
    }
    body["pointed"]["executor_info"]["ort"]["session_options"] = options
    body["pointed"]["variant_directory"] = "."
    body["pointed"]["executor_info"]["ort"]["model_file"] = "pointed.onnx"
    for name in ("a", "b"):
        make_model(root / "m" / name, WEIGHTS)
    shutil.copy(root / "m/b/model.onnx", root / "m/pointed.onnx")
    (root / "m/component.json").write_text(json.dumps({"variants": body}), encoding="utf-8")
    (root / "manifest.json").write_text(
        json.dumps({"schema_version": "1.0", "components": {"m": "m"}}), encoding="utf-8"
    )

    report = dedup(root)
    remove_variant(root, "b")

    assert [each.variant for each in report.moved] == []
    assert (root / "m/b/weights.bin").is_file()
    assert open_package(root).components[0].variant("pointed") is not None


def test_variants_that_share_through_a_third_one_join_too(tmp_path: Path) -> None:
    models = {
        "a": make_model(tmp_path / "a", {"w0": weight(0), "w1": weight(1)}),
        "b": make_model(tmp_path / "b", {"w2": weight(2)}),
        "c": make_model(tmp_path / "c", {"w0": weight(0), "w2": weight(2)}),
        "d": make_model(tmp_path / "d", {"w1": weight(1)}),
    }
    root = make_package(tmp_path / "p", models)

    assert deduplicated(root) > 3 * 1024 - 100


def test_a_later_variant_shares_what_is_addressed_by_checksum_already(tmp_path: Path) -> None:
    models = {name: make_model(tmp_path / name, WEIGHTS) for name in ("a", "b")}
    root = make_package(tmp_path / "p", models)
    deduplicated(root, layout="shared-weights")
    shared = {
        path: (root / path).read_bytes() for path in content_of(root) if "shared_weights" in path
    }
    add_variant(root, make_model(tmp_path / "c", WEIGHTS, location="c.bin"), variant="c", ep="qnn")

    saved = deduplicated(root, layout="shared-weights")

    assert saved > 3 * 1024 - 300  # its locations are longer
    assert {
        path: (root / path).read_bytes() for path in content_of(root) if "shared_weights" in path
    } == shared


def test_a_file_whose_name_says_another_checksum_is_not_shared(tmp_path: Path) -> None:
    models = {name: make_model(tmp_path / name, WEIGHTS) for name in ("a", "b")}
    root = make_package(tmp_path / "p", models)
    deduplicated(root, layout="shared-weights")
    (shared,) = root.rglob("model.data")
    (root / "digests.json").unlink()
    add_variant(root, make_model(tmp_path / "c", WEIGHTS, location="c.bin"), variant="c", ep="qnn")
    with shared.open("ab") as stream:
        stream.write(b"more")

    with pytest.raises(
        AuthoringError, match=r"'shared_weights/.*/model.data' in '.*' is damaged: its name says"
    ):
        dedup(root, layout="shared-weights")
