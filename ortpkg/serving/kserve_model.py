"""KServe's model class for a package, for KServe's metadata of models."""

from __future__ import annotations

from typing import Any

from kserve import Model

from ortpkg.serving.served_model import ServedModel


class PackageModel(Model):
    """Served model in KServe's repository.

    Inference requests do not pass through it: both protocols call
    :class:`~ortpkg.serving.answering.Answering` directly, because KServe's values and metrics cost
    more than a small model's run.

    Args:
        served: Model that answers.
    """

    def __init__(self, served: ServedModel) -> None:
        super().__init__(served.name)
        self.served = served
        self.ready = True

    def get_input_types(self) -> list[dict[str, Any]]:
        """Return name, type and shape of each input, as in the protocol's metadata."""
        return [spec.metadata for spec in self.served.inputs]

    def get_output_types(self) -> list[dict[str, Any]]:
        """Return name, type and shape of each output, as in the protocol's metadata."""
        return [spec.metadata for spec in self.served.outputs]
