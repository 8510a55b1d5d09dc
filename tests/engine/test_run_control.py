from __future__ import annotations

import pytest

from ortpkg.foundations.errors import CancelledError, LimitExceededError
from ortpkg.foundations.host.memory import machine_memory_nbytes
from ortpkg.runtime.engine.run_control import RunControl


def test_charges_add_up_and_come_back() -> None:
    control = RunControl(memory_limit_nbytes=100)
    control.charge(60)
    with pytest.raises(
        LimitExceededError, match=r"asks for 41 B beside the 60 B that it holds.* limit of 100 B"
    ):
        control.charge(41)
    control.discharge(60)
    control.charge(100)
    with pytest.raises(LimitExceededError, match="1 B beside the 100 B"):
        control.charge(1)


def test_check_of_an_allocation_counts_nothing() -> None:
    control = RunControl(memory_limit_nbytes=100)
    control.check_allocation(100)
    with pytest.raises(LimitExceededError, match="memory limit"):
        control.check_allocation(101)
    control.charge(100)


def test_deadline_that_has_passed_ends_the_run() -> None:
    with pytest.raises(LimitExceededError, match="time limit of -1 s") as caught:
        RunControl(timeout_s=-1).check()
    assert caught.value.limit == "time"


def test_caller_may_end_the_run() -> None:
    wishes = [False, True]
    control = RunControl(is_terminated=lambda: wishes.pop(0))
    control.check()
    with pytest.raises(CancelledError, match="ended by its caller"):
        control.check()


def test_only_a_run_with_a_deadline_or_a_caller_is_watched() -> None:
    assert not RunControl().is_watched
    assert RunControl(timeout_s=1).is_watched
    assert RunControl(is_terminated=lambda: False).is_watched


def test_default_limit_is_the_memory_of_the_machine() -> None:
    assert 1 << 20 < machine_memory_nbytes() < 1 << 60
    with pytest.raises(LimitExceededError, match="memory limit"):
        RunControl().charge(machine_memory_nbytes() + 1)
