"""HTTP endpoints of the protocol: KServe's, with versions, and with bodies checked first."""

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
    """KServe's endpoints, extended by versions."""

    def __init__(self, data_plane: PackageDataPlane) -> None:
        super().__init__(data_plane)
        self._data_plane = data_plane
        # KServe itself makes a Python object of each element of a binary tensor, and its model
        # class keeps a second set of metrics. Together they cost more than a small model's run.
        answering = ProtocolEndpoints(data_plane.versions, data_plane.answering)
        self.answer = answering.infer
        self.generate = answering.generate
        self.generate_stream = answering.generate_stream

    async def ready(self) -> ServerReadyResponse:
        """Report that every model has had its first run.

        Raises:
            NotServingError: A model has not.
        """
        if not await self._data_plane.ready():
            raise NotServingError("the server is not ready", retry_after_s=_RETRY_AFTER_S)
        return ServerReadyResponse(ready=True)

    async def model_metadata(
        self, model_name: str, model_version: str | None = None
    ) -> ModelMetadataResponse:
        """Return the versions, inputs and outputs of a model."""
        metadata = await self._data_plane.versioned_metadata(model_name, model_version)
        return ModelMetadataResponse.model_validate(metadata)

    async def model_ready(
        self, model_name: str, model_version: str | None = None
    ) -> ModelReadyResponse:
        """Report that a known model is ready."""
        await self._data_plane.get_model(key_of(model_name, model_version))
        return ModelReadyResponse(name=model_name, ready=True)


def make_application(data_plane: PackageDataPlane, observer: PrometheusObserver) -> FastAPI:
    """Return an application with the endpoints, and ``/metrics`` with the observer's counts."""
    app = FastAPI(
        title="ortpkg",
        # The pages that document the API would load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        # Read only by newer versions: no data for OpenTelemetry.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    endpoints = VersionedEndpoints(data_plane)

    async def metrics() -> Response:
        page, media_type = observer.page()
        return Response(page, media_type=media_type)

    # Routes are tried in order, so the most frequent come first.
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
