"""KServe's model class over a package: its requests and answers are KServe's own values."""

from __future__ import annotations

from typing import Any

import numpy as np
from kserve import InferInput, InferOutput, InferRequest, InferResponse, Model

from ortpkg.serving.answering import Answering
from ortpkg.serving.protocol_tensors import GivenTensor, TensorSpec
from ortpkg.serving.served_model import ServedModel


class PackageModel(Model):
    """A served model in KServe's repository.

    Args:
        served: what answers.
        answering: on which threads.
    """

    def __init__(self, served: ServedModel, answering: Answering) -> None:
        super().__init__(served.name)
        self.served = served
        self._answering = answering
        self.ready = True

    def get_input_types(self) -> list[dict[str, Any]]:
        """What must be fed, as metadata has it."""
        return [_told(each) for each in self.served.inputs]

    def get_output_types(self) -> list[dict[str, Any]]:
        """What it gives, likewise."""
        return [_told(each) for each in self.served.outputs]

    async def predict(
        self, payload: InferRequest, headers: Any = None, response_headers: Any = None
    ) -> InferResponse:
        """Answers one request.

        Raises as :meth:`ServedModel.read_inputs` and :meth:`Answering.answer`.
        """
        del headers, response_headers
        feeds = self.served.read_inputs([_given(each) for each in payload.inputs])
        specs = self.served.output_specs([each.name for each in payload.request_outputs or ()])
        values = await self._answering.answer(self.served, feeds, [each.name for each in specs])
        return InferResponse(
            response_id=payload.id or "",
            model_name=self.served.name,
            model_version=self.served.version,
            infer_outputs=[
                InferOutput(
                    name=each.name,
                    shape=list(values[each.name].shape),
                    datatype=each.datatype,
                    data=values[each.name],
                )
                for each in specs
            ],
            use_binary_outputs=payload.use_binary_outputs,
            requested_outputs=payload.request_outputs,
        )


def _told(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": spec.stated_shape}


def _given(tensor: InferInput) -> GivenTensor:
    """An input as our own servers hand it on: its data are bytes or a list.

    KServe's own server keeps bytes beside an empty list of data.
    """
    raw = getattr(tensor, "_raw_data", None)
    data = tensor.data if raw is None else raw
    if isinstance(data, np.ndarray):
        data = data.tobytes()
    return GivenTensor(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape, data=data)
