"""Endpoints of the protocol as Starlette applications have them, without KServe.

KServe's server uses those that KServe lacks; a replica on a Ray cluster uses all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ortpkg.errors import OrtpkgError
from ortpkg.serving.answering import Answering
from ortpkg.serving.generate_bodies import generate_answer, read_generate_body
from ortpkg.serving.protocol_bodies import (
    JSON_LENGTH_HEADER,
    InferenceBody,
    ResponseBody,
    read_body,
    response_body,
)
from ortpkg.serving.protocol_tensors import Array
from ortpkg.serving.refusals import Refusal, refusal_of
from ortpkg.serving.served_model import ServedModel
from ortpkg.serving.served_versions import ServedVersions
from ortpkg.serving.server_log import log_fault
from ortpkg.version import __version__

_MODEL = "/v2/models/{model_name}"
_VERSION = "/versions/{model_version}"
#: Bodies below this size are read faster than threads are switched.
_SMALL_NBYTES = 256 << 10
_Result = TypeVar("_Result")
_Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


async def off_loop(work: Callable[[], _Result], nbytes: int) -> _Result:
    """Return ``work()``, run on another thread if it processes many bytes.

    Meanwhile the event loop answers other requests. Errors of ``work`` are raised here.
    """
    return work() if nbytes < _SMALL_NBYTES else await asyncio.to_thread(work)


class GenerateEndpoints:
    """Endpoints of Triton's extension "generate".

    Args:
        versions: Served models.
        answering: Threads that run requests.
    """

    def __init__(self, versions: ServedVersions, answering: Answering) -> None:
        self._versions, self._answering = versions, answering

    async def generate(self, request: Request) -> Response:
        """Answer one request with one object."""
        model, identifier, feeds = await self._read(request)

        def write(values: dict[str, Array]) -> Response:
            return _json_response(generate_answer(model, identifier, values))

        return await self._answering.answer_written(model, feeds, write)

    async def generate_stream(self, request: Request) -> Response:
        """Answer with an event for each round of the model; a later error is an event, too."""
        model, identifier, feeds = await self._read(request)

        def write(values: dict[str, Array]) -> bytes:
            return _event(generate_answer(model, identifier, values))

        parts = self._answering.stream(model, feeds, write)
        first = await anext(parts)

        async def events() -> AsyncIterator[bytes]:
            yield first
            try:
                async for part in parts:
                    yield part
            except Exception as error:  # noqa: BLE001 - reported as the last event
                yield _event({"error": _refusal(error, request).reason})

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _read(self, request: Request) -> tuple[ServedModel, str, dict[str, Array]]:
        model = _model_of(request, self._versions)
        body = await request.body()

        def read() -> tuple[str, dict[str, Array]]:
            identifier, tensors = read_generate_body(body, model, orjson.loads)
            return identifier, model.read_inputs(tensors)

        identifier, feeds = await off_loop(read, len(body))
        return model, identifier, feeds


class ProtocolEndpoints(GenerateEndpoints):
    """Endpoints of all requests of the protocol, for loaded models."""

    async def live(self, _request: Request) -> Response:
        """Report that the server is alive."""
        return _json_response({"live": True})

    async def ready(self, _request: Request) -> Response:
        """Report that every model has had its first run; before that there is no server."""
        return _json_response({"ready": True})

    async def metadata(self, _request: Request) -> Response:
        """Return the server's name, version and extensions of the protocol."""
        extensions = ["binary_tensor_data", "generate"]
        return _json_response({"name": "ortpkg", "version": __version__, "extensions": extensions})

    async def models(self, _request: Request) -> Response:
        """Return the names that are served."""
        return _json_response({"models": list(self._versions.names())})

    async def model_metadata(self, request: Request) -> Response:
        """Return the versions, inputs and outputs of a model."""
        model = _model_of(request, self._versions)
        return _json_response(
            {
                "name": model.name,
                "versions": list(self._versions.versions(model.name)),
                "platform": "onnx_ortpkg",
                "inputs": [spec.metadata for spec in model.inputs],
                "outputs": [spec.metadata for spec in model.outputs],
            }
        )

    async def model_ready(self, request: Request) -> Response:
        """Report that a known model is ready."""
        model = _model_of(request, self._versions)
        return _json_response({"name": model.name, "ready": True})

    async def infer(self, request: Request) -> Response:
        """Answer one inference request."""
        model = _model_of(request, self._versions)
        content = await request.body()
        json_length = request.headers.get(JSON_LENGTH_HEADER)

        def read() -> tuple[InferenceBody, dict[str, Array]]:
            body = read_body(content, json_length, orjson.loads)
            return body, model.read_inputs(body.inputs)

        body, feeds = await off_loop(read, len(content))
        specs = model.output_specs(body.output_names)

        def write(values: dict[str, Array]) -> Response:
            return http_response(response_body(body, model.name, model.version, specs, values))

        names = [spec.name for spec in specs]
        return await self._answering.answer_written(model, feeds, write, names)


def make_protocol_application(versions: ServedVersions, answering: Answering) -> Starlette:
    """Return an application with the protocol's endpoints."""
    endpoints = ProtocolEndpoints(versions, answering)
    routes: list[Route] = []

    def answer(method: str, path: str, endpoint: _Endpoint) -> None:
        routes.append(Route(path, endpoint, methods=[method]))

    answer("GET", "/", endpoints.live)
    answer("GET", "/v2", endpoints.metadata)
    answer("GET", "/v2/health/live", endpoints.live)
    answer("GET", "/v2/health/ready", endpoints.ready)
    answer("GET", "/v2/models", endpoints.models)
    for model in (_MODEL, _MODEL + _VERSION):
        answer("GET", model, endpoints.model_metadata)
        answer("GET", f"{model}/ready", endpoints.model_ready)
        answer("POST", f"{model}/infer", endpoints.infer)
        answer("POST", f"{model}/generate", endpoints.generate)
        answer("POST", f"{model}/generate_stream", endpoints.generate_stream)
    return Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)


def http_response(body: ResponseBody) -> Response:
    """Return an HTTP response of JSON, followed by tensors in binary form."""
    head = orjson.dumps(body.head, option=orjson.OPT_SERIALIZE_NUMPY)
    if not body.tails:
        return Response(head, media_type="application/json")
    return Response(
        b"".join((head, *body.tails)),
        media_type="application/octet-stream",
        headers={JSON_LENGTH_HEADER: str(len(head))},
    )


def _model_of(request: Request, versions: ServedVersions) -> ServedModel:
    parameters = request.path_params
    return versions.find(parameters["model_name"], parameters.get("model_version"))


def _json_response(content: Any) -> Response:
    return Response(
        orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json"
    )


def _event(content: Any) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def _refusal(error: Exception, request: Request) -> Refusal:
    refusal = refusal_of(error)
    if refusal.is_our_fault:
        log_fault("fault", error, path=request.url.path)
    return refusal


async def _refuse(request: Request, error: Exception) -> Response:
    refusal = _refusal(error, request)
    return JSONResponse(
        {"error": refusal.reason}, status_code=refusal.status, headers=refusal.headers
    )


async def _refuse_unknown(_request: Request, error: Exception) -> Response:
    # The error is raised again, to where it is logged.
    return JSONResponse({"error": refusal_of(error).reason}, status_code=500)


async def _refuse_path(request: Request, error: Exception) -> Response:
    status: int = getattr(error, "status_code", 404)
    message = f"{request.method} {request.url.path}: {getattr(error, 'detail', '')}"
    headers: Mapping[str, str] | None = getattr(error, "headers", None)
    return JSONResponse({"error": message}, status_code=status, headers=headers)


#: Handler of each error.
EXCEPTION_HANDLERS: dict[Any, Any] = {
    OrtpkgError: _refuse,
    Exception: _refuse_unknown,
    HTTPException: _refuse_path,
}
