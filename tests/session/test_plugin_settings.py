"""Session options as a plug-in gets them: all arrive, and those not obeyed are named."""

from __future__ import annotations

from functools import partial
from typing import Any

import onnx.parser
import pytest

from ortpkg.foundations.errors import ExecutionProviderError
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.plugins import ENTRY_POINT_GROUP, Plugin
from ortpkg.runtime.providers.session_settings import SessionSettings
from ortpkg.runtime.session import plugin_context_worker
from ortpkg.runtime.session.options import ExecutionMode, SessionOptions
from ortpkg.runtime.session.plugin_context_loader import PluginContextLoader
from ortpkg.runtime.session.session_state import create_session_state
from tests.ep_context.fake_compiler import NAME, FakeCompiler

TEXT = '<ir_version: 10, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Exp(x) }'


class Plugged(FakeCompiler):
    backend = "fake"


def tell(provider: FakeCompiler, **values: Any) -> FakeCompiler:
    """The provider after a session was made with it.

    Keys with two underscores are config entries with dots.
    """
    options = SessionOptions()
    for key, value in values.items():
        if "__" in key:
            options.add_session_config_entry(key.replace("__", "."), value)
        else:
            setattr(options, key, value)
    model = load_model(onnx.parser.parse_model(TEXT).SerializeToString())
    create_session_state(model, options, [provider, CPUExecutionProvider()]).close()
    return provider


def test_what_is_set_arrives_and_nothing_else() -> None:
    told = tell(
        Plugged(),
        intra_op_num_threads=3,
        execution_mode=ExecutionMode.ORT_PARALLEL,
        use_deterministic_compute=True,
        session__set_denormal_as_zero="1",
        fake__tile="8",
        ortpkg__verify_plan="1",
    ).session_settings
    assert told == SessionSettings(
        values={
            "intra_op_num_threads": 3,
            "execution_mode": "ORT_PARALLEL",
            "use_deterministic_compute": True,
        },
        entries={"session.set_denormal_as_zero": "1"},
        other_entries={"fake.tile": "8"},
    )
    assert tell(Plugged()).session_settings == SessionSettings()


def test_what_it_does_not_obey_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Native(Plugged):
        computes_natively = True
        obeyed_settings = ("intra_op_num_threads", "fake.tile")

    values: dict[str, Any] = {
        "intra_op_num_threads": 2,
        "enable_mem_pattern": False,
        "log_severity_level": 1,
    }
    entries = {"fake__tile": "8", "fake__tyle": "8", "session__set_denormal_as_zero": "1"}
    tell(Native(), **values, **entries)
    named = "do not apply to it: 'enable_mem_pattern', 'session.set_denormal_as_zero', 'fake.tyle'"
    assert [each.getMessage() for each in caplog.records] == [
        f"{NAME}: these session options {named}"
    ]
    caplog.clear()
    tell(Plugged(), **values)  # the engine, in which it computes, obeys all of these
    assert caplog.records == []


@pytest.mark.parametrize("obeyed", ["fake.tile", [1], None])
def test_what_are_no_names_of_options_are_refused(obeyed: Any) -> None:
    class Naming(Plugged):
        obeyed_settings = obeyed

    with pytest.raises(ExecutionProviderError, match=NAME):
        tell(Naming())


def test_all_that_a_session_gives_arrives_by_one_call_before_anything_is_asked() -> None:
    told: list[Any] = []

    class Joining(Plugged):
        def join_session(self, **given: Any) -> None:
            told.append((given, self.graph_engine, self.session_settings))
            super().join_session(**given)

    provider = tell(Joining(), fake__tile="8")
    ((given, engine, settings),) = told
    assert (engine, settings) == (None, SessionSettings())
    assert provider.session_settings is given["settings"]
    assert provider.ep_context is given["ep_context"]
    assert provider.graph_engine is given["graph_engine"] is not None


def test_what_it_raises_when_it_is_told_is_an_error_that_names_it() -> None:
    class Refusing(Plugged):
        def use_session_settings(self, settings: SessionSettings) -> None:
            raise ValueError("a tile of 7")

    with pytest.raises(
        ExecutionProviderError, match=f"{NAME} failed to take the session's options: .*a tile of 7"
    ):
        tell(Refusing())


def test_the_child_that_loads_a_context_first_is_told_what_is_obeyed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Obeying(Plugged):
        obeyed_settings = ("fake.tile",)

    provider = Obeying()
    provider.load_first_by(partial(PluginContextLoader, Plugin(name=NAME, value="a:b"), (), {}))
    assert provider.first_loader is not None
    before = provider.first_loader.fingerprint
    tell(provider, fake__tile="8", fake__tyle="8", intra_op_num_threads=2)
    loader: Any = provider.first_loader
    assert loader.settings == SessionSettings(other_entries={"fake.tile": "8"})
    assert loader.fingerprint != before  # what went well with other options proves nothing

    class Factory:
        def create(self, devices: object, options: object) -> FakeCompiler:
            del devices, options
            return made

    made = Obeying()
    monkeypatch.setattr(plugin_context_worker, "load", lambda *_words: Factory())
    plugin_context_worker.open_context_plugin(
        ENTRY_POINT_GROUP, NAME, "a:b", [], {}, loader.settings.to_json()
    )
    assert made.session_settings == loader.settings
