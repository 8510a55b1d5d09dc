"""Values of session options as onnxruntime 1.31 takes them.

Tests/interop/test_compat_sessions.py asks the library.
"""

from __future__ import annotations

import pytest

from ortpkg.errors import InvalidSessionOptionError
from ortpkg.session.options import ExecutionMode, GraphOptimizationLevel, SessionOptions
from ortpkg.trust.session_option_values import read_as_onnxruntime, read_leniently


def test_what_is_read_sets_our_own_options() -> None:
    stated = {
        "session.intra_op_num_threads": " +02",
        "session.inter_op_num_threads": "-1",
        "session.log_severity_level": "-1",
        "session.enable_mem_pattern": "False",
        "session.execution_mode": "Parallel",
        "session.graph_optimization_level": "enable_layout",
        "session.log_id": "a\0b",
        "unknown.key": "x",
    }
    options = SessionOptions()
    for key, value in read_as_onnxruntime(stated).items():
        options.add_session_config_entry(key, value)

    assert (
        options.intra_op_num_threads,
        options.inter_op_num_threads,
        options.log_severity_level,
    ) == (2, 0, -1)
    assert options.enable_mem_pattern is False
    assert options.execution_mode is ExecutionMode.ORT_PARALLEL
    assert options.graph_optimization_level is GraphOptimizationLevel.ORT_ENABLE_LAYOUT
    assert (options.logid, options.config_entries["unknown.key"]) == ("a", "x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"session.intra_op_num_threads": "1.5"},
            "'session.intra_op_num_threads' takes a base-10 int32, not '1.5'",
        ),
        (
            {"session.log_severity_level": "5"},
            "'session.log_severity_level' takes a number from -1 to 4, not '5'",
        ),
        (
            {"session.use_per_session_threads": "0"},
            "'session.use_per_session_threads' takes 1 or true, not '0'",
        ),
        ({"": "x"}, "session option '': a key has 1 to 1024 bytes, not 0"),
        ({"é" * 513: "x"}, "a key has 1 to 1024 bytes, not 1026"),
        ({"k": "v" * 8193}, "session option 'k': a value has at most 8192 bytes, not 8193"),
    ],
)
def test_what_onnxruntime_refuses_is_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSessionOptionError, match=message) as caught:
        read_as_onnxruntime(options)

    assert caught.value.key == next(iter(options))


def test_a_lenient_reading_leaves_our_own_spelling() -> None:
    assert read_leniently(
        {
            "session.execution_mode": "ORT_PARALLEL",
            "session.graph_optimization_level": "99",
            "session.log_severity_level": "-1",
        }
    ) == {"session.execution_mode": "ORT_PARALLEL", "session.graph_optimization_level": "99"}
