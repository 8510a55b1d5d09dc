"""The HTTP endpoints of the protocol: KServe's, with versions, and bodies checked first."""

from __future__ import annotations

from fastapi import FastAPI, Response
from kserve.protocol.rest.v2_datamodels import (
    ListModelsResponse,
    ModelMetadataResponse,
    ModelReadyResponse,
    ServerLiveResponse,
    ServerMetadataResponse,
    ServerReadyResponse,
)
from kserve.protocol.rest.v2_endpoints import V2Endpoints

from ortpkg.errors import NotServingError
from ortpkg.serving.http_endpoints import EXCEPTION_HANDLERS, ProtocolEndpoints
from ortpkg.serving.kserve_metrics import PrometheusObserver
from ortpkg.serving.kserve_repository import PackageDataPlane, key_of

_PREFIX = "/v2"
_RETRY_AFTER_S = 1.0
_VERSION = "/versions/{model_version}"


class VersionedEndpoints(V2Endpoints):
    """KServe's endpoints, with the versions that its own refuse."""

    def __init__(self, data_plane: PackageDataPlane) -> None:
        super().__init__(data_plane)
        self._data_plane = data_plane
        # KServe's own reading makes a Python object of each element of a binary tensor, and its
        # model class keeps a second set of metrics: together more than a small model's run.
        answering = ProtocolEndpoints(data_plane.versions, data_plane.answering)
        self.answer = answering.infer
        self.generate = answering.generate
        self.generate_stream = answering.generate_stream

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


def make_application(data_plane: PackageDataPlane, observer: PrometheusObserver) -> FastAPI:
    """The endpoints as an application, ``/metrics`` with what ``observer`` has heard."""
    app = FastAPI(
        title="ortpkg",
        # The pages that describe an API load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        # What newer ones tell OpenTelemetry; others do not look at it.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    endpoints = VersionedEndpoints(data_plane)

    async def metrics() -> Response:
        page, media_type = observer.page()
        return Response(page, media_type=media_type)

    # Routes are looked at in their order, and each takes its time: first what is asked most.
    for verb, answer in (
        ("/infer", endpoints.answer),
        ("/generate", endpoints.generate),
        ("/generate_stream", endpoints.generate_stream),
    ):
        for version in ("", _VERSION):
            path = f"{_PREFIX}/models/{{model_name}}{version}{verb}"
            app.router.add_route(path, answer, methods=["POST"])
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
    for kind, handler in EXCEPTION_HANDLERS.items():
        app.add_exception_handler(kind, handler)
    return app
