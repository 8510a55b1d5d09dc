"""Plug-ins that do harm in claiming, compiling or running: with ``isolate`` we live."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ortpkg
from ortpkg.foundations.errors import (
    ExecutionProviderError,
    InvalidFeedError,
    InvalidSessionOptionError,
    LimitExceededError,
    OrtpkgError,
    RunError,
    SessionError,
)
from ortpkg.runtime.providers import plugins
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import RunOptions, SessionOptions
from tests.session.faulty_plugin import NAME

ROOT = Path(__file__).resolve().parents[2]
TEXT = """<ir_version: 10, opset_import: ["" : 17]>
g (float[N] x) => (float[N] y, float[N] negated) <float[1] one = {1}> {
    squared = Mul(x, x)
    negated = Neg(squared)
    y = Add(negated, one)
}"""
X = np.array([1, -2, 3], np.float32)
BAD = np.array([666, 1], np.float32)
_PLUGIN = f"plug-in '{NAME}' .'tests.session.faulty_plugin:Factory'"
pytestmark = pytest.mark.usefixtures("warm_processes")
posix_only = pytest.mark.skipif(os.name != "posix", reason="names POSIX signals")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="exact memory of another process")


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    )
    plugins.register_plugin("tests.session.faulty_plugin:Factory")
    yield
    plugins.unregister_plugin(NAME)


def data_of(text: str = TEXT) -> bytes:
    data: bytes = onnx.parser.parse_model(text).SerializeToString()
    return data


def isolated(**options: Any) -> InferenceSession:
    return InferenceSession(data_of(), SessionOptions(**options), providers=[NAME], isolate=True)


def child_of(session: InferenceSession) -> subprocess.Popen[bytes]:
    child: subprocess.Popen[bytes] = session._state._worker._child  # type: ignore[union-attr]
    return child


def test_it_computes_and_says_of_itself_what_a_session_here_says() -> None:
    with InferenceSession(data_of(), providers=[NAME]) as here, isolated() as session:
        for x in (X, X[:0], X[:1]):
            found, expected = session.run(None, {"x": x}), here.run(None, {"x": x})
            np.testing.assert_array_equal(found, expected)
            assert found[0].flags.writeable
        np.testing.assert_array_equal(session.run(["negated"], {"x": X})[0], -X * X)
        assert session.get_providers() == here.get_providers() == [NAME, "CPUExecutionProvider"]
        assert session.get_inputs() == here.get_inputs()
        assert session.get_outputs() == here.get_outputs()
        assert session.get_modelmeta() == here.get_modelmeta()
        assert session.get_partitions() == here.get_partitions()
        assert session.get_placement() == here.get_placement()
        assert session.get_plan() == here.get_plan()
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 1 - X * X)
        target = ortpkg.OrtValue.ortvalue_from_numpy(np.zeros_like(X))
        binding.bind_ortvalue_output("y", target)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(target.numpy(), 1 - X * X)
        with pytest.raises(InvalidFeedError, match="rank 2"):
            session.run(None, {"x": np.ones((2, 2), np.float32)})
    with pytest.raises(SessionError, match="the session is closed"):
        session.run(None, {"x": X})


@posix_only
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "claim:abort",
            (
                f"was made is no more: it was ended by SIGABRT.*; {NAME} was to say which nodes it"
                " runs"
            ),
        ),
        ("compile:exit", f"was made is no more: it ended with status 7; {NAME} was to compile"),
        ("compile:sys.exit", f"{NAME} failed to compile: 'SystemExit: licence expired'"),
    ],
)
def test_one_that_ends_its_process_while_a_session_is_made(
    monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    monkeypatch.setenv("FAULT", fault)
    with pytest.raises(ExecutionProviderError, match=said) as caught:
        isolated()
    assert caught.value.ep_name == NAME
    assert NAME in str(caught.value)


@posix_only
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("run:abort", f"in which {_PLUGIN}.* ran the model is no more: it was ended by SIGABRT"),
        ("run:sys.exit", "node 'Square' .* failed: SystemExit: licence expired"),
    ],
)
def test_one_that_ends_its_process_in_a_run(
    monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    monkeypatch.setenv("FAULT", fault)
    with isolated() as session:
        with pytest.raises(RunError, match=said):
            session.run(None, {"x": BAD})
        # by a new child, where one ended
        np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], 1 - X * X)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fault", ["run:print", "run:fork", "compile:fork"])
@posix_only
def test_one_that_prints_or_forks_does_not_disturb_the_answers(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], fault: str
) -> None:
    monkeypatch.setenv("FAULT", fault)
    with isolated() as session:
        for x in (BAD, X, BAD):
            np.testing.assert_array_equal(session.run(["y"], {"x": x})[0], 1 - x * x)
    assert "NOISE" not in capfd.readouterr().out


@pytest.mark.parametrize("place", ["create", "compile"])
def test_one_that_hangs_while_a_session_is_made_costs_the_time_limit(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("FAULT", f"{place}:hang")
    with pytest.raises(
        LimitExceededError, match=f"making the session on {_PLUGIN}. passed the time limit of 4 s"
    ):
        isolated(timeout_s=4.0)


def test_one_that_hangs_in_a_run_costs_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "run:hang")
    with isolated() as session:
        child = child_of(session)
        with pytest.raises(
            LimitExceededError, match=r"the run passed its time limit of 0\.5 s"
        ) as caught:
            session.run(None, {"x": BAD}, RunOptions(timeout_s=0.5))
        assert caught.value.limit == "time"
        assert child.wait(timeout=60) != 0
        np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], 1 - X * X)


def test_a_run_that_hangs_is_ended_by_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "run:hang")
    options = RunOptions()
    ended: list[str] = []
    with isolated() as session:
        session.run_async(
            None, {"x": BAD}, lambda _outputs, _data, error: ended.append(error), None, options
        )
        time.sleep(0.2)
        options.terminate = True
        while not ended:
            time.sleep(0.05)
    assert "the run was ended by its caller" in ended[0]


@pytest.mark.sampled(2)
@linux_only
@pytest.mark.parametrize(
    "fault", ["compile:eat", "run:eat", "compile:eat beside", "run:eat beside"]
)
def test_one_that_eats_memory_is_ended_at_the_limit(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """In its own process, or in one that it starts."""
    monkeypatch.setenv("FAULT", fault)
    with pytest.raises(LimitExceededError, match=r"memory limit of 300 MB") as caught:
        isolated(memory_limit_nbytes=300_000_000).run(None, {"x": BAD})
    assert caught.value.limit == "memory"


def test_what_a_session_in_a_child_logs_is_logged_here(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAULT", "claim:twice")
    isolated().close()
    assert [each for each in caplog.records if "claims node 'Neg_1' twice" in each.getMessage()]


def test_what_means_nothing_in_another_process_is_refused() -> None:
    shared = SessionOptions()
    shared.add_session_config_entry("ep.share_ep_contexts", "1")
    with pytest.raises(InvalidSessionOptionError, match="are of one process"):
        InferenceSession(data_of(), shared, providers=[NAME], isolate=True)
    with pytest.raises(InvalidSessionOptionError, match="transformers of your own cannot cross"):
        InferenceSession(
            data_of(),
            providers=[NAME],
            isolate=True,
            transformers={ortpkg.TransformLevel.BASIC: [lambda *_: False]},  # type: ignore[list-item]
        )


def test_options_and_values_of_every_kind_cross() -> None:
    text = """<ir_version: 10, opset_import: ["" : 17]>
    g (string[2] s, bfloat16[N] b, float[N] x, seq(float[N]) q) =>
    (string[2] t, bfloat16[N] c, float[N] y, seq(float[N]) r)
    <float[1] one = {1}> {
        t = Identity(s)
        c = Identity(b)
        r = SequenceInsert(q, x)
        z = Mul(x, x)
        y = Add(z, one)
    }"""
    options = SessionOptions(logid="me")
    options.add_session_config_entry("ortpkg.verify_plan", "1")
    options.add_initializer("one", ortpkg.OrtValue.ortvalue_from_numpy(np.array([5], np.float32)))
    import ml_dtypes

    feeds = {
        "s": np.array(["a", "ü"], object),
        "b": np.array([1.5, 2], ml_dtypes.bfloat16),
        "x": X[:2],
        "q": [X[1:]],
    }
    options.add_provider(NAME)
    with InferenceSession(data_of(text), options, isolate=True) as session:
        texts, halves, y, sequence = session.run(None, feeds)
    assert texts.tolist() == ["a", "ü"]
    assert halves.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, 5 + X[:2] ** 2)
    np.testing.assert_array_equal(sequence[1], X[:2])


def test_an_error_of_the_model_is_what_it_is_without_a_child() -> None:
    broken = TEXT.replace("Neg(squared)", "NoSuchOperator(squared)")
    kinds = []
    for isolate in (False, True):
        with pytest.raises(OrtpkgError) as caught:
            InferenceSession(data_of(broken), providers=[NAME], isolate=isolate)
        kinds.append((type(caught.value), str(caught.value), caught.value.exit_code))
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize(
    ("place", "doing"),
    [
        ("create_allocator", "say which memory it works in"),
        ("kernel", "make its kernel of node Neg_1"),
        ("create_state", "prepare partition Square"),
        ("get_placement", "say what it runs where"),
    ],
)
def test_whatever_a_plugin_raises_here_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, place: str, doing: str
) -> None:
    monkeypatch.setenv("FAULT", f"{place}:raise")
    with pytest.raises(ExecutionProviderError, match=f"{NAME} failed to {doing}: .*no such thing"):
        InferenceSession(data_of(), providers=[NAME]).get_placement()


def test_a_plugin_that_fails_at_the_end_of_a_session_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for place in ("release_state", "close"):
        monkeypatch.setenv("FAULT", f"{place}:raise")
        with InferenceSession(data_of(), providers=[NAME]) as session:
            session.run(None, {"x": X})
    assert [record.getMessage() for record in caplog.records].count(
        f"{NAME} failed to end: \"KeyError: 'no such thing'\""
    ) == 2
