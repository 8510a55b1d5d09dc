"""Each rule, on a package that keeps it and on the same package with one thing changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.authoring.package_checks import PACKAGE_CHECKS
from ortpkg.authoring.rules import (
    AUTHORING_RULES,
    file_rules,
    genai_rules,
    model_rules,
    pipeline_rules,
    release_rules,
    sample_rules,
    selection_rules,
)
from ortpkg.authoring.rules.targets import GENAI, UNIVERSAL
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_27, ONNXRUNTIME_1_31
from ortpkg.package.integrity.asset_digest import listing_digest
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.paths.asset_reference import asset_folder_name
from tests.authoring.checks.trees import (
    CPU,
    CUDA,
    Tree,
    component_tree,
    context_model,
    external,
    findings_of,
    genai_tree,
    metadata_tree,
    model,
    model_with_data,
    npz,
    pipeline_tree,
    sample_tree,
    universal_tree,
    variant,
    weightless_model,
    write_tree,
)

_ASSET_CONTENT = b"weights"
ASSET = listing_digest({"weights.bin": hashlib.sha256(_ASSET_CONTENT).hexdigest()})
ASSET_FOLDER = f"shared_assets/{asset_folder_name(ASSET)}"


@dataclass(frozen=True, kw_only=True)
class RuleCase:
    """What breaks a rule.

    Attributes:
        rule: the rule.
        message: part of what the finding says.
        good: the package that keeps it.
        change: changes the files, or, with ``after``, what was written.
        target: for whom it is validated.
        posix: needs links or names that Windows does not have.
    """

    rule: Rule
    message: str
    good: Callable[[], Tree] = component_tree
    change: Callable[[Tree], Any] = lambda tree: None
    after: Callable[[Path], Any] = lambda root: None
    target: str = ""
    posix: bool = False


def _derived() -> Tree:
    tree = component_tree()
    digest = hashlib.sha256(tree["cpu/model.onnx"]).hexdigest()
    facts = {"metadata": {"derived_from": {"variant": "cpu", "model": digest}}}
    variants = tree["manifest.json"]["components"]["m"]["variants"]
    variants["gpu"]["additional_metadata"] = {"ortpkg": facts}
    return tree


def _with_data() -> Tree:
    return component_tree() | {"gpu/model.onnx": model_with_data(), "gpu/w.bin": bytes(16)}


def _with_context() -> Tree:
    tree = component_tree(cpu=variant(), npu=variant("QNNExecutionProvider", "npu"))
    return tree | {"npu/model.onnx": context_model(), "npu/net.bin": b"compiled"}


def _with_weightless_context() -> Tree:
    tree = _with_context() | {"npu/model.onnx": weightless_model("2", "net.onnx")}
    return tree | {"npu/net.onnx": model_with_data(), "npu/w.bin": bytes(16)}


def _for_openvino(info: str) -> Tree:
    tree = _with_context()
    _variants(tree)["npu"].update(ep="OpenVINOExecutionProvider", compatibility_string=info)
    return tree


def _asset_tree() -> Tree:
    return component_tree() | {f"{ASSET_FOLDER}/weights.bin": _ASSET_CONTENT}


def _recorded(root: Path) -> None:
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))


def _variants(tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = tree["manifest.json"]["components"]["m"]["variants"]
    return found


def _two_components(tree: Tree) -> None:
    tree["manifest.json"]["component_models"].append("n")
    tree["manifest.json"]["components"]["n"] = "models/n/metadata.json"
    tree |= {
        name.replace("models/m/", "models/n/"): content
        for name, content in tree.items()
        if "/m/" in name
    }


def _add_variant(tree: Tree, name: str, body: dict[str, Any]) -> None:
    _variants(tree)[name] = body
    tree[f"{name}/model.onnx"] = model()


def _link_out(root: Path) -> None:
    (root.parent / "secret").write_bytes(bytes(16))
    (root / "gpu/w.bin").unlink()
    (root / "gpu/w.bin").symlink_to(root.parent / "secret")


def _link_inside(root: Path) -> None:
    (root / "gpu/w.bin").rename(root / "cpu/w.bin")
    (root / "gpu/w.bin").symlink_to("../cpu/w.bin")


def _data(*tensors: Any) -> Callable[[Tree], Any]:
    return lambda tree: tree.update({"gpu/model.onnx": model_with_data(*tensors)})


def _context(**attributes: Any) -> Callable[[Tree], Any]:
    return lambda tree: tree.update({"npu/model.onnx": context_model(**attributes)})


def _metadata_option(key: str, value: str) -> Callable[[Tree], Any]:
    def change(tree: Tree) -> None:
        tree["models/m/metadata.json"]["model_variants"]["cpu"]["session_options"] = {key: value}

    return change


def _file(path: str, content: bytes = b"") -> Callable[[Tree], Any]:
    return lambda tree: tree.update({path: content})


def _put_folder_in_place(root: Path) -> None:
    (root / "notes.txt").unlink()
    (root / "notes.txt").mkdir()


def _replace_by(make: Callable[[], Tree]) -> Callable[[Tree], Any]:
    def change(tree: Tree) -> None:
        tree.clear()
        tree.update(make())

    return change


def _after_recording(change: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def after(root: Path) -> None:
        _recorded(root)
        change(root)

    return after


DATA_CASES = (
    RuleCase(
        rule=model_rules.DATA_LEAVES,
        good=_with_data,
        change=_data(external(location="../cpu/w.bin")),
        message="data file '../cpu/w.bin' of tensor 'w' in variant 'gpu' leaves the model's folder",
    ),
    RuleCase(
        rule=model_rules.DATA_LEAVES,
        good=_with_data,
        change=_data(external(location="/etc/passwd")),
        message="is an absolute path",
    ),
    RuleCase(
        rule=model_rules.DATA_LEAVES,
        good=_with_data,
        change=_data(external(location="sub\\w.bin")),
        message="has a backslash",
    ),
    RuleCase(
        rule=model_rules.DATA_LEAVES,
        good=_with_data,
        change=_data(external(location="")),
        message="is not a file name",
    ),
    RuleCase(
        rule=model_rules.DATA_LEAVES,
        good=_with_data,
        after=_link_out,
        message="leads out of the package through a symbolic link",
        posix=True,
    ),
    RuleCase(
        rule=model_rules.DATA_NOT_PLAIN,
        good=_with_data,
        after=_link_inside,
        message="is reached through a symbolic link",
        posix=True,
    ),
    RuleCase(
        rule=model_rules.DATA_NOT_PLAIN,
        good=_with_data,
        change=lambda tree: tree.update({"gpu/w.bin/x": tree.pop("gpu/w.bin")}),
        message="is not a regular file",
    ),
    RuleCase(
        rule=model_rules.DATA_HARD_LINKED,
        good=_with_data,
        after=lambda root: os.link(root / "gpu/w.bin", root / "cpu/w.bin"),
        message="has 2 names",
    ),
    RuleCase(
        rule=model_rules.DATA_MISSING,
        good=_with_data,
        change=lambda tree: tree.pop("gpu/w.bin"),
        message="does not exist",
    ),
    RuleCase(
        rule=model_rules.DATA_TOO_SHORT,
        good=_with_data,
        change=_file("gpu/w.bin", bytes(15)),
        message="15 bytes of 16 needed",
    ),
    RuleCase(
        rule=model_rules.DATA_TOO_SHORT,
        good=_with_data,
        change=_data(external(offset=str(2**63 - 1))),
        message=f"16 bytes of {2**63 + 15} needed",
    ),
    RuleCase(
        rule=model_rules.DATA_RANGE,
        good=_with_data,
        change=_data(external(offset="-8")),
        message="the offset '-8'",
    ),
    RuleCase(
        rule=model_rules.DATA_RANGE,
        good=_with_data,
        change=_data(external(offset=str(2**63))),
        message="a whole number below 2^63",
    ),
    RuleCase(
        rule=model_rules.DATA_RANGE,
        good=_with_data,
        change=_data(external(length="12")),
        message="tensor 'w' of variant 'gpu' has the length 12; its type and shape need 16 bytes",
    ),
    RuleCase(
        rule=model_rules.DATA_OVERLAPS,
        good=lambda: (
            _with_data()
            | {
                "gpu/model.onnx": model_with_data(external("a"), external("b")),
                "gpu/w.bin": bytes(32),
            }
        ),
        change=_data(external("a"), external("b", offset="8")),
        message=(
            "tensors 'a' and 'b' of variant 'gpu' overlap in 'w.bin': bytes 0 to 16 and 8 to 24"
        ),
    ),
)

MODEL_CASES = (
    RuleCase(
        rule=model_rules.MODEL_WRONG,
        change=_file("gpu/model.onnx", b"rubbish"),
        message="is not an ONNX model",
    ),
    RuleCase(
        rule=model_rules.CONTEXT_LEAVES,
        good=_with_context,
        change=_context(ep_cache_context="../net.bin"),
        message="compiled context '../net.bin' of variant 'npu' leaves the model's folder",
    ),
    RuleCase(
        rule=model_rules.CONTEXT_MISSING,
        good=_with_context,
        change=lambda tree: tree.pop("npu/net.bin"),
        message="does not exist",
    ),
    RuleCase(
        rule=model_rules.CONTEXT_MISSING,
        good=_with_context,
        change=_file("npu/net.bin"),
        message="is empty",
    ),
    RuleCase(
        rule=model_rules.CONTEXT_WITHOUT_MAIN,
        good=_with_context,
        change=_context(main_context=0),
        message="has EPContext nodes of 'QNN' and no main one",
    ),
    RuleCase(
        rule=model_rules.CONTEXT_SOURCE,
        good=_with_context,
        change=_context(source="OpenVINOExecutionProvider"),
        message="'QNNExecutionProvider' or 'QNN'; 'OpenVINOExecutionProvider' compiled its model",
    ),
    RuleCase(
        rule=model_rules.CONTEXT_MAKER_REMOVED,
        good=_with_context,
        change=_context(source="PrepackExecutionProvider"),
        message="holds a compiled context, and PrepackExecutionProvider is no longer part of ortpkg",
    ),
    RuleCase(
        rule=model_rules.CONTEXT_WEIGHTS,
        good=_with_weightless_context,
        change=lambda tree: tree.pop("npu/net.onnx"),
        message=(
            "variant 'npu': its contexts take weights from 'net.onnx' (weightless_mode 2), which"
            " does not exist"
        ),
    ),
    RuleCase(
        rule=model_rules.CONTEXT_WEIGHTS,
        good=_with_weightless_context,
        change=_file("npu/w.bin", bytes(15)),
        message="from 'w.bin' (weightless_mode 2), which is too short: 15 bytes of 16 needed",
    ),
    RuleCase(
        rule=model_rules.CONTEXT_WEIGHTS,
        good=_with_weightless_context,
        change=lambda tree: tree.update({"npu/model.onnx": weightless_model("2")}),
        message="(weightless_mode 2), and nothing names that",
    ),
    RuleCase(
        rule=model_rules.CONTEXT_WEIGHTS,
        good=_with_weightless_context,
        change=lambda tree: tree.update({"npu/model.onnx": weightless_model("2", "/net.onnx")}),
        message="'model.onnx' takes its weights from '/net.onnx', which is no relative path",
    ),
    RuleCase(
        rule=model_rules.OPERATOR_UNKNOWN,
        change=_file("gpu/model.onnx", model(domain="com.acme")),
        message=(
            "the model of variant 'gpu' needs the operator 'com.acme:Identity', which no known"
            " library has"
        ),
    ),
    RuleCase(
        rule=model_rules.BOUND_TO_ONE_CPU,
        change=_file(
            "gpu/model.onnx", model(domain="com.microsoft.nchwc", operator="ReorderInput")
        ),
        message=(
            "the model of variant 'gpu' was optimized for one CPU: it has"
            " 'com.microsoft.nchwc:ReorderInput'"
        ),
    ),
    RuleCase(
        rule=model_rules.OPERATOR_UNDEFINED,
        change=_file("gpu/model.onnx", model(operator="Gelu")),
        message=(
            "'gpu' has no definition of 'ai.onnx:Gelu' of opset 17 (ONNX has it from opset 20 on)"
        ),
    ),
    RuleCase(
        rule=model_rules.OPERATOR_DEPRECATED,
        change=_file("gpu/model.onnx", model(operator="Upsample")),
        message="the model of variant 'gpu' has 'ai.onnx:Upsample' of opset 17, deprecated there",
    ),
    RuleCase(
        rule=model_rules.ATTRIBUTE_UNDEFINED,
        change=_file("gpu/model.onnx", model(operator="Relu", attributes="alpha = 0.5")),
        message=(
            "the model of variant 'gpu' has no definition of the attribute 'alpha' of"
            " 'ai.onnx:Relu' of opset 17"
        ),
    ),
    RuleCase(
        rule=model_rules.VALUES_DIFFER,
        change=_file("gpu/model.onnx", model("(float16[n, 4] x) => (float16[n, 4] y)")),
        message="variant 'gpu' differs from 'cpu': input 'x' has the type 'tensor(float16)'",
    ),
    RuleCase(
        rule=model_rules.FIXED_DIMENSIONS_DIFFER,
        change=_file("gpu/model.onnx", model("(float[n, 8] x) => (float[n, 8] y)")),
        message="input 'x' has the fixed dimension 8 at axis 1, not 4",
    ),
    RuleCase(
        rule=model_rules.SOURCE_CHANGED,
        message="variant 'gpu' is stale: it was made of another model than the one of variant",
        good=_derived,
        change=lambda tree: tree.update({"cpu/model.onnx": model(operator="Relu")}),
    ),
    RuleCase(
        rule=model_rules.OVERALL_VALUES_OUTDATED,
        good=metadata_tree,
        change=lambda tree: tree["manifest.json"].update(
            {"inputs": [{"name": "image", "type": "tensor(float)"}]}
        ),
        message="inputs are 'image: tensor(float)', those of the model are 'x: tensor(float)'",
    ),
)

SELECTION_CASES = (
    RuleCase(
        rule=selection_rules.NO_CPU_VARIANT,
        change=lambda tree: _variants(tree).pop("cpu"),
        message="no variant that runs on a CPU",
    ),
    RuleCase(
        rule=selection_rules.SELECTION_TIE,
        change=lambda tree: _add_variant(tree, "gpu-int8", variant(CUDA, "gpu")),
        message=(
            "'gpu-int8' and 'gpu' have the same constraints: ortpkg, and onnxruntime 1.28 to 1.32,"
            " select 'gpu'"
        ),
    ),
    RuleCase(
        rule=selection_rules.SELECTION_TIE,
        good=metadata_tree,
        change=lambda tree: tree["models/m/metadata.json"]["model_variants"]["cpu"].update(
            {"constraints": {"ep": CUDA, "device": "GPU"}}
        ),
        message="declared first; onnxruntime 1.26 and 1.27 select one that cannot be foretold",
    ),
    RuleCase(
        rule=selection_rules.CPU_DEVICE_STATED,
        change=lambda tree: _variants(tree)["cpu"].update({"device": "CPU"}),
        message="states the device 'CPU': onnxruntime 1.28 to 1.31 never select it",
    ),
    RuleCase(
        rule=selection_rules.EP_NOT_STATED,
        change=lambda tree: _variants(tree)["gpu"].pop("ep"),
        message="variant 'gpu' names no ep",
    ),
    RuleCase(
        rule=selection_rules.DEVICE_NEVER_MATCHES,
        change=lambda tree: _variants(tree)["gpu"].update({"device": "npu"}),
        message="variant 'gpu' is for 'npu'; CUDAExecutionProvider runs on gpu only",
    ),
    RuleCase(
        rule=selection_rules.OPTION_DEVICE_CONFLICT,
        good=lambda: component_tree(
            cpu=variant(),
            v=variant("OpenVINOExecutionProvider", "npu", provider_options={"device_type": "NPU"}),
        ),
        change=lambda tree: _variants(tree).update(
            v=variant(
                "OpenVINOExecutionProvider",
                "npu",
                provider_options={"device_type": "HETERO:GPU,CPU"},
            )
        ),
        message="variant 'v' is for 'npu'; its device_type is 'HETERO:GPU,CPU'",
    ),
    RuleCase(
        rule=selection_rules.OPTION_NEEDS_TRUST,
        change=lambda tree: _variants(tree).update(
            gpu=variant(CUDA, "gpu", provider_options={"user_lib": "x.so"})
        ),
        message="sets 'user_lib': a session needs trust",
    ),
    RuleCase(
        rule=selection_rules.OPTION_NEEDS_TRUST,
        good=metadata_tree,
        change=_metadata_option("intra_op_num_thread", "1"),
        message="for 'intra_op_num_thread', did you mean 'session.intra_op_num_threads'?",
    ),
    RuleCase(
        rule=selection_rules.OPTION_NEEDS_TRUST,
        good=metadata_tree,
        change=_metadata_option("session.enable_profiling", "1"),
        message="onnxruntime 1.31 forbids 'session.enable_profiling' in packages",
    ),
    *(
        RuleCase(
            rule=selection_rules.OPTION_NEEDS_TRUST,
            good=metadata_tree,
            change=_metadata_option("ep.context_file_path", path),
            message="sets 'ep.context_file_path': a session needs trust",
        )
        for path in ("/etc", "../../../..")
    ),
    RuleCase(
        rule=selection_rules.OPTION_VALUE,
        good=lambda: component_tree(
            cpu=variant(
                session_options={
                    "session.intra_op_num_threads": "-1",
                    "session.execution_mode": "parallel",
                }
            )
        ),
        change=lambda tree: _variants(tree).update(
            cpu=variant(session_options={"session.intra_op_num_threads": "many"})
        ),
        message="variant 'cpu': 'session.intra_op_num_threads' takes a base-10 int32, not 'many'",
    ),
    RuleCase(
        rule=selection_rules.OPTION_VALUE,
        change=lambda tree: _variants(tree).update(
            cpu=variant(session_options={"session.graph_optimization_level": "99"})
        ),
        message=(
            "takes disable_all, enable_basic, enable_extended, enable_layout or enable_all, not"
            " '99'"
        ),
    ),
    RuleCase(
        rule=selection_rules.OPTION_VALUE,
        good=lambda: component_tree(
            cpu=variant(session_options={"session.kernel_dispatch_policy": "latency"})
        ),
        change=lambda tree: _variants(tree).update(
            cpu=variant(session_options={"session.kernel_dispatch_policy": "fast"})
        ),
        message=("takes auto, latency, memory, safe or nothing in onnxruntime 1.32, not 'fast'"),
    ),
)

FILE_CASES = (
    RuleCase(
        rule=file_rules.FILE_NAME,
        change=_file("cpu/aux.txt"),
        message="is a device's name on Windows",
        posix=True,
    ),
    RuleCase(
        rule=file_rules.FILE_NAME,
        change=_file("notes./x"),
        message="ends with a dot or a space",
        posix=True,
    ),
    RuleCase(
        rule=file_rules.FILE_NAME,
        change=_file("cpu/a\\b"),
        message="holds a path separator",
        posix=True,
    ),
    RuleCase(
        rule=file_rules.NAMES_COLLIDE,
        change=lambda tree: tree.update({"notes/a": b"", "Notes/b": b""}),
        message="'Notes' have the same name on Windows and macOS",
        posix=True,
    ),
    RuleCase(
        rule=file_rules.NAMES_COLLIDE,
        change=lambda tree: tree.update({"é.bin": b"", "e\u0301.bin": b""}),
        message="have the same name on Windows and macOS",
        posix=True,
    ),
    RuleCase(
        rule=file_rules.NAMES_COLLIDE,
        change=lambda tree: _variants(tree).update(
            {"CPU": variant("DmlExecutionProvider", "gpu") | {"variant_directory": "cpu"}}
        ),
        message="variants 'cpu' and 'CPU' have the same name",
    ),
    RuleCase(
        rule=file_rules.PATH_LONG,
        change=_file("/".join(["x" * 60] * 4)),
        message="has a path of 243 characters",
        posix=True,
    ),
    RuleCase(
        rule=file_rules.FILE_CHANGED,
        after=_after_recording(lambda root: (root / "cpu/model.onnx").write_bytes(model(opset=16))),
        message="are not those recorded",
    ),
    RuleCase(
        rule=file_rules.FILE_LOST,
        change=_file("notes.txt"),
        after=_after_recording(lambda root: (root / "notes.txt").unlink()),
        message="recorded, but not there",
    ),
    RuleCase(
        rule=file_rules.FILE_UNREADABLE,
        change=_file("notes.txt"),
        after=_after_recording(_put_folder_in_place),
        message="not a regular file",
    ),
    RuleCase(
        rule=file_rules.FILE_NOT_RECORDED,
        after=_after_recording(lambda root: (root / "notes.txt").write_bytes(b"")),
        message="there, but not recorded",
    ),
    RuleCase(
        rule=file_rules.ASSET_CHANGED,
        good=_asset_tree,
        after=lambda root: (root / ASSET_FOLDER / "weights.bin").write_bytes(b"others"),
        message=f"the content of shared asset {ASSET} is not what its digest says: it is sha256:",
    ),
    RuleCase(
        rule=file_rules.CHANGE_INTERRUPTED,
        after=lambda root: (root / ".ortpkg-x").mkdir(),
        message="was left over by a command that was interrupted",
    ),
)

PIPELINE_CASES = (
    RuleCase(
        rule=pipeline_rules.PIPELINE_VALUE_UNKNOWN,
        good=pipeline_tree,
        change=lambda tree: tree["pipeline.json"]["steps"][0]["inputs"].update(z="in"),
        message="a step of 'first' uses the input 'z'; there is 'x: tensor(float)'",
    ),
    RuleCase(
        rule=pipeline_rules.PIPELINE_INPUT_NOT_FED,
        good=pipeline_tree,
        change=lambda tree: tree["pipeline.json"]["steps"][1]["inputs"].clear(),
        message="a step of 'second' does not feed its input 'x'",
    ),
    RuleCase(
        rule=pipeline_rules.PIPELINE_VALUE_MISFITS,
        good=pipeline_tree,
        change=_file("second-cpu/model.onnx", model("(int64[n, 4] x) => (float[n, 4] y)")),
        message=(
            "value 'mid', which feeds 'x' of 'second', is 'tensor(float)', where 'tensor(int64)' is"
            " expected"
        ),
    ),
    RuleCase(
        rule=pipeline_rules.PIPELINE_VALUE_MISFITS,
        good=pipeline_tree,
        change=_file("second-cpu/model.onnx", model("(float[n, 4, 1] x) => (float[n, 4] y)")),
        message="has the rank 2, where 3 is expected",
    ),
    RuleCase(
        rule=pipeline_rules.PIPELINE_VALUE_MISFITS,
        good=pipeline_tree,
        change=lambda tree: tree["pipeline.json"]["outputs"][0].update(shape=["n", 5]),
        message="output 'out' has 4 elements on axis 1, where 5 are expected by its declaration",
    ),
)

SAMPLE_CASES = (
    RuleCase(
        rule=sample_rules.SAMPLE_UNREADABLE,
        good=sample_tree,
        change=_file("samples/in.npz", npz(x=np.array([{}], dtype=object))),
        message="sample set 's': file 'in.npz' holds pickled objects",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_UNREADABLE,
        good=sample_tree,
        change=_file("samples/out.npz", b"rubbish"),
        message="file 'out.npz' cannot be read",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_NAMES,
        good=sample_tree,
        change=_file("samples/in.npz", npz(image=np.zeros((5, 4), np.float32))),
        message="array 'image' of inputs is for nothing: there is 'x'",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_NAMES,
        good=sample_tree,
        change=lambda tree: tree["samples/samples.json"]["samples"][0]["display"].update(
            output="logits"
        ),
        message="output 'logits' is displayed; there is 'y'",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_MISFITS,
        good=sample_tree,
        change=_file("samples/in.npz", npz(x=np.zeros((5, 4)))),
        message="array 'x' of inputs holds float64, where tensor(float) is expected",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_MISFITS,
        good=sample_tree,
        change=_file("samples/out.npz", npz(y=np.zeros((5, 3), np.float32))),
        message="array 'y' of expected_outputs has 3 elements on axis 1, where 4 are expected",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_MISFITS,
        good=sample_tree,
        change=_file("samples/out.npz", npz(y=np.zeros((6, 4), np.float32))),
        message="arrays differ in their leading axis",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_MISFITS,
        good=sample_tree,
        change=lambda tree: tree["samples/samples.json"]["samples"][0].update(
            task={"output": "y", "same": "text"}
        ),
        message="output 'y' has floating-point numbers: a text needs texts or tokens",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_NAMES,
        good=sample_tree,
        change=lambda tree: tree["samples/samples.json"]["samples"][0].update(
            variants={"cpu": {"task": {"output": "z", "same": "class"}}}
        ),
        message="a task is for the output 'z'; there is 'y'",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_LABELS,
        good=sample_tree,
        change=_file("samples/labels.npz", npz(labels=np.arange(4))),
        message="labels have the shape [4]; for 5 samples, one each, it is [5]",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_LABELS,
        good=sample_tree,
        change=_file("samples/labels.npz", npz(label=np.arange(5))),
        message="there is no array 'labels' in 'labels.npz'; there is 'label'",
    ),
    RuleCase(
        rule=sample_rules.SAMPLE_EXPECTS_NOTHING,
        good=sample_tree,
        change=lambda tree: tree["samples/samples.json"]["samples"][0].pop("expected_outputs"),
        message="has no expected outputs",
    ),
)

GENAI_CASES = (
    RuleCase(
        rule=genai_rules.GENAI_CONFIG_WRONG,
        good=genai_tree,
        change=_file("cpu/genai_config.json", b"[]"),
        message="is not a JSON object",
    ),
    RuleCase(
        rule=genai_rules.GENAI_FILE_MISSING,
        good=genai_tree,
        change=lambda tree: tree["cpu/genai_config.json"]["model"].update(
            vision={"filename": "../escape.onnx"}
        ),
        message="'../escape.onnx' is not in the variant's folder",
    ),
    RuleCase(
        rule=genai_rules.GENAI_ONE_COMPONENT,
        good=genai_tree,
        change=lambda tree: tree["manifest.json"]["components"].update(
            n={"variants": {"n": {"ep": CPU, "variant_directory": "cpu"}}}
        ),
        message="there are 2 component models: 'm', 'n'",
        target=GENAI,
    ),
    RuleCase(
        rule=genai_rules.GENAI_GENERATION,
        good=genai_tree,
        change=_file("genai_config.json", b"{}"),
        message="takes the folder for one model",
        target=GENAI,
    ),
    RuleCase(
        rule=genai_rules.GENAI_CONFIG_MISSING,
        good=genai_tree,
        change=lambda tree: _add_variant(tree, "gpu", variant(CUDA)),
        message="variant 'gpu' has no genai_config.json in its folder",
        target=GENAI,
    ),
    RuleCase(
        rule=genai_rules.GENAI_OPTIONS_IGNORED,
        good=genai_tree,
        change=lambda tree: _variants(tree)["cpu"].update(
            executor_info={"ort": {"session_options": {"session.log_id": "x"}}}
        ),
        message="the options of variant 'cpu' in executor_info.ort are not read",
        target=GENAI,
    ),
)

RELEASE_CASES = (
    RuleCase(
        rule=release_rules.RELEASE_REFUSES,
        good=universal_tree,
        change=lambda tree: tree["manifest.json"].update(component_models={"m": {}}),
        message="onnxruntime 1.27 refuses the package: component_models is not a list of names",
        target=ONNXRUNTIME_1_27,
    ),
    RuleCase(
        rule=release_rules.RELEASE_REFUSES,
        good=universal_tree,
        change=lambda tree: [
            tree["manifest.json"].pop(key) for key in ("schema_version", "components")
        ],
        message="onnxruntime 1.31 refuses the package: lacks 'schema_version' (ORTC-SCHEMA)",
        target=ONNXRUNTIME_1_31,
    ),
    RuleCase(
        rule=release_rules.RELEASE_NEVER_SELECTS,
        good=lambda: metadata_tree(gpu={"ep": CUDA}),
        change=lambda tree: tree.update(metadata_tree()),
        message="onnxruntime 1.27 never selects variant 'cpu': it passes over CPUExecutionProvider",
        target=ONNXRUNTIME_1_27,
    ),
    RuleCase(
        rule=release_rules.RELEASE_NEVER_SELECTS,
        change=lambda tree: _variants(tree)["gpu"].update(device="tpu"),
        message="onnxruntime 1.31 never selects variant 'gpu': no device is 'tpu'",
        target=ONNXRUNTIME_1_31,
    ),
    RuleCase(
        rule=release_rules.RELEASE_MODEL_TOO_NEW,
        change=_file("gpu/model.onnx", model(opset=27)),
        message="imports version 27 of ai.onnx; the newest that is read is 26",
        target=ONNXRUNTIME_1_31,
    ),
    RuleCase(
        rule=release_rules.RELEASE_MODEL_TOO_NEW,
        good=metadata_tree,
        change=_file("models/m/gpu/model.onnx", model(ir_version=14)),
        message="has IR version 14; the newest that is read is 13",
        target=ONNXRUNTIME_1_27,
    ),
    RuleCase(
        rule=release_rules.RELEASE_NEVER_SELECTS,
        good=lambda: _for_openvino("{}"),
        change=lambda tree: tree.update(
            _for_openvino("openvino;sdk=2026.4.1;device=CPU;architecture=zen4")
        ),
        message=(
            "OpenVINOExecutionProvider rates its compatibility string,"
            " 'openvino;sdk=2026.4.1;device=CPU;architecture=zen4', EP_UNSUPPORTED everywhere"
        ),
        target=ONNXRUNTIME_1_31,
    ),
    RuleCase(
        rule=release_rules.RELEASE_READS_NO_CONTEXTS,
        good=_with_context,
        change=_file("npu/net.bin", b"ORTPKG EPCTX\x00\x00\x00\x01 and so on"),
        message=(
            "onnxruntime 1.31 cannot run variant 'npu': its contexts lie in ortpkg's own container"
        ),
        target=ONNXRUNTIME_1_31,
    ),
    RuleCase(
        rule=release_rules.RELEASE_READS_NO_CONTEXTS,
        good=_with_context,
        change=_context(embed_mode=1, ep_cache_context=b"ORTPKG EPCTX\x00\x00\x00\x01"),
        message="ortpkg compile --for onnxruntime makes one",
        target=ONNXRUNTIME_1_31,
    ),
    RuleCase(
        rule=release_rules.SEVERAL_COMPONENTS,
        good=universal_tree,
        change=_two_components,
        message="onnxruntime 1.26 and 1.27 refuse a package with 2 component models: 'm', 'n'",
    ),
    RuleCase(
        rule=release_rules.UNIVERSAL_GENERATIONS,
        good=universal_tree,
        change=lambda tree: [
            tree["manifest.json"].pop(key) for key in ("schema_version", "components")
        ],
        message="lacks the keys of the component generation",
        target=UNIVERSAL,
    ),
    RuleCase(
        rule=release_rules.UNIVERSAL_ONE_COMPONENT,
        good=universal_tree,
        change=_replace_by(pipeline_tree),
        message="there are 2 component models: 'first', 'second'",
        target=UNIVERSAL,
    ),
)

CASES = (
    *DATA_CASES,
    *MODEL_CASES,
    *SELECTION_CASES,
    *FILE_CASES,
    *PIPELINE_CASES,
    *SAMPLE_CASES,
    *GENAI_CASES,
    *RELEASE_CASES,
)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case.rule.id}-{case.message[:30]}") for case in CASES]
)
def test_rule_is_kept_by_the_good_package_and_broken_by_the_change(
    case: RuleCase, tmp_path: Path
) -> None:
    if case.posix and os.name == "nt":
        pytest.skip("needs links or names that Windows does not have")
    targets = [case.target] if case.target else []
    good = write_tree(tmp_path / "good", case.good())
    assert case.rule.id not in findings_of(good, targets=targets)

    tree = case.good()
    case.change(tree)
    broken = write_tree(tmp_path / "broken", tree)
    case.after(broken)
    found = findings_of(broken, targets=targets)

    assert case.rule.id in found, found
    matching = [finding for finding in found[case.rule.id] if case.message in finding.message]
    assert matching, [str(finding) for finding in found[case.rule.id]]
    assert {finding.target for finding in matching} == {case.target}
    assert {finding.severity for finding in matching} == {case.rule.severity}


def test_a_package_without_digests_is_called_unverified(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "p", component_tree())
    assert [finding.message for finding in findings_of(root, ignore=())["ORT405"]] == [
        "is missing: the package is unverified"
    ]
    _recorded(root)
    assert findings_of(root, ignore=()) == {}


def test_every_rule_has_a_case_and_a_check() -> None:
    tried = {case.rule.id for case in CASES} | {file_rules.NO_DIGESTS.id}
    checked = {rule.id for check in PACKAGE_CHECKS.values() for rule in check.rules} | {
        release_rules.RELEASE_REFUSES.id
    }
    rules = {rule.id for rule in AUTHORING_RULES}
    assert rules - checked == set(), "enter them with their check in PACKAGE_CHECKS"
    assert rules - tried == set(), "add a RuleCase above"
    assert (tried | checked) - rules == set(), "they are not in a module of authoring/rules"


def test_targets_of_a_rule_are_those_whose_findings_it_has() -> None:
    for case in CASES:
        assert bool(case.rule.targets) == bool(case.target), case.rule.id
        assert not case.target or case.target in case.rule.targets, case.rule.id
