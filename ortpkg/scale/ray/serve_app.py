"""Packages as an application of Ray Serve, from Python or from a Serve config file.

In a file::

    applications:
      - name: digits
        route_prefix: /
        import_path: ortpkg.scale.ray.serve_app:build
        args: {packages: ["digits:2"], batch_latency: 20ms}
        deployments: [{name: PackageReplica, num_replicas: 4}]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeVar

from ortpkg.foundations.errors import MissingExtraError, UsageError, quoted
from ortpkg.foundations.quantities import parse_duration_s, parse_nbytes
from ortpkg.scale.ray.serve_replica import PackageReplica, ReplicaUse
from ortpkg.scale.serving.serving_options import (
    DEFAULT_REQUEST_NBYTES,
    DEFAULT_TIMEOUT_S,
    LoadWishes,
    ServingLimits,
)
from ortpkg.selection.matching.wishes import ANY_VARIANT, SelectionWishes

if TYPE_CHECKING:
    from typing import Unpack

    from ortpkg.selection.matching.wishes import SelectionKeywords

_Number = TypeVar("_Number", int, float)
#: Most requests of a replica at a time, including waiting ones; others wait at Serve's proxy.
_ONGOING = 64
#: Resources of the node that a replica takes for each kind of device, in Ray's terms.
_RESOURCES: Mapping[str, Mapping[str, Any]] = {
    "gpu": {"num_gpus": 1},
    "npu": {"resources": {"NPU": 1}},
}


def package_app(
    *packages: str | PathLike[str],
    threads: int = 1,
    batch_latency: float | str | None = None,
    timeout: float | str = DEFAULT_TIMEOUT_S,
    max_request: int | str = DEFAULT_REQUEST_NBYTES,
    memory_limit: int | str | None = None,
    default_version: Mapping[str, str] | None = None,
    component: str | None = None,
    trust: bool = False,
    verify: bool = True,
    canary: bool = False,
    isolate: bool = False,
    deployment: Mapping[str, Any] | None = None,
    wishes: SelectionWishes = ANY_VARIANT,
    **keywords: Unpack[SelectionKeywords],
) -> Any:
    """Return an application for ``serve.run`` whose replicas open packages on their nodes.

    Each replica selects variants for its own node.

    Args:
        packages: References as of :class:`~ortpkg.scale.ray.PackageModel`. They must mean the same
            on all nodes.
        threads: Threads of each session, and cores that a replica takes.
        batch_latency: Time in which joined requests must be answered, as 0.02 or "20ms"; None to
            not join.
        timeout: Most time of one request, including its wait in the replica.
        max_request: Largest body, as 67108864 or "64 MiB".
        memory_limit: Most memory of one run.
        default_version: Versions that answer requests without a version, by model name.
        component: One of several component models; None for the whole package.
        trust: True to accept options of the package that can reach beyond it.
        verify: True to compare what is loaded with digests.json.
        canary: True to try each variant in a child process first, and take the next if it fails.
        isolate: True to run onnxruntime, OpenVINO and plug-ins in child processes.
        deployment: Options of ``serve.deployment`` instead of the default ones:
            ``{"num_replicas": 4}``.
        wishes, keywords: Options of the selection, as of :meth:`~ortpkg.ModelPackage.select`. With
            ``device="gpu"`` or ``"npu"`` each replica takes one of its node.

    Raises:
        UsageError: Ray Serve is not installed, or there is no package to serve.

    Example::

        serve.run(ortpkg.scale.ray.package_app("digits:2", deployment={"num_replicas": 4}))
    """
    if not packages:
        raise UsageError("name at least one package to serve")
    if type(threads) is not int or threads < 1:
        raise UsageError(f"threads must be a whole number from 1 on, not {quoted(threads)}")
    selection = wishes.but("package_app", keywords)
    use = ReplicaUse(
        packages=tuple(fspath(package) for package in packages),
        wishes=LoadWishes(
            selection=selection,
            component=component,
            trust=trust,
            verify=verify,
            canary=canary,
            isolate=isolate,
            threads=threads,
            batch_latency_s=_unless_none(parse_duration_s, batch_latency, "batch_latency"),
        ),
        limits=ServingLimits(
            concurrency=threads,
            timeout_s=parse_duration_s(timeout, "timeout"),
            request_nbytes=parse_nbytes(max_request, "max_request"),
            memory_limit_nbytes=_unless_none(parse_nbytes, memory_limit, "memory_limit"),
        ),
        defaults=dict(default_version or {}),
    )
    return _bound(use, selection.device or "", deployment or {})


def build(args: dict[str, Any]) -> Any:
    """Return the application for a Serve config file.

    The file has ``import_path: ortpkg.scale.ray.serve_app:build``.

    Args:
        args: ``packages``, a reference or several, and the keyword arguments of
            :func:`package_app`.

    Raises:
        UsageError: There are other arguments.
    """
    options = dict(args)
    packages = options.pop("packages", [])
    if isinstance(packages, str):
        packages = [packages]
    if not isinstance(packages, list) or not all(isinstance(package, str) for package in packages):
        raise UsageError("packages must be a reference, or a list of such")
    try:
        return package_app(*packages, **options)
    except TypeError as error:
        raise UsageError(f"args of the application: {error}") from error


def _bound(use: ReplicaUse, device: str, overrides: Mapping[str, Any]) -> Any:
    """Return the application of replicas of ``use``; ``overrides`` replace deployment options."""
    serve = _load_serve()
    actor = {"num_cpus": use.wishes.threads, **_RESOURCES.get(device.lower(), {})}
    options = {
        "name": PackageReplica.__name__,
        "max_ongoing_requests": _ONGOING,
        **overrides,
        "ray_actor_options": {**actor, **overrides.get("ray_actor_options", {})},
    }
    replica = serve.ingress(_application)(PackageReplica)
    return serve.deployment(**options)(replica).bind(use)


def _unless_none(parse: Callable[[Any, str], _Number], value: object, name: str) -> _Number | None:
    return None if value is None else parse(value, name)


def _application() -> Any:
    """Return the application that Serve creates in each replica and gives HTTP requests to."""
    from ray import serve  # this runs where Ray does alone

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            replica = serve.get_replica_context().servable_object
            await replica.application(scope, receive, send)

    return answer


def _load_serve() -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        from ray import serve  # an extra
    except ImportError as error:
        raise MissingExtraError("an application of Ray Serve", "Ray", error) from error
    return serve
