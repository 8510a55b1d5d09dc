"""The HTTP endpoints of the protocol: KServe's, with versions, and bodies checked first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from kserve import InferInput, InferRequest, InferResponse
from kserve.protocol.infer_type import RequestedOutput
from kserve.protocol.rest.v2_datamodels import (
    ListModelsResponse,
    ModelMetadataResponse,
    ModelReadyResponse,
    ServerLiveResponse,
    ServerMetadataResponse,
    ServerReadyResponse,
)
from kserve.protocol.rest.v2_endpoints import V2Endpoints
from starlette.exceptions import HTTPException

from ortpkg.errors import NotServingError, OrtpkgError
from ortpkg.serving.generate_bodies import generate_answer, read_generate_body
from ortpkg.serving.kserve_metrics import PrometheusObserver
from ortpkg.serving.kserve_repository import PackageDataPlane, key_of
from ortpkg.serving.protocol_bodies import (
    JSON_LENGTH_HEADER,
    InferenceBody,
    ResponseBody,
    read_body,
    response_body,
)
from ortpkg.serving.protocol_tensors import Array, TensorSpec
from ortpkg.serving.refusals import Refusal, refusal_of
from ortpkg.serving.served_model import ServedModel
from ortpkg.serving.server_log import log_fault

_PREFIX = "/v2"
_RETRY_AFTER_S = 1.0
_VERSION = "/versions/{model_version}"


class VersionedEndpoints(V2Endpoints):
    """KServe's endpoints, with the versions that its own refuse."""

    def __init__(self, data_plane: PackageDataPlane) -> None:
        super().__init__(data_plane)
        self._data_plane = data_plane

    async def ready(self) -> ServerReadyResponse:
        """Whether every model has had its first run. NotServingError where not."""
        if not await self._data_plane.ready():
            raise NotServingError("the server is not ready", retry_after_s=_RETRY_AFTER_S)
        return ServerReadyResponse(ready=True)

    async def model_metadata(
        self, model_name: str, model_version: str | None = None
    ) -> ModelMetadataResponse:
        """Versions, inputs and outputs of a model."""
        told = await self._data_plane.versioned_metadata(model_name, model_version)
        return ModelMetadataResponse.model_validate(told)

    async def model_ready(
        self, model_name: str, model_version: str | None = None
    ) -> ModelReadyResponse:
        """Whether a model answers: it does where it is known."""
        await self._data_plane.get_model(key_of(model_name, model_version))
        return ModelReadyResponse(name=model_name, ready=True)

    async def infer_body(self, request: Request) -> Response:
        """Answers one request for inference."""
        name = request.path_params["model_name"]
        version = request.path_params.get("model_version")
        # KServe's own reading makes a Python object of each element of a binary tensor.
        body = read_body(
            await request.body(), request.headers.get(JSON_LENGTH_HEADER), orjson.loads
        )
        response, _ = await self._data_plane.infer(
            key_of(name, version), _kserve_request(body, name, version), {}
        )
        return _http_response(_response_body(body, response))

    async def generate(self, request: Request) -> Response:
        """Answers one request of the extension "generate" with one object."""
        model, identifier, feeds = await self._read_generate(request)
        values = await self._data_plane.answering.answer(model, feeds)
        return _json_response(generate_answer(model, identifier, values))

    async def generate_stream(self, request: Request) -> Response:
        """The same with an event for each round; an error after the first is an event, too."""
        model, identifier, feeds = await self._read_generate(request)
        parts = self._data_plane.answering.stream(model, feeds)
        first = _event(generate_answer(model, identifier, await anext(parts)))

        async def events() -> AsyncIterator[bytes]:
            yield first
            try:
                async for part in parts:
                    yield _event(generate_answer(model, identifier, part))
            except Exception as error:  # noqa: BLE001 - the answer has begun: its last event says it
                yield _event({"error": _refusal(error, request).reason})

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _read_generate(self, request: Request) -> tuple[ServedModel, str, dict[str, Array]]:
        parameters = request.path_params
        model = self._data_plane.versions.find(
            parameters["model_name"], parameters.get("model_version")
        )
        body = await request.body()
        identifier, given = read_generate_body(body, model, orjson.loads)
        return model, identifier, model.read_inputs(given)


def make_application(data_plane: PackageDataPlane, observer: PrometheusObserver) -> FastAPI:
    """The endpoints as an application, ``/metrics`` with what ``observer`` has heard."""
    # The pages that describe an API load scripts from elsewhere.
    app = FastAPI(title="ortpkg", docs_url=None, redoc_url=None, openapi_url=None)
    endpoints = VersionedEndpoints(data_plane)

    async def metrics() -> Response:
        page, media_type = observer.page()
        return Response(page, media_type=media_type)

    app.add_api_route("/metrics", metrics, response_model=None)
    app.add_api_route("/", endpoints.live, response_model=ServerLiveResponse)
    for path, endpoint, model in (
        ("", endpoints.metadata, ServerMetadataResponse),
        ("/health/live", endpoints.live, ServerLiveResponse),
        ("/health/ready", endpoints.ready, ServerReadyResponse),
        ("/models", endpoints.models, ListModelsResponse),
        ("/models/{model_name}", endpoints.model_metadata, ModelMetadataResponse),
        ("/models/{model_name}" + _VERSION, endpoints.model_metadata, ModelMetadataResponse),
        ("/models/{model_name}/ready", endpoints.model_ready, ModelReadyResponse),
        ("/models/{model_name}" + _VERSION + "/ready", endpoints.model_ready, ModelReadyResponse),
    ):
        app.add_api_route(_PREFIX + path, endpoint, response_model=model)
    for verb, answer in (
        ("/infer", endpoints.infer_body),
        ("/generate", endpoints.generate),
        ("/generate_stream", endpoints.generate_stream),
    ):
        for version in ("", _VERSION):
            path = f"{_PREFIX}/models/{{model_name}}{version}{verb}"
            app.router.add_route(path, answer, methods=["POST"])
    _add_exception_handlers(app)
    return app


def _refusal(error: Exception, request: Request) -> Refusal:
    refusal = refusal_of(error)
    if refusal.is_our_fault:
        log_fault("fault", error, path=request.url.path)
    return refusal


def _add_exception_handlers(app: FastAPI) -> None:
    async def refuse(request: Request, error: Exception) -> JSONResponse:
        refusal = _refusal(error, request)
        return JSONResponse(
            {"error": refusal.reason}, status_code=refusal.status, headers=refusal.headers
        )

    async def refuse_unknown(_request: Request, error: Exception) -> JSONResponse:
        # It is raised once more, to where it is logged.
        return JSONResponse({"error": refusal_of(error).reason}, status_code=500)

    async def refuse_path(request: Request, error: Exception) -> JSONResponse:
        status: int = getattr(error, "status_code", 404)
        told = f"{request.method} {request.url.path}: {getattr(error, 'detail', '')}"
        headers: Mapping[str, str] | None = getattr(error, "headers", None)
        return JSONResponse({"error": told}, status_code=status, headers=headers)

    app.add_exception_handler(OrtpkgError, refuse)
    app.add_exception_handler(Exception, refuse_unknown)
    app.add_exception_handler(HTTPException, refuse_path)


def _kserve_request(body: InferenceBody, name: str, version: str | None) -> InferRequest:
    return InferRequest(
        model_name=name,
        model_version=version,
        request_id=body.id,
        infer_inputs=[
            InferInput(name=each.name, shape=each.shape, datatype=each.datatype, data=each.data)
            for each in body.inputs
        ],
        request_outputs=[RequestedOutput(each.name) for each in body.outputs],
    )


def _response_body(request: InferenceBody, response: InferResponse) -> ResponseBody:
    specs = [
        TensorSpec(name=each.name, datatype=each.datatype, shape=tuple(each.shape))
        for each in response.outputs
    ]
    values: dict[str, Any] = {each.name: each.data for each in response.outputs}
    return response_body(request, response.model_name, response.model_version or "", specs, values)


def _json_response(content: Any) -> Response:
    return Response(
        orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json"
    )


def _event(content: Any) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def _http_response(body: ResponseBody) -> Response:
    head = orjson.dumps(body.head, option=orjson.OPT_SERIALIZE_NUMPY)
    if not body.tails:
        return Response(head, media_type="application/json")
    return Response(
        b"".join((head, *body.tails)),
        media_type="application/octet-stream",
        headers={JSON_LENGTH_HEADER: str(len(head))},
    )
