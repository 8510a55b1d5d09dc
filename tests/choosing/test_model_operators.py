"""Variants that need operators nothing here has are found when one is chosen, not when it runs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ortpkg
from ortpkg.foundations.errors import NoSuitableVariantError
from ortpkg.graph.needed_operators import ModelOperators
from ortpkg.selection.choosing import model_operators
from ortpkg.selection.choosing.model_operators import read_model_operators
from ortpkg.selection.matching.verdict import ReasonCode

PLAIN = "y = Relu(x)"
CUSTOM = "y = com.acme.Frobnicate(x)"
CONTRIB = "y = com.microsoft.Gelu(x)"
#: Only onnxruntime has it.
ONNXRUNTIME_ONLY = "y = com.microsoft.MurmurHash3(x)"
CONTEXT = 'y = com.microsoft.EPContext <embed_mode = 1, ep_cache_context = "p", source = "QNN">(x)'


def write_model(path: Path, body: str, output: str = "float") -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "com.acme" : 1, "com.microsoft" : 1]>'
        f"g (float[4] x) => ({output}[4] y) {{ {body} }}"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())


@pytest.fixture
def package(tmp_path: Path) -> Any:
    """package(name=body, ...): of another tool, which records nothing; variants of any EP."""

    def call(eps: dict[str, str] | None = None, **bodies: str) -> ortpkg.ModelPackage:
        root = tmp_path / "p.ortpackage"
        component = root / "models" / "m"
        for name, body in bodies.items():
            write_model(component / name / "model.onnx", body)
        variants = {
            name: {
                "model_file": "model.onnx",
                "constraints": {"ep": (eps or {})[name]} if name in (eps or {}) else {},
            }
            for name in bodies
        }
        (root / "manifest.json").write_text(
            json.dumps({"model_name": "p", "component_models": ["m"]})
        )
        (component / "metadata.json").write_text(
            json.dumps({"component_model_name": "m", "model_variants": variants})
        )
        return ortpkg.ModelPackage(root)

    return call


@pytest.mark.requirement("K12")
def test_the_next_variant_wins_where_nothing_has_an_operator_of_the_first(package: Any) -> None:
    selection = package(custom=CUSTOM, plain=PLAIN).select()

    assert selection.best is not None
    assert selection.best.variant.name == "plain"
    (warning,) = (each for each in selection.warnings if "passed over" in each)
    assert warning.startswith(
        "variant 'custom' is passed over on OpenVINOExecutionProvider (openvino) on CPU"
    )
    assert "OPERATOR_NOT_AVAILABLE: its model needs operator 'com.acme:Frobnicate'" in warning
    rejected = [verdict for verdict in selection.verdicts if verdict.variant.name == "custom"]
    assert {verdict.code for verdict in rejected} == {ReasonCode.OPERATOR_NOT_AVAILABLE}
    (embedded,) = (
        each
        for each in rejected
        if each.ep_device is not None and each.ep_device.backend == "embedded"
    )
    assert (
        embedded.reason
        == "its model needs operator 'com.acme:Frobnicate', which CPUExecutionProvider (embedded)"
        " does not have; a kernel in Python (ortpkg.register_custom_ops), a plug-in EP that has"
        " it, or onnxruntime with the library of custom operators that defines it would run it"
    )


def test_that_nothing_fits_says_which_operator_is_missing(package: Any) -> None:
    with pytest.raises(
        NoSuitableVariantError, match=r"'custom': OPERATOR_NOT_AVAILABLE: .*'com.acme:Frobnicate'"
    ):
        package(custom=CUSTOM).best_variant()


def test_an_operator_that_the_program_registered_is_there(package: Any) -> None:
    operator = ortpkg.custom_op(
        "com.acme", "Frobnicate", inputs={"x": "float"}, outputs={"y": "float"}
    )(np.negative)
    found = package(custom=CUSTOM, plain=PLAIN)
    ortpkg.register_custom_ops([operator])
    try:
        selection = found.select()
        assert {verdict.is_eligible for verdict in selection.verdicts} == {True}
        assert selection.best is not None
        assert selection.best.variant.name == "custom"
        session = found.create_session(backend="embedded", verify=False)
        assert isinstance(session, ortpkg.InferenceSession)
        assert session.run(None, {"x": np.ones(4, np.float32)})[0].tolist() == [-1.0] * 4
    finally:
        ortpkg.unregister_custom_ops("com.acme")
    assert found.select().best.variant.name == "plain"


def test_operators_of_onnxruntime_run_where_the_embedded_engine_has_them_or_onnxruntime_is(
    package: Any,
) -> None:
    found = package(contrib=CONTRIB, only=ONNXRUNTIME_ONLY)

    assert {each.is_eligible for each in found.select(variant="contrib").verdicts} == {True}
    eligible = {
        each.ep_device.backend: each.is_eligible for each in found.select(variant="only").verdicts
    }
    assert eligible == {"embedded": False, "llvm": False, "openvino": False, "onnxruntime": True}
    assert found.select(variant="only", backend="embedded").best is None


@pytest.mark.requirement("E10", "K12")
def test_a_context_of_an_absent_provider_is_not_for_the_cpu(package: Any) -> None:
    selection = package(context=CONTEXT, plain=PLAIN).select()

    assert selection.best.variant.name == "plain"
    verdict = next(each for each in selection.verdicts if each.variant.name == "context")
    assert verdict.code is ReasonCode.OPERATOR_NOT_AVAILABLE
    assert "compiled by 'QNNExecutionProvider'" in verdict.reason


def test_functions_of_the_model_are_no_missing_operators(package: Any, tmp_path: Path) -> None:
    found = package(plain=PLAIN)
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21, "local" : 1]> g (float[4] x) => (float[4] y) { y = local.twice(x) }
        <domain: "local", opset_import: ["" : 21]> twice (v) => (w) { w = Add(v, v) }"""
    )
    (tmp_path / "p.ortpackage" / "models" / "m" / "plain" / "model.onnx").write_bytes(
        model.SerializeToString()
    )
    x = np.ones(4, np.float32)
    assert (
        found.best_variant().create_session(verify=False).run(None, {"x": x})[0].tolist()
        == [2.0] * 4
    )


def raw_model(
    path: Path, op_type: str, opsets: dict[str, int], *, domain: str = "", scales: bool = False
) -> None:
    """Of one node; the parser of texts would refuse some of these."""
    inputs = ["x", "scales"] if scales else ["x"]
    weights = (
        [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")] if scales else []
    )
    graph = helper.make_graph(
        [helper.make_node(op_type, inputs, ["y"], domain=domain)],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 1, 2, 2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        weights,
    )
    imports = [helper.make_opsetid(*each) for each in opsets.items()]
    path.write_bytes(
        helper.make_model(graph, ir_version=8, opset_imports=imports).SerializeToString()
    )


NEWEST = onnx.defs.onnx_opset_version()
HOMELESS = (
    "its model needs operator 'ai.onnx.ml:Scaler', and does not import the domain: no opset says"
    " which it means"
)
LACKING = (
    "its model needs operator 'ai.onnx:{}, which CPUExecutionProvider (embedded) does not have; {}"
)


@pytest.mark.requirement("K12")
@pytest.mark.parametrize(
    ("op_type", "opset", "domain", "reason"),
    [
        ("Gelu", 17, "", LACKING.format("Gelu' of opset 17", "ONNX has Gelu from opset 20 on")),
        (
            "NoSuch",
            21,
            "",
            LACKING.format("NoSuch' of opset 21", "no opset of ONNX has an operator 'NoSuch'"),
        ),
        (
            "ThresholdedRelu",
            9,
            "",
            LACKING.format(
                "ThresholdedRelu' of opset 9", "ONNX has ThresholdedRelu from opset 10 on"
            ),
        ),
        (
            "Relu",
            999,
            "",
            f"its model imports opset 999 of ai.onnx; opsets 1 to {NEWEST} are known here",
        ),
        (
            "Scaler",
            17,
            "ai.onnx.ml",
            HOMELESS,
        ),
    ],
)
def test_the_next_variant_wins_where_the_imported_opset_lacks_an_operator(
    op_type: str, opset: int, domain: str, reason: str, package: Any
) -> None:
    found = package(first=PLAIN, plain=PLAIN)
    raw_model(
        found.root / "models" / "m" / "first" / "model.onnx", op_type, {"": opset}, domain=domain
    )

    selection = found.select(backend="embedded")
    assert selection.best.variant.name == "plain"
    (verdict,) = (
        each
        for each in selection.verdicts
        if each.variant.name == "first"
        and each.ep_device is not None
        and each.ep_device.backend == "embedded"
    )
    assert verdict.code is ReasonCode.OPERATOR_NOT_AVAILABLE
    assert verdict.reason == reason
    with pytest.raises(NoSuitableVariantError, match="OPERATOR_NOT_AVAILABLE"):
        found.create_session(variant="first", backend="embedded")


@pytest.mark.parametrize(
    ("op_type", "opset", "who"),
    [
        ("Gelu", 20, {"embedded", "llvm", "openvino", "onnxruntime"}),
        ("Gelu", 17, {"openvino"}),
        ("NoSuchThing", 21, set()),
        ("ThresholdedRelu", 9, {"openvino", "onnxruntime"}),
        ("Upsample", 10, {"embedded", "llvm", "openvino", "onnxruntime"}),
        ("Relu", 999, set()),
    ],
)
def test_each_backend_is_offered_what_its_sessions_run(
    op_type: str, opset: int, who: set[str], package: Any
) -> None:
    """OpenVINO takes an operator by its name, whatever the opset.

    What others refuse may go to the embedded engine.
    """
    found = package(only=PLAIN)
    raw_model(
        found.root / "models" / "m" / "only" / "model.onnx",
        op_type,
        {"": opset},
        scales=op_type == "Upsample",
    )

    eligible = {each.ep_device.backend for each in found.select().verdicts if each.is_eligible}
    assert eligible == who
    x = np.ones((1, 1, 2, 2), np.float32)
    for backend in who:
        assert found.create_session(backend=backend, verify=False).run(None, {"x": x})[0].size in (
            4,
            16,
        )


def test_what_other_runtimes_refuse_is_warned_of(package: Any) -> None:
    found = package(only=PLAIN)
    path = found.root / "models" / "m" / "only" / "model.onnx"
    raw_model(path, "Upsample", {"": 10}, scales=True)
    assert (
        found.select(backend="embedded").warnings[-1]
        == "variant 'only': its model needs operator 'ai.onnx:Upsample' of opset 10, out of use"
        " since opset 10: onnxruntime itself refuses such a model"
    )
    raw_model(path, "Gelu", {"": 17})
    assert (
        found.select(backend="openvino").warnings[-1]
        == "variant 'only': its model needs operator 'ai.onnx:Gelu' of opset 17, which"
        " OpenVINOExecutionProvider (openvino) has all the same; ONNX has Gelu from opset 20 on"
    )


def test_another_machine_without_that_provider_here_cannot_tell(package: Any) -> None:
    found = package({"custom": "CUDAExecutionProvider"}, custom=CUSTOM)
    selection = found.select(profile="rtx-workstation")

    assert selection.best is not None
    (warning,) = (each for each in selection.warnings if "com.acme" in each)
    assert (
        warning
        == "variant 'custom': it cannot be told here whether CUDAExecutionProvider (onnxruntime)"
        " has operator 'com.acme:Frobnicate'"
    )


def test_what_is_not_here_or_no_model_is_left_to_the_run(package: Any, tmp_path: Path) -> None:
    found = package(custom=CUSTOM)
    (tmp_path / "p.ortpackage" / "models" / "m" / "custom" / "model.onnx").write_bytes(b"damaged")
    assert found.select().best is not None


def test_only_the_variants_that_are_looked_at_are_opened(
    package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def read(path: Path) -> ModelOperators | None:
        opened.append(path.parent.name)
        return read_model_operators(path)

    monkeypatch.setattr(model_operators, "read_model_operators", read)
    selection = package(**{f"v{index}": PLAIN for index in range(20)}).select()
    assert opened == ["v0"]
    assert len(selection.verdicts) >= 20
    assert len(opened) == 20


def test_a_long_walk_over_all_nodes_is_remembered_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "m.onnx"
    write_model(path, CUSTOM)
    old = time.time_ns() - 10_000_000_000
    os.utime(path, ns=(old, old))
    monkeypatch.setattr("ortpkg.foundations.storage.file_stamp._LEAST_AGE_NS", 0)
    monkeypatch.setattr(model_operators, "_LEAST_WORTH_S", 0)
    monkeypatch.setattr(model_operators, "_LEAST_NBYTES", 0)
    found = read_model_operators(path)
    assert found == ModelOperators(operators=(("com.acme", "Frobnicate"),))

    def scan(_path: Path, **_limits: Any) -> ModelOperators:
        raise AssertionError("walked again")

    monkeypatch.setattr("ortpkg.graph.operator_scan.scan_model_file", scan)
    assert read_model_operators(path) == found
    write_model(path, CONTRIB + " z = com.acme.Other(y)")
    with pytest.raises(AssertionError, match="walked again"):
        read_model_operators(path)
