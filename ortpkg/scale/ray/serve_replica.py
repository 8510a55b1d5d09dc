"""Replica of a Ray Serve deployment: packages that are opened and selected on its own node.

HTTP requests come through Serve's proxy as ASGI and go to the protocol's endpoints, behind the
limits of ``ortpkg serve``. Calls from Python come through handles, whose values Ray transports in
its cluster.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.api.model_package import ModelPackage
from ortpkg.authoring.opening import opened
from ortpkg.foundations.errors import ExecutionProviderError, RunError, UsageError, printable
from ortpkg.package.package_info import PackageInfo
from ortpkg.runtime.pipelines.pipeline_session import OnRound
from ortpkg.scale.ray.replica_metrics import RayObserver
from ortpkg.scale.ray.stages import node_name
from ortpkg.scale.serving.answering import Answering, ResultT, Write
from ortpkg.scale.serving.http_limits import GuardedApplication
from ortpkg.scale.serving.load_log import log_loaded
from ortpkg.scale.serving.loading import Loaded, load
from ortpkg.scale.serving.protocol_tensors import DTYPES, Array
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.served_versions import ServedVersions
from ortpkg.scale.serving.server_log import forward_events, log_warning
from ortpkg.scale.serving.serving_options import LoadWishes, ServingLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaUse:
    """Packages that each replica of a deployment opens.

    Attributes:
        packages: References.
        wishes: Options of loading them.
        limits: Limits of requests.
        defaults: Default version by name.
    """

    packages: tuple[str, ...]
    wishes: LoadWishes
    limits: ServingLimits
    defaults: Mapping[str, str]


class WatchedAnswering(Answering):
    """Answering that remembers a failed device, which this process will hardly get back."""

    _failure: ExecutionProviderError | None = None

    async def answer_written(
        self,
        model: ServedModel,
        inputs: Mapping[str, Array],
        write: Write[ResultT],
        output_names: Sequence[str] = (),
        on_round: OnRound | None = None,
    ) -> ResultT:
        """Run one request; see :meth:`Answering.answer_written`."""
        try:
            return await super().answer_written(model, inputs, write, output_names, on_round)
        except ExecutionProviderError as error:
            self._failure = error
            raise

    def check(self) -> None:
        """Raise RuntimeError if a device failed."""
        if self._failure is not None:
            raise RuntimeError(f"a device failed here: {printable(self._failure)}")


class PackageReplica:
    """Replica that answers with packages, and is ready once each has had its first run.

    Args:
        use: Packages and how to load them.

    Attributes:
        application: ASGI application for HTTP requests.

    Raises:
        RunError: Samples do not give what the package expects.
        OrtpkgError: See :func:`~ortpkg.scale.serving.loading.load`.
    """

    def __init__(self, use: ReplicaUse) -> None:
        # These libraries come with an extra.
        from ortpkg.scale.serving.http_endpoints import make_protocol_application

        forward_events(logging.getLogger("ray.serve"))
        warn_without_token()
        self._answering = WatchedAnswering(use.limits)
        observer = RayObserver(lambda: self._answering.open_requests)
        self._answering.observer = observer
        self._versions = ServedVersions(use.defaults)
        self._opened = ExitStack()
        self._loaded = [self._load(item, use) for item in use.packages]
        self._versions.check_plan([(item.model.name, item.model.version) for item in self._loaded])
        for item in self._loaded:
            item.model.report_runs(observer.loaded(item.model))
            self._versions.add(item.model)
            log_loaded(item)
        self._versions.is_complete = True
        self.application = GuardedApplication(
            make_protocol_application(self._versions, self._answering),
            use.limits,
            on_response=lambda status: observer.responded("http", status),
        )

    async def infer(
        self,
        inputs: Mapping[str, Any],
        model: str = "",
        version: str | None = None,
        outputs: Sequence[str] = (),
    ) -> dict[str, Array]:
        """Return the outputs of one request by name.

        It is for Serve's handles: ``handle.infer.remote({...})``.

        Args:
            inputs: Arrays, or nested lists of values, by name.
            model: Name of the model; "" if only one is served.
            version: Version; default: the model's default.
            outputs: Names of outputs; none for all.

        Raises:
            UnknownModelError: There is no such model.
            SessionError: Anything else, with the reason.
        """
        names = self._versions.names()
        if not model and len(names) > 1:
            raise UsageError(f"say which model: {', '.join(names)}")
        served_model = self._versions.find(model or names[0], version)
        specs = served_model.output_specs(outputs)
        return await self._answering.answer(
            served_model, _feeds(served_model, inputs), [spec.name for spec in specs]
        )

    async def describe(self) -> dict[str, Any]:
        """Return the node, and for each model its variants and the result of its first run."""
        import ray  # this runs where Ray does alone

        node_id = ray.get_runtime_context().get_node_id()
        models = [
            {
                "name": loaded.model.name,
                "version": loaded.model.version,
                "variants": [asdict(variant) for variant in loaded.model.variants],
                "first_run": asdict(loaded.first_run),
                "warnings": list(loaded.warnings),
            }
            for loaded in self._loaded
        ]
        return {"node": node_name(node_id), "pid": os.getpid(), "models": models}

    async def check_health(self) -> None:
        """Raise if a device failed here, so that Serve starts another replica.

        That replica selects variants again.
        """
        self._answering.check()

    def _load(self, reference: str, use: ReplicaUse) -> Loaded:
        loaded = load(self._open(reference, use), use.wishes, use.limits)
        if loaded.first_run.matches is False:
            raise RunError(
                f"model {loaded.model.title} is not served: its samples do not give what the"
                " package expects"
            )
        return loaded

    def _open(self, reference: str, use: ReplicaUse) -> PackageInfo:
        path = Path(reference)
        if path.is_file():
            return self._opened.enter_context(opened(path))
        return ModelPackage(reference, trust=use.wishes.trust).info


def warn_without_token() -> None:
    """Log a warning if whoever reaches this node can run anything in its cluster."""
    if os.environ.get("RAY_AUTH_MODE") != "token":
        log_warning(
            "no_token",
            message="Ray asks for no token here: whoever reaches this node, whose replicas listen"
            " on all addresses, can run anything; start Ray with RAY_AUTH_MODE=token",
        )


def _feeds(model: ServedModel, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Return arrays unchanged, and lists as arrays of the model's input type."""
    dtypes = {spec.name: DTYPES[spec.datatype] for spec in model.inputs}
    return {
        name: value if isinstance(value, np.ndarray) else np.asarray(value, dtypes.get(name))
        for name, value in inputs.items()
    }
