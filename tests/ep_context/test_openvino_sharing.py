"""OpenVINO contexts of a session group: weightless, beside one set of weights."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.foundations.errors import EpContextError, StatusCode
from ortpkg.runtime.ep_context.context_file_writing import write_context_file
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, open_context_file
from ortpkg.runtime.ep_context.ep_context_workspace import shared_workspace
from ortpkg.runtime.providers import first_load
from ortpkg.runtime.providers.ep_registry import find_factory
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.providers.native_library import NativeModel
from ortpkg.runtime.session.compile_models import CompileJob, CompileRequest, compile_models
from tests.ep_context.fake_compiler import run, state_of

openvino = pytest.importorskip("openvino")
from ortpkg.runtime.providers import openvino_group  # noqa: E402 - needs openvino
from ortpkg.runtime.providers.openvino_library import OpenVinoLibrary  # noqa: E402

GROUP = {"ep_context_enable": "1", "ep_share_ep_contexts": "1"}
WIDTH = 256
WEIGHTS = np.random.default_rng(7).random((2, WIDTH, WIDTH), np.float32) / WIDTH
NAMES = ("prefill", "decode")
X = np.linspace(-1, 1, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)


def provider(**options: str) -> ExecutionProvider:
    return find_factory(OPENVINO_EP, backend="openvino").create([], options)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    shared_workspace(OPENVINO_EP).abandon()
    shared_workspace(OPENVINO_EP).clear()


def make_model(
    folder: Path, name: str, weights: Any = WEIGHTS, outputs: str = "float[N, {w}] y"
) -> Path:
    first, more = ("Abs", "") if name == "prefill" else ("Neg", "n = Shape(y)")
    declared = outputs.format(w=WIDTH) if name == "prefill" else f"float[N, {WIDTH}] y, int64[2] n"
    proto = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
        {name} (float[N, {WIDTH}] x) => ({declared})
        {{ e = {first}(x)  a = MatMul(e, w0)  r = Relu(a)  y = MatMul(r, w1) {more} }}""")
    proto.graph.initializer.extend(
        numpy_helper.from_array(each, f"w{i}") for i, each in enumerate(weights)
    )
    folder.mkdir(exist_ok=True)
    onnx.save(proto, folder / f"{name}.onnx")
    return folder / f"{name}.onnx"


def expected(name: str, x: Any) -> list[Any]:
    y = np.maximum((np.abs(x) if name == "prefill" else -x) @ WEIGHTS[0], 0) @ WEIGHTS[1]
    return [y] if name == "prefill" else [y, np.array(y.shape)]


def generate(models: Sequence[Path], **options: str) -> list[Path]:
    for number, model in enumerate(models):
        stop = {"ep_stop_share_ep_contexts": "1"} if number == len(models) - 1 else {}
        state_of(model, provider(**options), **GROUP, **stop).close()
    return [model.with_name(f"{model.stem}_ctx.onnx") for model in models]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What :func:`contexts` are copies of, with the cache in which they were made."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORTPKG_CACHE_DIR", str(folder / "cache"))
        models = [make_model(folder / "group", name) for name in NAMES]
        generate(models)
    for model in models:
        model.unlink()
    return folder


@pytest.fixture
def contexts(made: Path, tmp_path: Path) -> list[Path]:
    """Context models of a group of two, their sources gone."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return [tmp_path / "group" / f"{name}_ctx.onnx" for name in NAMES]


def binary_of(contexts: Sequence[Path]) -> Path:
    return contexts[0].with_name("prefill_openvino.bin")


def check_runs(contexts: Sequence[Path], **entries: str) -> list[Any]:
    states = [state_of(context, provider(), **entries) for context in contexts]
    for _ in range(2):
        for name, state in zip(NAMES, states, strict=True):
            for x in (X, X[:1]):
                for found, wanted in zip(run(state, x), expected(name, x), strict=True):
                    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    return states


@pytest.mark.requirement("E43", "E46", "E50")
def test_n_models_give_n_plus_one_files_with_each_weight_once(contexts: list[Path]) -> None:
    assert {path.name for path in contexts[0].parent.iterdir()} == {
        *(c.name for c in contexts),
        "prefill_openvino.bin",
    }
    stored = binary_of(contexts).read_bytes()
    for weight in WEIGHTS:
        # OpenVINO likes them transposed
        assert stored.count(weight.tobytes()) + stored.count(weight.T.tobytes()) == 1
    assert len(stored) < 1.1 * WEIGHTS.nbytes + (64 << 10)


@pytest.mark.requirement("E52", "E53")
def test_sessions_of_a_group_run_one_compiled_model_that_maps_the_binary(
    contexts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_runs(contexts)  # through child processes, which may not see the file

    def refuse(*_arguments: object) -> Any:
        raise AssertionError("the weights were copied")

    monkeypatch.setattr(openvino_group, "_placed_weights", refuse)
    gc.collect()
    assert not openvino_group._GROUPS
    states = check_runs(contexts, ep_share_ep_contexts="1")
    assert len(openvino_group._GROUPS) == 1
    states[0].close()
    np.testing.assert_allclose(run(states[1], X)[0], expected("decode", X)[0], rtol=1e-4, atol=1e-6)


def test_members_share_their_requests_and_nothing_of_a_caller_stays_in_them(
    contexts: list[Path],
) -> None:
    states = check_runs(contexts, ep_share_ep_contexts="1")
    (group,) = openvino_group._GROUPS.values()
    (idle,) = group.requests._idle
    x = X.copy()
    run(states[0], x)
    held = [
        idle.infer_request.get_input_tensor(slot).data for slot in range(len(group.compiled.inputs))
    ]
    assert not any(np.shares_memory(each, x) for each in held)
    np.testing.assert_allclose(run(states[1], X)[0], expected("decode", X)[0], rtol=1e-4, atol=1e-6)


def test_members_that_run_at_once_compute_what_they_do_alone(contexts: list[Path]) -> None:
    states = check_runs(contexts, ep_share_ep_contexts="1")

    def compute(number: int) -> None:
        x = X * (number % 7)
        found = run(states[number % 2], x)[0]
        np.testing.assert_allclose(found, expected(NAMES[number % 2], x)[0], rtol=1e-4, atol=1e-6)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(compute, range(40)))


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions that a child process tried."""
    tried: list[str] = []
    load = first_load._load

    def counting(entry: ContextEntry, *arguments: Any) -> str:
        tried.append(entry.name)
        return load(entry, *arguments)

    monkeypatch.setattr(first_load, "_load", counting)
    return tried


@pytest.mark.parametrize("are_at_once", [False, True])
def test_a_group_is_tried_once_in_a_child_and_not_once_for_each_member(
    contexts: list[Path], trials: list[str], are_at_once: bool
) -> None:
    if are_at_once:
        with ThreadPoolExecutor(len(contexts)) as threads:
            list(threads.map(lambda context: state_of(context, provider()), contexts))
    else:
        check_runs(contexts, ep_share_ep_contexts="1")
    assert len(trials) == 1
    check_runs(contexts)
    assert len(trials) == 1


def test_a_member_that_places_the_weights_elsewhere_is_tried_for_itself(
    contexts: list[Path], trials: list[str]
) -> None:
    binary = binary_of(contexts)
    file = open_context_file(binary, ep_name=OPENVINO_EP)
    entries = []
    for number, name in enumerate(file.names):
        parts = {each: bytes(part) for each, part in file.entry(name).parts.items()}
        place = json.loads(parts["member"])["weights_offset"] + number * 4096
        parts["member"] = json.dumps(
            {**json.loads(parts["member"]), "weights_offset": place}
        ).encode()
        entries.append(replace(file.entry(name), parts=parts))
    write_context_file(binary, OPENVINO_EP, entries)
    state_of(contexts[0], provider()).close()
    with suppress(EpContextError):  # whether the library refuses it, the child learns
        state_of(contexts[1], provider()).close()
    assert len(trials) == 2


@pytest.mark.requirement("E54")
@pytest.mark.parametrize("first_closed", [0, 1])
def test_sessions_close_in_any_order_and_leave_nothing(
    contexts: list[Path], first_closed: int
) -> None:
    states = check_runs(contexts, ep_share_ep_contexts="1")
    states[first_closed].close()
    left = 1 - first_closed
    np.testing.assert_allclose(
        run(states[left], X)[0], expected(NAMES[left], X)[0], rtol=1e-4, atol=1e-6
    )
    states[left].close()
    states.clear()
    gc.collect()
    assert not openvino_group._GROUPS


@pytest.mark.requirement("E40")
def test_the_descriptor_says_weightless_and_names_the_weights(contexts: list[Path]) -> None:
    file = open_context_file(binary_of(contexts), ep_name=OPENVINO_EP)
    sources = {file.descriptor(name).weights_source for name in file.names}
    assert sources == {f"sha256:{file.entry(file.names[0]).digests['weights']}"}


@pytest.mark.requirement("E40")
def test_one_changed_bit_of_the_weights_is_told_before_openvino_sees_them(
    contexts: list[Path],
) -> None:
    binary = binary_of(contexts)
    data = bytearray(binary.read_bytes())
    data[data.index(WEIGHTS[1].T.tobytes()) + 5] ^= 1
    binary.write_bytes(data)
    for context in contexts:
        with pytest.raises(
            EpContextError, match=r"'weights' of partition .* is not what was written"
        ) as caught:
            state_of(context, provider())
        assert caught.value.code is StatusCode.INVALID_GRAPH


@pytest.mark.requirement("E40")
@pytest.mark.parametrize("is_gone", [False, True])
def test_weights_of_another_model_with_digests_of_their_own_are_told(
    contexts: list[Path], is_gone: bool
) -> None:
    binary = binary_of(contexts)
    file = open_context_file(binary, ep_name=OPENVINO_EP)
    changed = []
    for name in file.names:
        parts = {each: bytes(part) for each, part in file.entry(name).parts.items()}
        weights = parts.pop("weights")
        if not is_gone:
            parts["weights"] = bytes(len(weights))
        changed.append(replace(file.entry(name), parts=parts))
    write_context_file(binary, OPENVINO_EP, changed)
    with pytest.raises(
        EpContextError, match="its weights are not those it was compiled with: it needs 'sha256:"
    ) as e:
        state_of(contexts[0], provider())
    assert e.value.code is StatusCode.INVALID_GRAPH


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (b"[]", "is not described"),
        (b'{"selector": 0}', "is not described"),
        (
            (
                b'{"selector": 0, "selector_count": 2, "weights_offset": -1, "inputs": [2],'
                b' "outputs": [0]}'
            ),
            "by numbers from 0",
        ),
        (
            (
                b'{"selector": 2, "selector_count": 2, "weights_offset": 8192, "inputs": [2],'
                b' "outputs": [0]}'
            ),
            "has other ports",
        ),
        (
            (
                b'{"selector": 0, "selector_count": 2, "weights_offset": 8192, "inputs": [99],'
                b' "outputs": [0]}'
            ),
            "has other ports",
        ),
        (b"x" * (2 << 20), "too great a length"),
    ],
)
def test_a_forged_member_is_an_invalid_graph(
    contexts: list[Path], member: bytes, message: str
) -> None:
    binary = binary_of(contexts)
    file = open_context_file(binary, ep_name=OPENVINO_EP)
    changed = []
    for name in file.names:
        parts = {each: bytes(part) for each, part in file.entry(name).parts.items()}
        changed.append(replace(file.entry(name), parts={**parts, "member": member}))
    write_context_file(binary, OPENVINO_EP, changed)
    with pytest.raises(EpContextError, match=message) as caught:
        state_of(contexts[0], provider())
    assert caught.value.code is StatusCode.INVALID_GRAPH


def test_contexts_that_moved_within_their_binary_find_their_weights(contexts: list[Path]) -> None:
    """As if carried over to another binary: the blob's offsets are not the file's."""
    binary = binary_of(contexts)
    file = open_context_file(binary, ep_name=OPENVINO_EP)
    entries = [file.entry(name) for name in file.names]
    moved = [
        replace(e, parts={"signature": b"{}" * 5000, **{k: bytes(v) for k, v in e.parts.items()}})
        for e in entries
    ]
    write_context_file(binary, OPENVINO_EP, moved)
    again = open_context_file(binary, ep_name=OPENVINO_EP).entry(file.names[0])
    assert again.file is not None
    assert entries[0].file is not None
    assert again.file.offsets["weights"] != entries[0].file.offsets["weights"]
    check_runs(contexts)


def test_a_context_model_of_one_model_of_a_group_can_be_carried_over(
    contexts: list[Path], tmp_path: Path
) -> None:
    target = tmp_path / "elsewhere" / "again_ctx.onnx"
    state_of(
        contexts[1], provider(), ep_context_enable="1", ep_context_file_path=str(target)
    ).close()
    for path in contexts:
        path.unlink()
    binary_of(contexts).unlink()
    np.testing.assert_allclose(
        run(state_of(target, provider()), X)[0], expected("decode", X)[0], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize(
    "case", ["one model", "nothing in common", "no support", "library refuses"]
)
def test_where_nothing_can_be_shared_contexts_are_full_and_the_log_says_why(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "group"
    second = WEIGHTS[::-1].copy() + 1 if case == "nothing in common" else WEIGHTS
    models = [make_model(folder, "prefill"), make_model(folder, "decode", second)]
    reasons = {
        "nothing in common": "the models of the group have next to no weights in common",
        "no support": "has no WEIGHTS_PATH",
        "library refuses": "out of memory",
    }
    if case == "no support":
        monkeypatch.setattr(OpenVinoLibrary, "unshared_reason", "OpenVINO 2023 has no WEIGHTS_PATH")
    if case == "library refuses":

        def refuse(_self: object, _models: Sequence[NativeModel], _offset: int) -> Any:
            raise RuntimeError("Exception from src/x.cpp:3:\nout of memory")

        monkeypatch.setattr(OpenVinoLibrary, "export_group", refuse)
    contexts = generate(models[: 1 if case == "one model" else 2])
    file = open_context_file(binary_of(contexts), ep_name=OPENVINO_EP)
    assert all(not file.descriptor(name).weights_source for name in file.names)
    assert all("blob" in file.entry(name).parts for name in file.names)
    if case in reasons:
        assert f"keep weights of their own: {reasons[case]}" in caplog.text.replace(
            "OpenVINO 2023 ", ""
        )
    found = run(state_of(contexts[0], provider()), X)[0]
    np.testing.assert_allclose(found, expected("prefill", X)[0], rtol=1e-4, atol=1e-6)


def test_whoever_compiles_in_a_child_is_told_what_is_not_shared(tmp_path: Path) -> None:
    models = [make_model(tmp_path, "prefill"), make_model(tmp_path, "decode", WEIGHTS[::-1] + 1)]
    jobs = tuple(
        CompileJob(model=str(each), output=str(each.with_name(f"{each.stem}_ctx.onnx")))
        for each in models
    )
    notes: list[str] = []
    request = CompileRequest(jobs=jobs, ep=OPENVINO_EP, is_shared=True)
    compile_models(request, timeout_s=120, notify=notes.append)
    (note,) = notes
    assert (
        note
        == "2 of 2 contexts of the group of OpenVINOExecutionProvider keep weights of their own: "
        "the models of the group have next to no weights in common"
    )


def test_only_the_cpu_device_shares() -> None:
    library = OpenVinoLibrary(options={"device_type": "AUTO:CPU"})
    assert library.unshared_reason.endswith("and this is AUTO:CPU")
    assert OpenVinoLibrary().unshared_reason == ""


def test_models_compiled_with_other_options_keep_their_weights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = [make_model(tmp_path / "group", name) for name in NAMES]
    state_of(models[0], provider(num_streams="2"), **GROUP).close()
    state_of(models[1], provider(), **GROUP, ep_stop_share_ep_contexts="1").close()
    file = open_context_file(models[0].with_name("prefill_openvino.bin"), ep_name=OPENVINO_EP)
    assert all(not file.descriptor(name).weights_source for name in file.names)
    assert "they were compiled with other options" in caplog.text


def test_a_blob_that_kept_its_weights_is_no_weightless_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(openvino_group, "_WEIGHTLESS", {})
    monkeypatch.setattr(openvino_group, "_LEAST_WEIGHTS_NBYTES", 1024)
    library = OpenVinoLibrary()
    models = [
        NativeModel(data=make_model(tmp_path, name).read_bytes(), inputs=("x",), outputs=("y",))
        for name in NAMES
    ]
    with pytest.raises(ValueError, match="keeps weights in blobs whatever it is told"):
        library.export_group(models, 8192)
