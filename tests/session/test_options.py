from __future__ import annotations

import subprocess
import sys
from typing import Any

import onnxruntime
import pytest

import ortpkg
from ortpkg.foundations.errors import InvalidSessionOptionError
from ortpkg.runtime.session import options as options_module
from ortpkg.runtime.session.options import (
    ExecutionMode,
    GraphOptimizationLevel,
    SessionOptions,
    check_options,
)


def test_options_import_neither_numpy_nor_onnx() -> None:
    code = (
        "import sys, ortpkg.runtime.session.options; print([m for m in ('numpy', 'onnx') if m in"
        " sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["GraphOptimizationLevel", "ExecutionMode"])
def test_enums_have_the_values_of_onnxruntime(name: str) -> None:
    theirs = {
        member: int(value) for member, value in getattr(onnxruntime, name).__members__.items()
    }
    assert {member.name: int(member) for member in getattr(options_module, name)} == theirs


@pytest.mark.parametrize("name", ["SessionOptions", "RunOptions"])
def test_defaults_are_those_of_onnxruntime(name: str) -> None:
    ours, theirs = getattr(ortpkg, name)(), getattr(onnxruntime, name)()
    attributes = {
        each
        for each in dir(theirs)
        if not each.startswith("_") and not callable(getattr(theirs, each))
    }
    assert not {
        each for each in attributes if _plain(getattr(ours, each)) != _plain(getattr(theirs, each))
    }


def test_an_arena_is_configured_by_default_as_onnxruntimes() -> None:
    ours, theirs = ortpkg.OrtArenaCfg({}), onnxruntime.OrtArenaCfg({})
    attributes = [each for each in dir(theirs) if not each.startswith("_")]
    assert [getattr(ours, each) for each in attributes] == [
        getattr(theirs, each) for each in attributes
    ]


def _plain(value: Any) -> Any:
    """Enumerations of both as numbers."""
    return value if isinstance(value, str) else int(value)


def test_config_entry_of_an_option_sets_it() -> None:
    options = SessionOptions()
    options.add_session_config_entry("session.intra_op_num_threads", "3")
    options.add_session_config_entry("session.execution_mode", "ORT_PARALLEL")
    options.add_session_config_entry("session.graph_optimization_level", "1")
    options.add_session_config_entry("session.enable_mem_pattern", "0")
    assert (options.intra_op_num_threads, options.execution_mode) == (3, ExecutionMode.ORT_PARALLEL)
    assert options.graph_optimization_level is GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert not options.enable_mem_pattern
    assert options.get_session_config_entry("session.intra_op_num_threads") == "3"


@pytest.mark.parametrize("value", ["many", "999999999999"])
def test_config_entry_that_does_not_parse_is_refused(value: str) -> None:
    with pytest.raises(
        InvalidSessionOptionError, match=rf"'session\.intra_op_num_threads' cannot be '{value}'"
    ) as caught:
        SessionOptions().add_session_config_entry("session.intra_op_num_threads", value)
    assert caught.value.key == "session.intra_op_num_threads"


def test_entry_that_was_never_set_is_an_error() -> None:
    with pytest.raises(
        InvalidSessionOptionError, match=r"no session config entry 'ep\.context_enable'"
    ):
        SessionOptions().get_session_config_entry("ep.context_enable")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("log_severity_level", 5, "log_severity_level is a number from -1 to 4, not 5"),
        ("timeout_s", 0, "timeout_s is a positive number or None, not '0'"),
    ],
)
def test_senseless_option_is_refused(option: str, value: int, message: str) -> None:
    options = SessionOptions()
    setattr(options, option, value)
    with pytest.raises(InvalidSessionOptionError, match=message):
        check_options(options)
