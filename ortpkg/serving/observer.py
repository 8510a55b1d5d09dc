"""What a server tells of its work while it works; metrics are made of it."""

from __future__ import annotations

from collections.abc import Callable

from ortpkg.serving.served_model import ServedModel


class Observer:
    """Hears of models, requests and runs, on several threads; this one does nothing with it.

    Durations are in seconds.
    """

    def loaded(self, model: ServedModel) -> Callable[[str, float], None]:
        """A model is going to answer; what is returned hears a component and how long it ran."""
        del model
        return lambda _component, _duration_s: None

    def began(self, model: ServedModel, waited_s: float) -> None:
        """A request of its own begins to run."""

    def joined(self, model: ServedModel, rows: int, waited_s: list[float]) -> None:
        """Requests begin to run together; how long each waited."""

    def answered(self, model: ServedModel, duration_s: float) -> None:
        """A request has its outputs, so long after it was read."""

    def responded(self, protocol: str, status: str) -> None:
        """A client got a response, "http" with its status, or "grpc" with the name of its code."""
