"""Contexts of onnxruntime's OpenVINO provider, read by OpenVINO's package, and written for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.foundations.errors import EpContextError, InvalidSessionOptionError
from ortpkg.runtime.providers.openvino_container import OpenVinoContainer
from ortpkg.runtime.providers.openvino_requirements import blob_requirements
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from tests.ep_context.conftest import X
from tests.providers.openvino_containers import bson, container

openvino = pytest.importorskip("openvino")

#: Its second partition takes two inputs, whose order matters.
PARTITIONS = {
    "first": (
        "<ir_version: 10, opset_import: ['' : 17]> g (float[2, 3] x) => (float[2, 3] e) { e ="
        " Exp(x) }"
    ),
    "second": (
        "<ir_version: 10, opset_import: ['' : 17]> g (float[2, 3] f, float[2, 3] x) => (float[2, 3]"
        " y) { y = Sub(f, x) }"
    ),
}
EXPECTED = np.abs(np.exp(X)) - X


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))


def _model(text: str) -> bytes:
    model: bytes = onnx.parser.parse_model(text.replace("'", '"')).SerializeToString()
    return model


@pytest.fixture(scope="module")
def blobs() -> dict[str, bytes]:
    """What OpenVINO itself exports of each partition, at the precision that its plug-in chooses."""
    core = openvino.Core()
    return {
        name: core.compile_model(core.read_model(_model(text)), "CPU").export_model().getvalue()
        for name, text in PARTITIONS.items()
    }


def context_node(
    name: str, inputs: list[str], outputs: list[str], **attributes: Any
) -> onnx.NodeProto:
    """A node as onnxruntime-ep-openvino 1.8.1 makes it."""
    stated = {
        "onnx_model_filename": "net.onnx",
        "ep_sdk_version": "2026.4",
        "max_size": 0,
        "embed_mode": 0,
        "source": OPENVINO_EP,
        "partition_name": name,
        "main_context": 1,
        **attributes,
    }
    stated = {key: value for key, value in stated.items() if value is not None}
    return onnx.helper.make_node("EPContext", inputs, outputs, domain="com.microsoft", **stated)


def save(path: Path, nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str]) -> Path:
    def value(name: str) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3])

    graph = onnx.helper.make_graph(nodes, "g", [*map(value, inputs)], [*map(value, outputs)])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=opsets), path)
    return path


def two_partitions(path: Path, **attributes: Any) -> Path:
    """``abs`` between two contexts; ``attributes`` of both."""
    nodes = [
        context_node("first", ["x"], ["e"], **attributes),
        onnx.helper.make_node("Abs", ["e"], ["f"]),
        context_node("second", ["f", "x"], ["y"], **attributes),
    ]
    return save(path, nodes, ["x"], ["y"])


def outputs_of(path: Path, **options: str) -> Any:
    session = InferenceSession(path, providers=["openvino"], provider_options=[options])
    try:
        return session.run(None, {"x": X})[0]
    finally:
        session.close()


def refusal(path: Path) -> str:
    with pytest.raises(EpContextError) as caught:
        InferenceSession(path, providers=["openvino"], enable_fallback=False)
    return str(caught.value)


# --- reading --------------------------------------------------------------------------------------


def test_a_container_in_a_file_is_read_for_each_node_that_names_it(
    tmp_path: Path, blobs: dict[str, bytes]
) -> None:
    (tmp_path / "net_ctx_OpenVINOExecutionProvider.bin").write_bytes(container(blobs))
    model = two_partitions(
        tmp_path / "net_ctx.onnx", ep_cache_context="net_ctx_OpenVINOExecutionProvider.bin"
    )
    np.testing.assert_allclose(outputs_of(model), EXPECTED, rtol=1e-5)


def test_a_container_in_the_first_node_serves_the_others(
    tmp_path: Path, blobs: dict[str, bytes]
) -> None:
    nodes = [
        context_node("first", ["x"], ["e"], embed_mode=1, ep_cache_context=container(blobs)),
        onnx.helper.make_node("Abs", ["e"], ["f"]),
        context_node("second", ["f", "x"], ["y"], embed_mode=1, main_context=0),
    ]
    np.testing.assert_allclose(
        outputs_of(save(tmp_path / "m.onnx", nodes, ["x"], ["y"])), EXPECTED, rtol=1e-5
    )


@pytest.mark.parametrize("version", [{}, {"ep_sdk_version": None}], ids=["stated", "unstated"])
@pytest.mark.parametrize("is_embedded", [True, False])
def test_a_bare_blob_of_an_older_release_is_read(
    tmp_path: Path, blobs: dict[str, bytes], is_embedded: bool, version: dict[str, Any]
) -> None:
    (tmp_path / "blob.bin").write_bytes(blobs["first"])
    payload: Any = blobs["first"] if is_embedded else "blob.bin"
    node = context_node(
        "first",
        ["x"],
        ["e"],
        embed_mode=int(is_embedded),
        ep_cache_context=payload,
        **version,
    )
    model = save(tmp_path / "m.onnx", [node], ["x"], ["e"])
    np.testing.assert_allclose(outputs_of(model), np.exp(X), rtol=1e-5)


def test_precision_is_that_of_the_session_not_of_who_compiled(
    tmp_path: Path, blobs: dict[str, bytes]
) -> None:
    node = context_node("first", ["x"], ["e"], embed_mode=1, ep_cache_context=container(blobs))
    model = save(tmp_path / "m.onnx", [node], ["x"], ["e"])
    np.testing.assert_allclose(outputs_of(model), np.exp(X), rtol=1e-6)


@pytest.mark.parametrize("name", ["x", "renamed"])
def test_inputs_are_found_by_their_names_as_the_provider_finds_them(
    tmp_path: Path, blobs: dict[str, bytes], name: str
) -> None:
    node = context_node(
        "second", [name, "f"], ["y"], embed_mode=1, ep_cache_context=container(blobs)
    )
    model = save(tmp_path / "m.onnx", [node], [name, "f"], ["y"])
    if name == "renamed":
        assert "does not know 'renamed' as an input" in refusal(model)
        return
    session = InferenceSession(model, providers=["openvino"])
    np.testing.assert_array_equal(session.run(None, {"f": X * 3, "x": X})[0], X * 3 - X)


@pytest.mark.parametrize(
    ("was", "named"),
    [(None, "2025.1"), ("2026.3.0", "2026.3"), ("1999.1.0", "2026.4")],
    ids=["bare", "blob", "both"],
)
def test_a_context_of_another_release_is_stale_and_says_which(
    tmp_path: Path, blobs: dict[str, bytes], was: str | None, named: str
) -> None:
    blob = blobs["first"]
    here = openvino.get_version().partition("-")[0]
    payload = (
        b"an old blob"
        if was is None
        else container({"first": blob.replace(here.encode(), was.encode())})
    )
    node = context_node(
        "first", ["x"], ["e"], embed_mode=1, ep_cache_context=payload, ep_sdk_version=named
    )
    message = refusal(save(tmp_path / "m.onnx", [node], ["x"], ["e"]))
    assert f"is stale: its SDK version was '{was or named}', here it is '{here}" in message


def test_a_blob_for_another_cpu_falls_with_the_words_of_openvino(
    tmp_path: Path, blobs: dict[str, bytes]
) -> None:
    blob = blobs["first"].replace(b"isa=Intel", b"isa=Other")
    assert blob != blobs["first"]
    node = context_node(
        "first", ["x"], ["e"], embed_mode=1, ep_cache_context=container({"first": blob})
    )
    message = refusal(save(tmp_path / "m.onnx", [node], ["x"], ["e"]))
    assert "in the child process that tried first" in message
    assert "it was built for a different" in message


def test_a_damaged_container_falls_before_openvino_sees_it(tmp_path: Path) -> None:
    payload = b"OVEP_BIN" + bytes(100)
    node = context_node("first", ["x"], ["e"], embed_mode=1, ep_cache_context=payload)
    message = refusal(save(tmp_path / "m.onnx", [node], ["x"], ["e"]))
    assert "is damaged: it begins with" in message


def test_what_is_no_blob_is_refused_by_the_library(tmp_path: Path) -> None:
    node = context_node(
        "first", ["x"], ["e"], embed_mode=1, ep_cache_context=b"something", ep_sdk_version=None
    )
    message = refusal(save(tmp_path / "m.onnx", [node], ["x"], ["e"]))
    assert "cannot load the context of partition 'first'" in message


# --- writing --------------------------------------------------------------------------------------

_MIXED = """
<ir_version: 10, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
g (float[2, 3] x) => (float[2, 2] y, float[2, 3] e)
<int64[2] columns = {0, 2}>
{ e = Exp(x) f = ai.onnx.ml.ArrayFeatureExtractor(e, columns) y = Neg(f) }"""


def compiled(
    source: Path, target: Path, *, form: str = "onnxruntime", embed: str = "0", **entries: str
) -> Path:
    options = SessionOptions()
    for key, value in {
        "ep.context_enable": "1",
        "ep.context_file_path": str(target),
        "ep.context_embed_mode": embed,
        "ortpkg.ep_context_form": form,
        **entries,
    }.items():
        options.add_session_config_entry(key, value)
    InferenceSession(source, options, providers=["openvino"]).close()
    return target


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(_MIXED), tmp_path / "mixed.onnx")
    return tmp_path / "mixed.onnx"


def attributes_of(path: Path) -> list[dict[str, Any]]:
    nodes = [node for node in onnx.load(path).graph.node if node.op_type == "EPContext"]
    return [
        {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        for node in nodes
    ]


def test_each_node_is_a_main_one_and_names_the_container_and_its_release(mixed: Path) -> None:
    made = compiled(mixed, mixed.with_name("made_ctx.onnx"))
    nodes = attributes_of(made)
    assert [each["main_context"] for each in nodes] == [1, 1]
    assert {each["source"] for each in nodes} == {OPENVINO_EP.encode()}
    release = openvino.get_version().partition("-")[0].rpartition(".")[0]
    assert {each["ep_sdk_version"] for each in nodes} == {release.encode()}
    (name,) = {each["ep_cache_context"].decode() for each in nodes}
    found = OpenVinoContainer(memoryview(made.with_name(name).read_bytes()), name)
    assert set(found.names) == {each["partition_name"].decode() for each in nodes}


def test_embedded_blobs_lie_in_the_first_node_where_the_provider_looks(mixed: Path) -> None:
    nodes = attributes_of(compiled(mixed, mixed.with_name("made_ctx.onnx"), embed="1"))
    assert [each["main_context"] for each in nodes] == [1, 0]
    found = OpenVinoContainer(memoryview(nodes[0]["ep_cache_context"]), "the first")
    assert set(found.names) == {each["partition_name"].decode() for each in nodes}


def test_the_models_compatibility_string_is_the_providers(mixed: Path) -> None:
    made = compiled(mixed, mixed.with_name("made_ctx.onnx"))
    props = {each.key: each.value for each in onnx.load(made).metadata_props}
    info = json.loads(props[f"ep_compatibility_info.{OPENVINO_EP}"])
    assert (info["ovep_compat_ver"], info["ovep_bin_ver"]) == ("1.0", "1.1")
    data = made.with_name(attributes_of(made)[0]["ep_cache_context"].decode()).read_bytes()
    found = OpenVinoContainer(memoryview(data), "it")
    assert (
        info["ov_compat_string"]
        == blob_requirements(found.entry(found.names[0]).parts["blob"])
        != ""
    )


@pytest.mark.parametrize("embed", ["0", "1"])
def test_what_was_written_for_onnxruntime_runs_here_too(mixed: Path, embed: str) -> None:
    made = compiled(mixed, mixed.with_name("made_ctx.onnx"), embed=embed)
    mixed.unlink()
    y, e = InferenceSession(made, providers=["openvino"]).run(None, {"x": X})
    np.testing.assert_allclose(e, np.exp(X), rtol=1e-5)
    np.testing.assert_allclose(y, -np.exp(X)[:, [0, 2]], rtol=1e-5)


@pytest.mark.parametrize(
    "forms", [("ortpkg", "onnxruntime"), ("onnxruntime", "ortpkg")], ids="-to-".join
)
def test_a_context_model_is_written_in_the_other_form(mixed: Path, forms: tuple[str, str]) -> None:
    first = compiled(mixed, mixed.with_name("first_ctx.onnx"), form=forms[0])
    second = compiled(first, mixed.with_name("second") / "second_ctx.onnx", form=forms[1])
    y, _ = InferenceSession(second, providers=["openvino"]).run(None, {"x": X})
    np.testing.assert_allclose(y, -np.exp(X)[:, [0, 2]], rtol=1e-5)
    info = {each.key: each.value for each in onnx.load(second).metadata_props}[
        f"ep_compatibility_info.{OPENVINO_EP}"
    ]
    assert info.startswith("{" if forms[1] == "onnxruntime" else "openvino;")


def test_a_strangers_container_is_carried_into_one_of_ours(
    tmp_path: Path, blobs: dict[str, bytes]
) -> None:
    (tmp_path / "theirs.bin").write_bytes(container(blobs))
    theirs = two_partitions(tmp_path / "theirs_ctx.onnx", ep_cache_context="theirs.bin")
    ours = compiled(theirs, tmp_path / "ours" / "ours_ctx.onnx", form="ortpkg")
    np.testing.assert_allclose(outputs_of(ours), EXPECTED, rtol=1e-5)


def test_an_execution_provider_whose_form_nobody_knows_says_so_before_it_compiles(
    mixed: Path,
) -> None:
    options = SessionOptions()
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ortpkg.ep_context_form", "onnxruntime")
    with pytest.raises(
        InvalidSessionOptionError, match="how onnxruntime's LLVMExecutionProvider keeps contexts"
    ):
        InferenceSession(mixed, options, providers=["llvm"])


def test_a_form_that_there_is_not_is_refused(mixed: Path) -> None:
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.ep_context_form", "tensorrt")
    with pytest.raises(InvalidSessionOptionError, match='"ortpkg" or "onnxruntime", not'):
        InferenceSession(mixed, options, providers=["openvino"])


def test_an_index_that_only_looks_like_one_is_no_container(tmp_path: Path) -> None:
    payload = container({"first": b"x"}, blob_metadata_map={"first": bson({}).decode("latin-1")})
    node = context_node("first", ["x"], ["e"], embed_mode=1, ep_cache_context=payload)
    assert "the place of blob 'first'" in refusal(save(tmp_path / "m.onnx", [node], ["x"], ["e"]))
