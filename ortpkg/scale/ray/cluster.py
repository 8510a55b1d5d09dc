"""Ray cluster to run on: an existing one, or one that a command starts and ends itself."""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from packaging.version import Version

from ortpkg.foundations.errors import ClusterError, MissingExtraError, UsageError, printable, quoted
from ortpkg.foundations.host.memory import machine_memory_nbytes
from ortpkg.runtime.providers.machine_offer import this_machine
from ortpkg.scale.ray.device_resources import device_resources
from ortpkg.scale.ray.output_streams import quiet_stderr, results_only

#: Settings that Ray reads on import: it sends nothing, waits for slow machines, its processes log
#: only to their files, and its workers have normal priority.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_raylet_start_wait_time_s": "180",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_worker_niceness": "0",
}
#: Prefix of folders of our own clusters; the process id follows.
_FOLDER_PREFIX = "ortpkg-ray-"
#: Longest parent folder: Ray has sockets in these folders, whose whole path may have 103 bytes on
#: some systems.
_LONGEST_PARENT = 12
#: Variables of Ray: if a cluster requires a token, the token, and the file with it.
_TOKEN_MODE, _TOKEN, _TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
#: "0": only this machine is in the cluster. Ray reads it on all systems.
_SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
#: First version with RAY_AUTH_MODE; pyproject.toml has the same bound.
_FIRST_WITH_TOKENS = Version("2.52")
_ANSWER_S = 20.0
_MOST_STORE_NBYTES = 2 << 30
_STORE_SHARE = 0.2


def load_ray() -> Any:
    """Import Ray.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray  # an extra of 800 MB
        import ray.data
    except ImportError as error:
        raise MissingExtraError(
            "a batch on several workers",
            "Ray",
            error,
            otherwise="--in-process runs it in this process",
        ) from error
    _quieten()
    return ray


def _quieten() -> None:
    """Keep Ray Data's progress messages off standard error; its errors are raised anyway."""
    for handler in logging.getLogger("ray.data").handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setLevel(logging.CRITICAL)


@contextmanager
def cluster(address: str | None, cpus: int) -> Iterator[Any]:
    """Yield Ray, connected to the cluster at ``address`` or to a temporary one on this machine.

    A temporary cluster has ``cpus`` cores, listens only on the loopback interface, has no
    dashboard, and is removed with its files afterwards.

    Raises:
        UsageError: Ray is not installed, or nothing answers at ``address``.
        ClusterError: The temporary cluster does not start.
    """
    is_own = address is None and not _is_connected()
    if is_own:
        _require_token()
    ray = load_ray()
    if ray.is_initialized():
        yield ray  # connected by the caller
        return
    with _temporary(ray, cpus) if address is None else _joined(ray, address):
        yield ray


def _is_connected() -> bool:
    """Return True if the caller has connected to a cluster already."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


@contextmanager
def _joined(ray: Any, address: str) -> Iterator[None]:
    _verify_answers(address)
    try:
        with quiet_stderr():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray raises several kinds, also built-in ones
        hint = "" if _TOKEN_MODE in os.environ else f" ({_TOKEN_MODE}=token, if it asks for one)"
        raise UsageError(
            f"--ray {quoted(address)}: there is no cluster to join{hint}: {printable(error)}"
        ) from error
    with results_only(ray.shutdown):
        yield


@contextmanager
def _temporary(ray: Any, cpus: int) -> Iterator[None]:
    _verify_asks_for_token(ray)
    _remove_leftovers()
    folder = tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-", dir=_parent())
    try:
        with results_only(ray.shutdown):
            with quiet_stderr(), _loopback_only():
                _start(ray, folder, cpus)
            _verify_is_loopback(ray)
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parent() -> Path:
    """Return the folder for clusters: that of temporary files, unless its name is too long."""
    usual, short = Path(tempfile.gettempdir()), Path("/tmp")  # noqa: S108 - mkdtemp makes the rest
    return short if len(os.fsencode(usual)) > _LONGEST_PARENT and short.is_dir() else usual


def _require_token() -> None:
    """Make our own cluster require a token that nobody else knows.

    Other users of this machine reach the loopback interface, too. Ray's own token would remain in a
    file of the home folder. Ray reads these variables when it is imported.
    """
    os.environ[_TOKEN_MODE] = "token"
    if not {_TOKEN, _TOKEN_PATH} & os.environ.keys():
        os.environ[_TOKEN] = secrets.token_hex()


def _verify_asks_for_token(ray: Any) -> None:
    """Raise UsageError for a version of Ray that lets everybody who reaches it run anything."""
    if Version(ray.__version__) < _FIRST_WITH_TOKENS:
        raise UsageError(
            f"Ray {ray.__version__} lets every user of this machine run anything in a cluster:"
            f" install {_FIRST_WITH_TOKENS} or newer (pip install --upgrade ray), or run"
            " --in-process"
        )


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Make nodes that start in this context listen only on the loopback interface.

    Ray replaces 127.0.0.1 by another address of the machine and then listens on all interfaces,
    unless it is told that nodes of other machines cannot join. The processes it starts read that
    from the environment; this process has read it already.
    """
    from ray._private import (
        ray_constants,  # the only place; _verify_is_loopback looks at the effect
    )

    allows_clusters, variable = ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(_SEVERAL_MACHINES)
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[_SEVERAL_MACHINES] = "0"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = allows_clusters
        if variable is None:
            del os.environ[_SEVERAL_MACHINES]
        else:
            os.environ[_SEVERAL_MACHINES] = variable


def _verify_is_loopback(ray: Any) -> None:
    """Raise ClusterError if the started cluster can be reached from other machines."""
    address = ray.util.get_node_ip_address()
    if not ipaddress.ip_address(address).is_loopback:
        raise ClusterError(
            f"Ray {ray.__version__} listens on {address}, where other machines reach it, though it"
            " was told not to; --in-process runs the batch without Ray"
        )


def _remove_leftovers() -> None:
    """Remove the folders of clusters whose command was killed."""
    for folder in _parent().glob(f"{_FOLDER_PREFIX}*"):
        pid = folder.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _verify_answers(address: str) -> None:
    """Raise UsageError if nothing listens at a HOST:PORT, for which Ray would wait for ever."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or "/" in host:
        return  # "auto", or another form that Ray knows
    try:
        with socket.create_connection((host, int(port)), timeout=_ANSWER_S):
            return
    except (OSError, OverflowError) as error:
        raise UsageError(f"--ray {quoted(address)}: nothing answers there: {error}") from error


def _start(ray: Any, folder: str, cpus: int) -> None:
    resources = device_resources(this_machine().ep_devices)
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            num_gpus=resources.pop("GPU", 0),
            resources=resources,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=min(
                _MOST_STORE_NBYTES, int(machine_memory_nbytes() * _STORE_SHARE)
            ),
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
    except Exception as error:  # as above
        raise ClusterError(
            f"a Ray cluster of this machine's own does not start: {printable(error)}"
        ) from error
