"""Session options reach the libraries behind a session: held against what these report."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ortpkg
from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.foundations.errors import InvalidSessionOptionError
from ortpkg.runtime.providers.session_settings import (
    COMPILING_ENTRIES,
    RUNNING_ENTRIES,
    SessionSettings,
)
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import ExecutionMode, GraphOptimizationLevel, SessionOptions

pytestmark = pytest.mark.usefixtures("warm_processes")

pytest.importorskip("onnxruntime")

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 3] x) => (float[2, 3] y) <float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 10}, float[3] b = {1, 2, 3}> {
    m = MatMul(x, w)
    a = Add(m, b)
    r = Relu(a)
    i = Identity(r)
    y = Exp(i)
}"""
X = np.linspace(-0.1, 0.1, 6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("settings", "says_something"),
    [
        (SessionSettings(), False),
        (SessionSettings(values={"intra_op_num_threads": 1}), True),
        (SessionSettings(entries={"session.intra_op.allow_spinning": "0"}), True),
        (SessionSettings(other_entries={"acme.key": "1"}), False),
    ],
)
def test_settings_are_true_where_they_say_something_to_a_library(
    settings: SessionSettings, says_something: bool
) -> None:
    assert bool(settings) is says_something


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return path


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every session that onnxruntime itself makes, in order."""
    import onnxruntime

    from ortpkg.runtime.providers.provider_trials import SMALLEST_MODEL

    made: list[Any] = []
    original = onnxruntime.InferenceSession

    def make(data: Any, *arguments: Any, **keywords: Any) -> Any:
        session = original(data, *arguments, **keywords)
        if data != SMALLEST_MODEL:  # by which the options are tried
            made.append(session)
        return session

    monkeypatch.setattr(onnxruntime, "InferenceSession", make)
    return made


def options_of(entries: Mapping[str, str] | None = None, **values: Any) -> SessionOptions:
    options = SessionOptions()
    for name, value in values.items():
        setattr(options, name, value)
    for key, text in (entries or {}).items():
        options.add_session_config_entry(key, text)
    return options


def bridged(model: Path, options: SessionOptions, **keywords: Any) -> InferenceSession:
    return InferenceSession(model, options, providers=[CPU_EP], backend="onnxruntime", **keywords)


VALUES: dict[str, Any] = {
    "intra_op_num_threads": 3,
    "inter_op_num_threads": 2,
    "execution_mode": ExecutionMode.ORT_PARALLEL,
    "execution_order": ortpkg.ExecutionOrder.PRIORITY_BASED,
    "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "use_deterministic_compute": True,
    "enable_mem_pattern": False,
    "enable_mem_reuse": False,
    "enable_cpu_mem_arena": False,
    "logid": "mine",
    "log_severity_level": 1,
    "log_verbosity_level": 2,
}


@pytest.mark.parametrize("name", VALUES)
def test_onnxruntime_reports_each_option_as_it_was_set(
    model: Path, sessions: list[Any], name: str
) -> None:
    with bridged(model, options_of(**{name: VALUES[name]})):
        reported = getattr(sessions[-1].get_session_options(), name)
    expected = VALUES[name]
    assert getattr(reported, "name", reported) == getattr(expected, "name", expected)


def test_without_options_onnxruntime_has_its_own_defaults(model: Path, sessions: list[Any]) -> None:
    import onnxruntime

    with bridged(model, SessionOptions()):
        reported, default = sessions[-1].get_session_options(), onnxruntime.SessionOptions()
    for name in VALUES.keys() - {"log_severity_level"}:
        assert getattr(reported, name) == getattr(default, name), name
    assert reported.log_severity_level == 4  # what fails is raised, and said once


#: Values other than "1" that an entry takes.
TEXTS = {
    "session.intra_op_thread_affinities": "1;2",
    "session.dynamic_block_base": "4",
    "optimization.disable_specified_optimizers": "ConstantFolding",
    "session.qdq_matmulnbits_block_size": "32",
}


@pytest.mark.parametrize("key", sorted(COMPILING_ENTRIES | RUNNING_ENTRIES))
def test_onnxruntime_reports_each_config_entry_as_it_was_set(
    model: Path, sessions: list[Any], key: str
) -> None:
    text = TEXTS.get(key, "1")
    with bridged(model, options_of({key: text}, intra_op_num_threads=3)) as session:
        assert sessions[-1].get_session_options().get_session_config_entry(key) == text
        assert session.run(None, {"x": X})[0].shape == (2, 3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("key", "text", "name", "expected"),
    [
        ("session.intra_op_num_threads", "2", "intra_op_num_threads", 2),
        ("session.execution_mode", "ORT_PARALLEL", "execution_mode", "ORT_PARALLEL"),
        (
            "session.graph_optimization_level",
            "ORT_DISABLE_ALL",
            "graph_optimization_level",
            "ORT_DISABLE_ALL",
        ),
        ("session.enable_mem_pattern", "0", "enable_mem_pattern", False),
        ("session.use_deterministic_compute", "1", "use_deterministic_compute", True),
    ],
)
def test_options_of_a_package_arrive(
    model: Path,
    tmp_path: Path,
    sessions: list[Any],
    key: str,
    text: str,
    name: str,
    expected: object,
) -> None:
    root = tmp_path / "net.ortpackage"
    ortpkg.create(
        root, [ortpkg.NewVariant(model=model, name="v", ep="cpu", session_options={key: text})]
    )
    with (
        ortpkg.ModelPackage(root)
        .best_variant(backend="onnxruntime")
        .create_session(backend="onnxruntime")
    ):
        reported = getattr(sessions[-1].get_session_options(), name)
    assert getattr(reported, "name", reported) == expected


def thread_count() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted where Linux lists them")
def test_the_process_has_as_many_threads_as_were_asked_for(model: Path) -> None:
    def count(threads: int) -> int:
        before = thread_count()
        with bridged(model, options_of(intra_op_num_threads=threads)):
            return thread_count() - before

    assert count(5) - count(2) == 3


def test_the_level_decides_what_onnxruntime_makes_of_the_model(
    model: Path, sessions: list[Any]
) -> None:
    def nodes(level: GraphOptimizationLevel) -> int:
        with bridged(model, options_of(graph_optimization_level=level)):
            return sum(
                len(each.get_nodes()) for each in sessions[-1].get_provider_graph_assignment_info()
            )

    assert nodes(GraphOptimizationLevel.ORT_DISABLE_ALL) == 5
    assert nodes(GraphOptimizationLevel.ORT_ENABLE_ALL) < 5


def test_an_option_of_the_provider_comes_before_that_of_the_session(
    model: Path, sessions: list[Any]
) -> None:
    providers = [(CPU_EP, {"intra_op_num_threads": "2"})]
    with InferenceSession(
        model, options_of(intra_op_num_threads=5), providers=providers, backend="onnxruntime"
    ):
        assert sessions[-1].get_session_options().intra_op_num_threads == 2


def test_options_reach_a_library_in_a_child_process(tmp_path: Path) -> None:
    """Denormals are zero where the option says so: there, and not here."""
    path = tmp_path / "scale.onnx"
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x, float[1] f) => (float[N] y) { y ='
        " Mul(x, f) }"
    )
    onnx.save(onnx.parser.parse_model(text), path)
    feeds = {"x": np.full(4, 1e-39, np.float32), "f": np.array([0.5], np.float32)}
    found = {}
    for text in ("0", "1"):
        options = options_of({"session.set_denormal_as_zero": text}, intra_op_num_threads=1)
        with bridged(path, options, isolate=True) as session:
            found[text] = session.run(None, feeds)[0]
    assert (found["0"] > 0).all()
    assert (found["1"] == 0).all()


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize(
    ("key", "text"),
    [("session.dynamic_block_base", "x"), ("session.intra_op_thread_affinities", "1;x")],
)
def test_a_value_that_onnxruntime_refuses_is_an_error_and_no_reason_to_leave_the_model(
    model: Path, key: str, text: str, isolate: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        InvalidSessionOptionError, match=rf"makes no session with the options .*'{key}'"
    ):
        bridged(model, options_of({key: text}, intra_op_num_threads=2), isolate=isolate)
    assert "EP Error" not in capfd.readouterr().out


def test_entries_that_reach_nobody_are_named(
    model: Path, sessions: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    entries = {
        "session.collect_node_memory_stats_to_file": "stats.csv",
        "session.intra_op.allow_spinning": "0",
        "ortpkg.verify_plan": "1",
        "session.intra_op_num_threads": "1",
    }
    with bridged(model, options_of(entries)):
        reported = sessions[-1].get_session_options()
    with pytest.raises(RuntimeError):
        reported.get_session_config_entry("session.collect_node_memory_stats_to_file")
    (line,) = (each.getMessage() for each in caplog.records if "do not apply" in each.getMessage())
    assert (
        line == f"{CPU_EP}: these session options do not apply to it:"
        " 'session.collect_node_memory_stats_to_file'"
    )


def test_no_cpu_fallback_is_for_providers_other_than_the_cpus(
    model: Path, sessions: list[Any]
) -> None:
    entries = {"session.disable_cpu_ep_fallback": "1"}
    with bridged(model, options_of(entries)) as session:
        assert session.run(None, {"x": X})[0].shape == (2, 3)
    assert len(sessions) == 1
    with pytest.raises(InvalidSessionOptionError, match="would run on the CPU provider"):
        InferenceSession(
            model, options_of(entries), providers=["AzureExecutionProvider"], backend="onnxruntime"
        )
    assert len(sessions) == 1  # onnxruntime refused it, too


# --- OpenVINO -------------------------------------------------------------------------------------


def on_openvino(model: Path, options: SessionOptions, **provider_options: str) -> Any:
    """The compiled model of OpenVINO itself."""
    pytest.importorskip("openvino")
    with InferenceSession(
        model, options, providers=[(OPENVINO_EP, provider_options)], backend="openvino"
    ) as session:
        (compiled,) = session._providers[0]._compiled.values()  # type: ignore[attr-defined]
        return compiled._compiled


def test_openvino_reports_the_threads_of_the_session(model: Path) -> None:
    assert (
        on_openvino(model, options_of(intra_op_num_threads=1)).get_property("INFERENCE_NUM_THREADS")
        == 1
    )
    found = on_openvino(model, options_of(intra_op_num_threads=1), num_of_threads="2")
    assert found.get_property("INFERENCE_NUM_THREADS") == 2


def test_what_openvino_does_not_obey_is_named(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = options_of(
        {"session.set_denormal_as_zero": "1"},
        intra_op_num_threads=1,
        inter_op_num_threads=2,
        graph_optimization_level=GraphOptimizationLevel.ORT_ENABLE_BASIC,
    )
    on_openvino(model, options)
    (line,) = (each.getMessage() for each in caplog.records if "do not apply" in each.getMessage())
    assert line.endswith(
        "do not apply to it: 'inter_op_num_threads', 'session.set_denormal_as_zero'"
    )


# --- contexts -------------------------------------------------------------------------------------


def test_the_cache_keeps_apart_what_was_compiled_with_other_options(
    model: Path, tmp_path: Path, sessions: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "facts"))
    cache = {"ortpkg.ep_context_cache": str(tmp_path / "contexts")}

    def compilations(entries: Mapping[str, str] | None = None, **values: Any) -> bool:
        sessions.clear()
        with bridged(model, options_of({**cache, **(entries or {})}, **values)):
            # else only loaded
            return bool(sessions[0].get_session_options().optimized_model_filepath)

    assert compilations()
    assert not compilations()
    assert not compilations(
        {"session.intra_op.allow_spinning": "0"}, intra_op_num_threads=2, inter_op_num_threads=1
    )
    assert compilations({"optimization.disable_specified_optimizers": "MatMulAddFusion"})
    basic = GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    assert compilations(graph_optimization_level=basic)
    assert not compilations(graph_optimization_level=basic)


def test_what_is_kept_is_compiled_once(
    model: Path, tmp_path: Path, sessions: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "facts"))
    with bridged(
        model, options_of({"ortpkg.ep_context_cache": "1", "ep.context_enable": "1"})
    ) as session:
        (expected,) = session.run(None, {"x": X})
    assert len(sessions) == 2  # compiled, and the context model's copy made anew
    sessions.clear()
    with bridged(model, options_of({"ortpkg.ep_context_cache": "1"})) as session:
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected)
    assert len(sessions) == 1


def test_a_disk_that_cannot_take_the_optimized_model_is_no_obstacle(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_keywords: object) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        "ortpkg.runtime.providers.onnxruntime_contexts.tempfile.TemporaryDirectory", full
    )
    with bridged(
        model, options_of({"ortpkg.ep_context_cache": str(tmp_path / "contexts")})
    ) as session:
        assert session.run(None, {"x": X})[0].shape == (2, 3)
    assert list((tmp_path / "contexts").glob("*.bin")) == []


def test_a_context_model_loads_whatever_the_level_of_the_session(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "facts"))
    context = tmp_path / "net_ctx.onnx"
    with bridged(model, options_of({"ep.context_enable": "1"})) as session:
        (expected,) = session.run(None, {"x": X})
    options = options_of(
        graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL, intra_op_num_threads=1
    )
    with bridged(context, options) as session:
        np.testing.assert_allclose(session.run(None, {"x": X})[0], expected, rtol=1e-5)
