"""Turns on execution providers whose sessions must not work at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ortpkg.foundations.errors import CancelledError
from ortpkg.runtime.providers.onnxruntime_library import OnnxRuntimeModel
from ortpkg.runtime.providers.onnxruntime_turns import turn

WEBGPU = "WebGpuExecutionProvider"
_WAIT_S = 60


class _Run:
    """A run as a library sees it; ``check`` is asked where it waits."""

    is_memory_limited = False

    def __init__(self, check: Callable[[], None] | None = None) -> None:
        self.is_watched = check is not None
        self._check = check

    def check_cancelled(self) -> None:
        if self._check is not None:
            self._check()

    def check_allocation(self, nbytes: int) -> None: ...


class _Session:
    """Stands for onnxruntime's session; notes how many of them run at once."""

    running = 0
    most = 0
    _counting = threading.Lock()

    def run(self, outputs: Sequence[str], feeds: Any, options: Any) -> list[Any]:
        del outputs, options
        with self._counting:
            type(self).running += 1
            type(self).most = max(self.most, self.running)
        time.sleep(0.02)
        with self._counting:
            type(self).running -= 1
        return list(feeds.values())


def _most_at_once(ep_name: str) -> int:
    """Return how many of three sessions of an EP ran at once in three threads."""

    class Session(_Session):
        pass

    models = [OnnxRuntimeModel(Session(), ["x"], ["y"], ep_name) for _ in range(3)]
    start = threading.Barrier(3)

    def run(model: OnnxRuntimeModel) -> None:
        start.wait(_WAIT_S)
        model.compute([1], _Run())

    threads = [threading.Thread(target=run, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_WAIT_S)
    return Session.most


def test_two_sessions_on_webgpu_never_run_at_once() -> None:
    assert _most_at_once(WEBGPU) == 1


def test_sessions_on_other_execution_providers_run_side_by_side() -> None:
    assert _most_at_once("OpenVINOExecutionProvider") > 1


def test_a_run_that_waits_for_its_turn_can_be_cancelled() -> None:
    def cancel() -> None:
        raise CancelledError("the run was ended by its caller")

    model = OnnxRuntimeModel(_Session(), ["x"], ["y"], WEBGPU)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            model.compute([1], _Run(cancel))
        except CancelledError as error:
            errors.append(error)

    with turn(WEBGPU):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(_WAIT_S)
        assert not thread.is_alive()
    assert [str(error) for error in errors] == ["the run was ended by its caller"]


def test_a_turn_ends_with_an_error_inside() -> None:
    with pytest.raises(ValueError, match="refused"), turn(WEBGPU):
        raise ValueError("refused")
    taken: list[bool] = []

    def take() -> None:
        with turn(WEBGPU):
            taken.append(True)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(_WAIT_S)
    assert taken == [True]
