"""Packages read, selected from and run by releases' rules, through the façade."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg import ModelPackage, SessionOptions
from ortpkg.api.release_comparison import compare_with_releases
from ortpkg.foundations.errors import (
    InvalidSessionOptionError,
    ModelError,
    ModelFileError,
    NoSuitableVariantError,
    TrustRequiredError,
    UnknownComponentError,
    UsageError,
)

COMPAT = "onnxruntime-1.31"
CPU = "CPUExecutionProvider"
FOLDER = "session.model_external_initializers_file_folder_path"

WritePackage = Callable[..., Path]


def _model(offset: float) -> bytes:
    """``y = x + offset``."""
    text = f"""
        <ir_version: 9, opset_import: ["": 17]>
        g (float[n] x) => (float[n] y) <float[1] o = {{{offset}}}> {{ y = Add(x, o) }}
    """
    serialized: bytes = onnx.parser.parse_model(text).SerializeToString()
    return serialized


def _model_with_weights_in(location: str) -> bytes:
    model = onnx.load_from_string(_model(0))
    (weights,) = model.graph.initializer
    del weights.float_data[:]
    weights.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "4")):
        weights.external_data.add(key=key, value=value)
    serialized: bytes = model.SerializeToString()
    return serialized


@pytest.fixture
def write_package(tmp_path: Path) -> WritePackage:
    """write_package(variants, **files): the component "c", inline, and files by path (with "/")."""

    def write(
        variants: Mapping[str, Any], files: Mapping[str, bytes] | None = None, **manifest: Any
    ) -> Path:
        root = tmp_path.resolve() / "p.ortpackage"
        root.mkdir()
        document = {"schema_version": "1.0", "components": {"c": {"variants": variants}}} | manifest
        (root / "manifest.json").write_text(json.dumps(document), encoding="utf-8")
        for path, content in (files or {}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        return root

    return write


def _variant(ep: str | None = CPU, **payload: Any) -> dict[str, Any]:
    stated = {} if ep is None else {"ep": ep}
    return stated | {"executor_info": {"ort": {"model_file": "m.onnx"} | payload}}


def _run(package: ModelPackage, *own: SessionOptions, backend: str = "embedded") -> float:
    variant = package.best_variant("c", policy=COMPAT)
    (output,) = variant.create_session(*own, backend=backend).run(
        None, {"x": np.zeros(1, np.float32)}
    )
    return float(np.asarray(output)[0])


# --- selection ------------------------------------------------------------------------------------


@pytest.mark.requirement("K16")
def test_a_policy_of_a_release_is_chosen_by_name(write_package: WritePackage) -> None:
    root = write_package(
        {"any": _variant(None), "cpu": _variant()},
        {"any/m.onnx": _model(1), "cpu/m.onnx": _model(2)},
    )

    assert ModelPackage(root).best_variant("c", policy="onnxruntime-1.31").name == "cpu"
    assert _run(ModelPackage(root, compat=COMPAT)) == 2.0


def test_an_application_may_ask_for_execution_providers_in_an_order(
    write_package: WritePackage,
) -> None:
    azure = "AzureExecutionProvider"
    root = write_package(
        {"cpu": _variant(), "azure": _variant(azure)},
        {n + "/m.onnx": _model(1) for n in ("cpu", "azure")},
    )
    package = ModelPackage(root)

    for eps in (["azure", "cpu"], "azure,cpu", "AzureExecutionProvider"):
        assert package.best_variant(policy=COMPAT, ep=eps).name == "azure"
    with pytest.raises(UsageError, match="policy default takes one execution provider, not 2"):
        package.select(ep=["azure", "cpu"])


def test_what_a_release_would_choose_is_logged_like_any_decision(
    write_package: WritePackage,
) -> None:
    records: list[dict[str, Any]] = []
    package = ModelPackage(write_package({"cpu": _variant()}, {"cpu/m.onnx": _model(1)}))
    package.select(policy=COMPAT, log=records.append)
    (record,) = records
    assert (record["kind"], record["package"]["root"]) == ("selection_decision", str(package.root))


def test_a_release_takes_no_device(write_package: WritePackage) -> None:
    package = ModelPackage(write_package({"cpu": _variant()}, {"cpu/m.onnx": _model(1)}))

    with pytest.raises(
        UsageError, match=r"policy onnxruntime-1\.31 goes by execution providers alone"
    ):
        package.select(policy=COMPAT, device="cpu")


def test_what_a_release_does_not_open_it_does_not_select_from(write_package: WritePackage) -> None:
    root = write_package({"cpu": _variant()}, {"cpu/m.onnx": _model(1)})
    package = ModelPackage(root)

    selection = package.select(policy="onnxruntime-1.27", ep="azure")
    (verdict,) = selection.verdicts

    assert verdict.reason == (
        "onnxruntime 1.27 does not open the package: "
        "manifest.json: has no model_name, which must be a text that is not empty"
    )
    with pytest.raises(NoSuitableVariantError, match="PACKAGE_REFUSED"):
        package.best_variant(policy="onnxruntime-1.27", ep="azure")


def test_1_31_does_not_select_from_the_metadata_generation(tmp_path: Path) -> None:
    folder = tmp_path / "p.ortpackage" / "models" / "c"
    (folder / "v").mkdir(parents=True)
    (folder / "v" / "m.onnx").write_bytes(_model(1))
    metadata = {
        "model_variants": {
            "v": {"model_file": "m.onnx", "constraints": {"ep": "AzureExecutionProvider"}}
        }
    }
    (folder / "metadata.json").write_text(json.dumps(metadata))
    root = tmp_path / "p.ortpackage"
    (root / "manifest.json").write_text(json.dumps({"model_name": "m", "component_models": ["c"]}))
    package = ModelPackage(root)

    assert package.select(policy="onnxruntime-1.27", ep="azure").best is not None
    (verdict,) = package.select(policy="onnxruntime-1.31", ep="azure").verdicts
    assert verdict.reason.startswith(
        "onnxruntime 1.31 does not open the package: manifest.json: lacks 'schema_version'"
    )


def test_choices_are_compared_and_a_tie_of_1_27_agrees_with_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "p.ortpackage" / "models" / "c"
    for name in ("b", "a"):
        (folder / name).mkdir(parents=True)
        (folder / name / "m.onnx").write_bytes(_model(1))
    older = {"model_file": "m.onnx", "constraints": {"ep": "AzureExecutionProvider"}}
    metadata = {
        "model_variants": dict.fromkeys(("b", "a"), older),
        "variants": dict.fromkeys(("b", "a"), _variant("AzureExecutionProvider")),
    }
    (folder / "metadata.json").write_text(json.dumps(metadata))
    manifest = {
        "model_name": "m",
        "component_models": ["c"],
        "schema_version": "1.1000",
        "components": {"c": "models/c/metadata.json"},
    }
    (tmp_path / "p.ortpackage" / "manifest.json").write_text(json.dumps(manifest))

    choices = compare_with_releases(ModelPackage(tmp_path / "p.ortpackage"))

    assert [
        (
            each.selection.policy,
            each.eps,
            each.selection.best and each.selection.best.variant.name,
            each.agrees,
        )
        for each in choices
    ] == [
        ("default", (), "b", True),
        ("onnxruntime-1.27", (), None, False),
        ("onnxruntime-1.27", ("AzureExecutionProvider",), "a", False),
        ("onnxruntime-1.31", (), None, False),
        ("onnxruntime-1.31", ("AzureExecutionProvider",), "b", True),
        ("onnxruntime-1.32", (), None, False),
        ("onnxruntime-1.32", ("AzureExecutionProvider",), "b", True),
    ]
    assert choices[2].selection.unpredictable == ("a", "b")
    with pytest.raises(
        TypeError, match=r"compare_with_releases\(\) got an unexpected keyword argument 'ep'"
    ):
        compare_with_releases(ModelPackage(tmp_path / "p.ortpackage"), ep="cpu")


# --- sessions -------------------------------------------------------------------------------------


def test_no_session_without_a_model_file_whatever_lies_in_the_folder(
    write_package: WritePackage,
) -> None:
    root = write_package({"cpu": {"ep": CPU}}, {"cpu/m.onnx": _model(1)})
    variant = ModelPackage(root, compat=COMPAT).best_variant("c", policy=COMPAT)

    with pytest.raises(
        ModelError,
        match=r"has no executor_info\[\"ort\"\]\[\"model_file\"\]: onnxruntime-1\.31 makes no",
    ):
        variant.create_session()


def test_a_session_option_of_the_wrong_type_is_refused_unless_the_caller_has_options(
    write_package: WritePackage,
) -> None:
    options = {"session.intra_op_num_threads": "not_an_int"}
    package = ModelPackage(
        write_package({"v": _variant(session_options=options)}, {"v/m.onnx": _model(3)}),
        compat=COMPAT,
    )

    with pytest.raises(InvalidSessionOptionError, match="takes a base-10 int32, not 'not_an_int'"):
        _run(package)
    assert _run(package, SessionOptions()) == 3.0


def test_digests_are_nothing_that_a_release_knows(write_package: WritePackage) -> None:
    root = write_package({"v": _variant()}, {"v/m.onnx": _model(3), "digests.json": b"[]"})
    package = ModelPackage(root, compat=COMPAT)

    assert _run(package) == 3.0
    variant = package.best_variant("c", policy=COMPAT)
    with pytest.raises(Exception, match=r"digests\.json"):
        variant.create_session(verify=True)


def test_a_release_makes_sessions_of_one_named_component(write_package: WritePackage) -> None:
    components = {name: {"variants": {name: _variant()}} for name in ("a", "b")}
    root = write_package(
        {}, {f"{name}/m.onnx": _model(1) for name in ("a", "b")}, components=components
    )

    with pytest.raises(UnknownComponentError, match="has 2 component models"):
        ModelPackage(root, compat=COMPAT).create_session(policy=COMPAT)


@pytest.mark.parametrize("backend", ["embedded", "onnxruntime", "openvino"])
@pytest.mark.parametrize("compat", [None, COMPAT])
@pytest.mark.parametrize("has_own_options", [False, True])
def test_weights_in_a_folder_of_the_package_need_no_trust_on_any_backend(
    write_package: WritePackage, backend: str, compat: str | None, has_own_options: bool
) -> None:
    ep = "OpenVINOExecutionProvider" if backend == "openvino" else CPU
    variant = _variant(ep, session_options={FOLDER: "weights"})
    weights = np.array([7.0], np.float32).tobytes()
    root = write_package(
        {"v": variant}, {"v/m.onnx": _model_with_weights_in("w.bin"), "v/weights/w.bin": weights}
    )
    own = SessionOptions()
    untouched = copy.deepcopy(own)

    session = (
        ModelPackage(root, compat=compat)
        .best_variant("c", policy=COMPAT, ep=ep)
        .create_session(own if has_own_options else None, backend=backend)
    )

    (output,) = session.run(None, {"x": np.zeros(1, np.float32)})
    assert np.asarray(output) == 7.0
    assert own == untouched


def test_the_callers_folder_wins_over_the_packages(write_package: WritePackage) -> None:
    variant = _variant(session_options={FOLDER: "weights"})
    files = {
        "v/m.onnx": _model_with_weights_in("w.bin"),
        "v/weights/w.bin": np.array([7.0], np.float32).tobytes(),
    }
    own = SessionOptions()
    own.add_session_config_entry(FOLDER, "/nowhere")

    with pytest.raises(ModelFileError):
        _run(ModelPackage(write_package({"v": variant}, files)), own)


def test_strictly_an_option_that_writes_needs_trust(write_package: WritePackage) -> None:
    variant = _variant(session_options={"ep.context_enable": "1"})
    root = write_package({"v": variant}, {"v/m.onnx": _model(3)})

    with pytest.raises(TrustRequiredError, match=r"'ep\.context_enable'"):
        _run(ModelPackage(root))
    assert _run(ModelPackage(root, trust=True)) == 3.0
    assert _run(ModelPackage(root, compat=COMPAT)) == 3.0


def test_a_variant_selected_by_a_release_survives_pickling(write_package: WritePackage) -> None:
    root = write_package({"v": _variant()}, {"v/m.onnx": _model(3)})
    variant = ModelPackage(root, compat=COMPAT).best_variant("c", policy=COMPAT)

    copied = pickle.loads(pickle.dumps(variant))

    assert copied.selection == variant.selection
    assert copied.verdict(backend="embedded").code == "LOWER_RANK"
