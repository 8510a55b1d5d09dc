"""Packages on Ray: :class:`PackageModel` for Ray Data's ``map_batches``, and batches on a cluster.

What of a batch needs no cluster is in :mod:`ortpkg.batches`. Ray is an extra (``ortpkg[ray]``) and
imported where it is used alone.

Only this folder may import: ``cluster``, ``output_streams``, ``shipping``, ``stages``,
``worker_pools``; other folders may import the rest.
"""

from __future__ import annotations

from ortpkg.ray.package_model import PackageModel as PackageModel

__all__ = ["PackageModel"]
