"""What people write without ortpkg: a model class for KServe's server, and an empty one.

    python -m benchmarks.serving.by_hand MODEL.onnx INPUTS.npz HTTP_PORT GRPC_PORT

KServe's ``ModelServer`` as it is, but for two things that would not be fair or safe: it does not
log each request, and it listens on the loopback interface alone.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from grpc import aio
from kserve import InferOutput, InferResponse, Model, ModelServer, model_server
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as service
from kserve.protocol.grpc import server as grpc_server
from kserve.protocol.rest.server import RESTServer

_HOST = "127.0.0.1"
_DATATYPES = {"float32": "FP32", "int64": "INT64"}


class OnnxModel(Model):
    """Runs a model on onnxruntime."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(name)
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self._outputs = [each.name for each in self._session.get_outputs()]
        self.ready = True

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Output → array."""
        return dict(zip(self._outputs, self._session.run(None, feeds), strict=True))

    def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """Answers one request."""
        del headers, response_headers
        return _response(
            self.name, self.run({each.name: each.as_numpy() for each in payload.inputs})
        )


class EmptyModel(Model):
    """Gives the same again, without looking at what it is fed."""

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        super().__init__(name)
        self._values = values
        self.ready = True

    def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """Answers one request."""
        del payload, headers, response_headers
        return _response(self.name, self._values)


def _response(name: str, values: dict[str, Any]) -> InferResponse:
    outputs = []
    for output, array in values.items():
        told = InferOutput(output, list(array.shape), _DATATYPES[array.dtype.name])
        told.set_data_from_numpy(array, binary_data=True)
        outputs.append(told)
    return InferResponse(response_id="", model_name=name, infer_outputs=outputs)


class _LocalRest(RESTServer):
    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.config.host = _HOST


class _LocalGrpc(grpc_server.GRPCServer):
    async def start(self, max_workers: int) -> None:
        del max_workers  # of a pool that calls of coroutines do not use
        self._server = aio.server(
            interceptors=(
                grpc_server.LoggingInterceptor(),
                grpc_server.ExceptionToStatusInterceptor(),
            ),
            options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
        )
        servicer = grpc_server.InferenceServicer(self._data_plane, self._model_repository_extension)
        service.add_GRPCInferenceServiceServicer_to_server(servicer, self._server)
        self._server.add_insecure_port(f"{_HOST}:{self._port}")
        await self._server.start()
        await self._server.wait_for_termination()


def main() -> None:
    path, inputs, http_port, grpc_port = sys.argv[1:]
    written = OnnxModel("written", Path(path))
    with np.load(inputs) as feeds:
        empty = EmptyModel("empty", written.run(dict(feeds)))
    model_server.RESTServer, model_server.GRPCServer = _LocalRest, _LocalGrpc
    server = ModelServer(
        http_port=int(http_port), grpc_port=int(grpc_port), enable_latency_logging=False
    )
    logging.disable(logging.INFO)
    server.start([written, empty])


if __name__ == "__main__":
    main()
