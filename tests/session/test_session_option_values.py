"""Values of session options as onnxruntime 1.31 and 1.32 take them.

Tests/interop/test_compat_sessions.py asks the library.
"""

from __future__ import annotations

import pytest

from ortpkg.foundations.errors import InvalidSessionOptionError
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_31, ONNXRUNTIME_1_32
from ortpkg.package.trust.session_option_values import read_as_onnxruntime, read_leniently
from ortpkg.runtime.session.options import ExecutionMode, GraphOptimizationLevel, SessionOptions


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
    for key, value in read_as_onnxruntime(stated, release=ONNXRUNTIME_1_31).items():
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
        read_as_onnxruntime(options, release=ONNXRUNTIME_1_31)

    assert caught.value.key == next(iter(options))


def test_a_lenient_reading_leaves_our_own_spelling() -> None:
    assert read_leniently(
        {
            "session.execution_mode": "ORT_PARALLEL",
            "session.graph_optimization_level": "99",
            "session.log_severity_level": "-1",
        }
    ) == {"session.execution_mode": "ORT_PARALLEL", "session.graph_optimization_level": "99"}


_MOE = "session.moe.offload."


@pytest.mark.parametrize(
    ("key", "taken", "refused"),
    [
        ("ep.enable_weightless_mode", "0 1 2", "00 3 +1"),
        ("ep.cuda.moe_packed_gpu_experts", "007 -0 2147483647", "-1 +1 2147483648 0x1"),
        ("session.kernel_dispatch_policy", "auto latency memory safe", "Auto fast"),
        ("session.external_data_loader.threads", "0 01 64", "65 -1 1.0"),
        ("session.external_data_loader.chunk_bytes", "4096 67108864", "4097 0 67112960"),
        ("session.external_data_loader.min_size_bytes", "0 4294967296", "4294967297 +1"),
        ("session.external_data_loader.pinned_memory_bytes", "1048576", "1048577 1052672"),
        (f"{_MOE}mode", "0 1 ON off AUTO required", "2 true"),
        (f"{_MOE}allow_file_backing", "0 1 True FALSE", "2 on"),
        (f"{_MOE}skip_tail_cold_only", "0 1", "true 01"),
        (f"{_MOE}cpu_execution", "Enabled 0", "required on"),
        (f"{_MOE}placement", "STATIC adaptive", "basic"),
        (f"{_MOE}gpu_budget_bytes", "aUTO 0 18446744073709551615", "18446744073709551616 -1"),
        (f"{_MOE}device_working_bytes", "1", "0 auto"),
        (f"{_MOE}cpu_threads", f"{'0' * 40}1 2147483647", "2147483648 +1"),
        (f"{_MOE}prefill_wave_experts", "1", "0 00"),
        (f"{_MOE}min_expert_weight", "+1 0x1p-1 .5 1e-400 1.00000001", "1.0000001 5. nan 1e400"),
        (f"{_MOE}tail_substitution_threshold", "-0 5. 1E5 1e-45 0e999", "1e-46 1e39 0x1 +1 inf"),
        (
            f"{_MOE}node_overrides",
            "n:max_resident_slots=01,;;m:device_expert_bytes=0,max_resident_slots=2 n=1:max_resident_slots=1",
            "n a:b:max_resident_slots=1 n:,max_resident_slots=1 n:max_resident_slots=2147483648",
        ),
    ],
)
def test_1_32_checks_values_that_1_31_takes_as_any_text(key: str, taken: str, refused: str) -> None:
    for value in taken.split():
        assert read_as_onnxruntime({key: value}, release=ONNXRUNTIME_1_32) == {key: value}
    for value in refused.split():
        assert read_as_onnxruntime({key: value}, release=ONNXRUNTIME_1_31) == {key: value}
        with pytest.raises(InvalidSessionOptionError, match=r"in onnxruntime 1\.32, not") as caught:
            read_as_onnxruntime({key: value}, release=ONNXRUNTIME_1_32)
        assert caught.value.key == key


def test_1_32_knows_every_option_of_offloaded_experts() -> None:
    message = r"'session.moe.offload.x' is no option that onnxruntime 1.32 knows below session.moe"
    with pytest.raises(InvalidSessionOptionError, match=message):
        read_as_onnxruntime({f"{_MOE}x": "1"}, release=ONNXRUNTIME_1_32)

    assert read_as_onnxruntime({f"{_MOE}x": "1"}, release=ONNXRUNTIME_1_31)
