"""What is asked of an application of Ray Serve, before Ray is."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import ExecutionProviderError, UsageError
from ortpkg.scale.ray import package_app
from ortpkg.scale.ray.serve_app import build
from ortpkg.scale.ray.serve_replica import WatchedAnswering
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.server_log import forward_events, log_event
from ortpkg.scale.serving.serving_options import ServingLimits
from tests.serving.test_served_model import Adder


@pytest.fixture
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)


def test_nothing_to_serve_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one package"):
        build({})


@pytest.mark.usefixtures("_no_ray")
def test_the_extra_is_named_where_ray_is_missing() -> None:
    with pytest.raises(UsageError, match="with its extra ray"):
        package_app("digits", batch_latency="20ms")


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"variants": "cpu"}, "did you mean 'variant'"),
        ({"batch_latency": "soon"}, "batch_latency"),
        ({"max_request": "much"}, "max_request"),
        ({"threads": 0}, "threads"),
        ({"packages": 3}, "packages"),
    ],
)
def test_wrong_arguments_of_a_config_file_are_told(args: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        build({"packages": "digits", **args})


class Broken(Adder):
    """A session whose device is gone."""

    def run(self, *_arguments: Any) -> list[Any]:
        """Fails."""
        raise ExecutionProviderError("the device has vanished", ep_name="AnyExecutionProvider")


def test_a_device_that_failed_is_remembered_for_the_health_check() -> None:
    async def run() -> None:
        answering = WatchedAnswering(ServingLimits(concurrency=1))
        feed = {name: np.ones(1, np.float32) for name in "ab"}
        await answering.answer(ServedModel(name="m", version="1", session=Adder()), feed)
        answering.check()
        with pytest.raises(ExecutionProviderError):
            await answering.answer(ServedModel(name="m", version="1", session=Broken()), feed)
        with pytest.raises(RuntimeError, match="the device has vanished"):
            answering.check()
        await answering.drain()

    asyncio.run(run())


def test_events_go_to_the_log_of_another_as_lines(caplog: pytest.LogCaptureFixture) -> None:
    ours = logging.getLogger("ortpkg.scale.serving")
    before = ours.handlers[:], ours.level, ours.propagate
    try:
        with caplog.at_level(logging.INFO, logger="theirs"):
            forward_events(logging.getLogger("theirs"))
            log_event("loaded", model="digits", variants=["classifier/cpu"])
    finally:
        ours.handlers[:], ours.level, ours.propagate = before[0], before[1], before[2]
    assert caplog.messages == ["loaded model=digits variants=['classifier/cpu']"]
