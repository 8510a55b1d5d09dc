"""Observer interface of a server's work, on which metrics are based."""

from __future__ import annotations

from collections.abc import Callable

from ortpkg.scale.serving.served_model import ServedModel


class Observer:
    """Observer of models, requests and runs, called on several threads; this one does nothing.

    Durations are in seconds.
    """

    def loaded(self, model: ServedModel) -> Callable[[str, float], None]:
        """Record that a model will answer.

        Return a function to call with each component and its run time.
        """
        del model
        return lambda _component, _duration_s: None

    def began(self, model: ServedModel, waited_s: float) -> None:
        """Record that a single request starts to run."""

    def joined(self, model: ServedModel, rows: int, waited_s: list[float]) -> None:
        """Record that requests start to run together, and how long each waited."""

    def answered(self, model: ServedModel, duration_s: float) -> None:
        """Record that a request has its outputs, and the time since it was read."""

    def responded(self, protocol: str, status: str) -> None:
        """Record a response: "http" with its status, or "grpc" with the name of its code."""
