"""Application of the protocol over HTTP, for ``ortpkg serve`` and for replicas on a Ray cluster."""

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

from ortpkg.foundations.errors import NotServingError, OrtpkgError
from ortpkg.scale.serving.answering import Answering
from ortpkg.scale.serving.generate_bodies import generate_answer, read_generate_body
from ortpkg.scale.serving.protocol_bodies import (
    JSON_LENGTH_HEADER,
    InferenceBody,
    ResponseBody,
    read_body,
    response_body,
)
from ortpkg.scale.serving.protocol_metadata import model_metadata, server_metadata
from ortpkg.scale.serving.protocol_tensors import Array
from ortpkg.scale.serving.refusals import Refusal, refusal_of
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.served_versions import ServedVersions
from ortpkg.scale.serving.server_log import log_fault

#: Paths of a model's default version, and of one of its versions.
_MODELS = ("/v2/models/{model_name}", "/v2/models/{model_name}/versions/{model_version}")
#: Bodies below this size are read faster than threads are switched.
_SMALL_NBYTES = 256 << 10
_RETRY_AFTER_S = 1.0
_Result = TypeVar("_Result")
_Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


async def off_loop(work: Callable[[], _Result], nbytes: int) -> _Result:
    """Return ``work()``, run on another thread if it processes many bytes.

    Meanwhile the event loop answers other requests. Errors of ``work`` are raised here.
    """
    return work() if nbytes < _SMALL_NBYTES else await asyncio.to_thread(work)


class ProtocolEndpoints:
    """Endpoints of all requests of the protocol, and of Triton's extension "generate".

    Args:
        versions: Served models.
        answering: Threads that run requests.
        is_ready: Returns True while every model has had its first run and the server is not about
            to end.
    """

    def __init__(
        self, versions: ServedVersions, answering: Answering, is_ready: Callable[[], bool]
    ) -> None:
        self._versions, self._answering, self._is_ready = versions, answering, is_ready

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

    async def live(self, _request: Request) -> Response:
        """Report that the server is alive."""
        return _json_response({"live": True})

    async def ready(self, _request: Request) -> Response:
        """Report that every model has had its first run.

        Raises:
            NotServingError: A model has not, or the server is about to end.
        """
        if not self._is_ready():
            raise NotServingError("the server is not ready", retry_after_s=_RETRY_AFTER_S)
        return _json_response({"ready": True})

    async def metadata(self, _request: Request) -> Response:
        """Return the server's name, version and extensions of the protocol."""
        return _json_response(server_metadata())

    async def models(self, _request: Request) -> Response:
        """Return the names that are served."""
        return _json_response({"models": list(self._versions.names())})

    async def model_metadata(self, request: Request) -> Response:
        """Return the versions, inputs and outputs of a model."""
        return _json_response(model_metadata(self._versions, *_name_and_version(request)))

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
            return _http_response(response_body(body, model.name, model.version, specs, values))

        names = [spec.name for spec in specs]
        return await self._answering.answer_written(model, feeds, write, names)


def make_protocol_application(
    versions: ServedVersions,
    answering: Answering,
    *,
    is_ready: Callable[[], bool] = lambda: True,
    metrics: Callable[[], tuple[bytes, str]] | None = None,
) -> Starlette:
    """Return an application with the protocol's endpoints.

    Args:
        versions: Served models.
        answering: Threads that run requests.
        is_ready: See :class:`ProtocolEndpoints`.
        metrics: Returns the page ``/metrics`` and its content type; None for no such page.
    """
    endpoints = ProtocolEndpoints(versions, answering, is_ready)
    routes: list[Route] = []

    def answer(method: str, path: str, endpoint: _Endpoint) -> None:
        route = Route(path, endpoint, methods=[method])
        route.methods = {method}  # Starlette adds HEAD to GET, which the protocol does not have
        routes.append(route)

    # Routes are tried in order, so the most frequent come first.
    for verb, endpoint in (
        ("infer", endpoints.infer),
        ("generate", endpoints.generate),
        ("generate_stream", endpoints.generate_stream),
    ):
        for model in _MODELS:
            answer("POST", f"{model}/{verb}", endpoint)
    for model in _MODELS:
        answer("GET", model, endpoints.model_metadata)
        answer("GET", f"{model}/ready", endpoints.model_ready)
    answer("GET", "/", endpoints.live)
    answer("GET", "/v2", endpoints.metadata)
    answer("GET", "/v2/health/live", endpoints.live)
    answer("GET", "/v2/health/ready", endpoints.ready)
    answer("GET", "/v2/models", endpoints.models)
    if metrics is not None:
        answer("GET", "/metrics", _page(metrics))
    return Starlette(routes=routes, exception_handlers=_EXCEPTION_HANDLERS)


def _page(write: Callable[[], tuple[bytes, str]]) -> _Endpoint:
    """Return an endpoint that answers with a page and its content type."""

    async def answer(_request: Request) -> Response:
        page, media_type = write()
        return Response(page, media_type=media_type)

    return answer


def _http_response(body: ResponseBody) -> Response:
    """Return an HTTP response of JSON, followed by tensors in binary form."""
    head = orjson.dumps(body.head, option=orjson.OPT_SERIALIZE_NUMPY)
    if not body.tails:
        return Response(head, media_type="application/json")
    return Response(
        b"".join((head, *body.tails)),
        media_type="application/octet-stream",
        headers={JSON_LENGTH_HEADER: str(len(head))},
    )


def _name_and_version(request: Request) -> tuple[str, str | None]:
    """Return the name and the version of a model in a path, or in the query of a GET request."""
    version = request.path_params.get("model_version")
    if version is None and request.method == "GET":
        version = request.query_params.get("model_version")
    return request.path_params["model_name"], version


def _model_of(request: Request, versions: ServedVersions) -> ServedModel:
    return versions.find(*_name_and_version(request))


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
_EXCEPTION_HANDLERS: dict[Any, Any] = {
    OrtpkgError: _refuse,
    Exception: _refuse_unknown,
    HTTPException: _refuse_path,
}
