"""Packages on Ray: batches on a cluster, and replicas that answer requests on its nodes.

:class:`PackageModel` is for Ray Data's ``map_batches``, :func:`package_app` for Ray Serve. The
parts of batches and of serving that need no cluster are in :mod:`ortpkg.scale.batches` and
:mod:`ortpkg.scale.serving`. Ray is an extra (``ortpkg[ray]``) and is imported only where it is
used.

Only this folder may import: ``cluster``, ``output_streams``, ``replica_metrics``,
``serve_replica``, ``shipping``, ``stages``, ``worker_pools``; other folders may import the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortpkg.scale.ray.ray_callable import PackageModel as PackageModel
    from ortpkg.scale.ray.serve_app import package_app as package_app

__all__ = ["PackageModel", "package_app"]

#: Loaded on first use, so that a worker of a batch starts without the serving modules.
_MODULES = {
    "PackageModel": "ortpkg.scale.ray.ray_callable",
    "package_app": "ortpkg.scale.ray.serve_app",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
