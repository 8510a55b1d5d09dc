"""A replica of a Ray Serve deployment: packages, opened and chosen on its own node.

HTTP comes through Serve's proxy as ASGI, and goes to the protocol's endpoints behind the limits of
``ortpkg serve``. Python's calls come through handles, whose values Ray carries within its cluster.
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
from ortpkg.errors import ExecutionProviderError, RunError, UsageError, printable
from ortpkg.package.package_info import PackageInfo
from ortpkg.pipelines.pipeline_session import OnRound
from ortpkg.ray.replica_metrics import RayObserver
from ortpkg.ray.stages import node_name
from ortpkg.serving.answering import Answering, ResultT, Write
from ortpkg.serving.http_limits import GuardedApplication
from ortpkg.serving.load_log import log_loaded
from ortpkg.serving.loading import Loaded, load
from ortpkg.serving.protocol_tensors import DTYPES, Array
from ortpkg.serving.served_model import ServedModel
from ortpkg.serving.served_versions import ServedVersions
from ortpkg.serving.server_log import forward_events, log_warning
from ortpkg.serving.serving_options import LoadWishes, ServingLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaUse:
    """What each replica of a deployment opens.

    Attributes:
        packages: references.
        wishes: how they are opened.
        limits: what requests may take.
        defaults: name → the version that answers where none is asked for.
    """

    packages: tuple[str, ...]
    wishes: LoadWishes
    limits: ServingLimits
    defaults: Mapping[str, str]


class WatchedAnswering(Answering):
    """Remembers a device that failed: this process will hardly get it back."""

    _failure: ExecutionProviderError | None = None

    async def answer_written(
        self,
        model: ServedModel,
        inputs: Mapping[str, Array],
        write: Write[ResultT],
        output_names: Sequence[str] = (),
        on_round: OnRound | None = None,
    ) -> ResultT:
        """See :meth:`Answering.answer_written`."""
        try:
            return await super().answer_written(model, inputs, write, output_names, on_round)
        except ExecutionProviderError as error:
            self._failure = error
            raise

    def check(self) -> None:
        """Raises RuntimeError where a device failed."""
        if self._failure is not None:
            raise RuntimeError(f"a device failed here: {printable(self._failure)}")


class PackageReplica:
    """Answers with packages; ready once each has had its first run.

    Args:
        use: which, and how.

    Attributes:
        application: what HTTP requests go to.

    Raises what :func:`~ortpkg.serving.loading.load` raises, and RunError where samples do not give
    what the package expects.
    """

    def __init__(self, use: ReplicaUse) -> None:
        # An extra brings what it is made of.
        from ortpkg.serving.http_endpoints import make_protocol_application

        forward_events(logging.getLogger("ray.serve"))
        warn_without_token()
        self._answering = WatchedAnswering(use.limits)
        observer = RayObserver(lambda: self._answering.open_requests)
        self._answering.observer = observer
        self._versions = ServedVersions(use.defaults)
        self._opened = ExitStack()
        self._loaded = [self._load(each, use) for each in use.packages]
        self._versions.check_plan([(each.model.name, each.model.version) for each in self._loaded])
        for each in self._loaded:
            each.model.report_runs(observer.loaded(each.model))
            self._versions.add(each.model)
            log_loaded(each)
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
        """Output → array of one request, for Serve's handles: ``handle.infer.remote({...})``.

        Args:
            inputs: name → array, or nested lists of values.
            model: a name; "" where only one is served.
            version: without one, the default.
            outputs: those that are wanted; none: all.

        Raises UnknownModelError, and SessionError with the reason for anything else.
        """
        names = self._versions.names()
        if not model and len(names) > 1:
            raise UsageError(f"say which model: {', '.join(names)}")
        found = self._versions.find(model or names[0], version)
        specs = found.output_specs(outputs)
        return await self._answering.answer(
            found, _feeds(found, inputs), [each.name for each in specs]
        )

    async def describe(self) -> dict[str, Any]:
        """What runs where: the node, and per model the variants and what its first run gave."""
        import ray  # this runs where Ray does alone

        node_id = ray.get_runtime_context().get_node_id()
        models = [
            {
                "name": each.model.name,
                "version": each.model.version,
                "variants": [asdict(variant) for variant in each.model.variants],
                "first_run": asdict(each.first_run),
                "warnings": list(each.warnings),
            }
            for each in self._loaded
        ]
        return {"node": node_name(node_id), "pid": os.getpid(), "models": models}

    async def check_health(self) -> None:
        """Has Serve start another replica, which chooses anew, where a device failed here."""
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
    """Arrays as they are; lists as arrays of the type that the model takes."""
    dtypes = {each.name: DTYPES[each.datatype] for each in model.inputs}
    return {
        name: value if isinstance(value, np.ndarray) else np.asarray(value, dtypes.get(name))
        for name, value in inputs.items()
    }
