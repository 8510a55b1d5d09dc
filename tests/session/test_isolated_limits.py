"""The limits of sessions in child processes, and what a request for one carries over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ortpkg.foundations.errors import CancelledError, LimitExceededError
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.providers.isolated_model import LoadLimits
from ortpkg.runtime.session import isolated_session
from ortpkg.runtime.session.isolated_session import _Making, _RunWatch
from ortpkg.runtime.session.session_providers import ProviderRequest
from ortpkg.runtime.session.session_request import _providers_header, _read_providers

WORKER: Any = SimpleNamespace(note="it was loading")


class Clock:
    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(isolated_session, "time", clock)
    return clock


def test_making_a_session_ends_at_its_time_and_not_before(clock: Clock) -> None:
    making = _Making("acme", LoadLimits(timeout_s=5), WORKER)
    making.check_cancelled()
    clock.now_s += 5
    making.check_cancelled()
    clock.now_s += 0.1
    with pytest.raises(
        LimitExceededError, match="on acme passed the time limit of 5 s; it was loading"
    ) as caught:
        making.check_cancelled()
    assert caught.value.limit == "time"


def test_making_a_session_without_limits_takes_what_it_takes(clock: Clock) -> None:
    making = _Making("acme", LoadLimits(), WORKER)
    clock.now_s += 1e9
    making.check_cancelled()
    making.check_allocation(1 << 60)


def test_the_memory_of_making_a_session_is_limited_beside_the_model_itself() -> None:
    making = _Making("acme", LoadLimits(memory_limit_nbytes=1000), WORKER, allowance_nbytes=50)
    making.check_allocation(1050)
    with pytest.raises(
        LimitExceededError, match=r"takes 1.1 kB, which passes .* 1 kB and 50 B for"
    ) as caught:
        making.check_allocation(1051)
    assert caught.value.limit == "memory"


def test_making_a_session_ends_where_its_caller_wants() -> None:
    def check_not_cancelled() -> None:
        raise CancelledError("no more")

    request: Any = SimpleNamespace(options=SimpleNamespace(check_not_cancelled=check_not_cancelled))
    with pytest.raises(CancelledError, match="no more"):
        _Making("acme", LoadLimits(), WORKER, request=request).check_cancelled()


def test_a_run_past_its_time_has_a_moment_to_end_by_itself(clock: Clock) -> None:
    def check() -> None:
        raise LimitExceededError("too long", limit="time")

    control: Any = SimpleNamespace(check=check, is_memory_limited=False)
    watch = _RunWatch(control)
    watch.check_cancelled()
    clock.now_s += isolated_session._GRACE_S
    watch.check_cancelled()
    clock.now_s += 0.1
    with pytest.raises(LimitExceededError, match="too long"):
        watch.check_cancelled()


def test_a_run_that_its_caller_ends_has_none() -> None:
    def check() -> None:
        raise CancelledError("ended")

    control: Any = SimpleNamespace(check=check, is_memory_limited=False)
    with pytest.raises(CancelledError):
        _RunWatch(control).check_cancelled()


DEVICE = EpDevice(ep_name="A", backend="b", device=HardwareDevice(type=DeviceType.CPU, name="c"))


@pytest.mark.parametrize(
    "request_",
    [
        ProviderRequest(),
        ProviderRequest(providers=["A", ("B", {"k": "v"})], falls_back=False),
        ProviderRequest(providers=["A", "B"], provider_options=[{"k": "v"}, {}]),
        ProviderRequest(ep_devices=[(DEVICE, {"k": "v"})]),
        ProviderRequest(backend="acme"),
    ],
)
def test_what_was_asked_of_providers_arrives_in_the_child(request_: ProviderRequest) -> None:
    assert _read_providers(_providers_header(request_)) == request_
