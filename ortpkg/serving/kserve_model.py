"""KServe's model class over a package, for what KServe tells of models."""

from __future__ import annotations

from typing import Any

from kserve import Model

from ortpkg.serving.protocol_tensors import TensorSpec
from ortpkg.serving.served_model import ServedModel


class PackageModel(Model):
    """A served model in KServe's repository.

    Requests for inference do not pass through it: both protocols ask
    :class:`~ortpkg.serving.answering.Answering` directly. KServe's own values and metrics on that
    way cost more than a small model's run.

    ``served``: what answers.
    """

    def __init__(self, served: ServedModel) -> None:
        super().__init__(served.name)
        self.served = served
        self.ready = True

    def get_input_types(self) -> list[dict[str, Any]]:
        """Name, type and shape of each input, as the protocol's metadata has them."""
        return [_told(each) for each in self.served.inputs]

    def get_output_types(self) -> list[dict[str, Any]]:
        """Name, type and shape of each output, as the protocol's metadata has them."""
        return [_told(each) for each in self.served.outputs]


def _told(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": spec.stated_shape}
