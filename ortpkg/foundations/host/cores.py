"""Number of cores for this process: those it may run on, and those its container may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_ROOT = Path("/")
#: Mount points of version 1's CPU controller, below the folder of control groups.
_CPU_MOUNTS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


def usable_cores() -> int:
    """Count the threads of this process that can compute at once.

    That is the number of cores it may run on, or its container's quota of CPU time if that is less:
    with more threads than that, the system stops all of them for a part of each period.
    """
    cores = _cores_to_run_on()
    return min(cores, quota_cores() or cores)


def quota_cores(root: Path = _ROOT) -> int | None:
    """Return the number of whole cores' time that the container's quota allows, rounded up.

    None without a quota.

    Args:
        root: root of the file system; tests pass a folder of their own.
    """
    quotas = list(_quotas(root))
    return max(1, min(quotas)) if quotas else None


def threads_for_quota() -> int:
    """Return as many threads as the quota allows; 0 without a quota, or if it allows all cores.

    Meant for libraries that count cores by themselves and know no quota.
    """
    quota = quota_cores()
    return quota if quota is not None and quota < _cores_to_run_on() else 0


def _cores_to_run_on() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux only; psutil agrees, but takes loading
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[int]:
    """Return the limits of this process' control group and of its parent groups, in cores.

    A group that the process does not see (a container's view begins at its own) is left out.
    """
    groups = root / "sys/fs/cgroup"
    unified, cpu = _own_groups(root)
    for mount in (groups, groups / "unified"):
        for folder in _with_parents(mount, unified):
            with suppress(OSError, ValueError):  # "max": none
                quota, period = (folder / "cpu.max").read_text("ascii").split()
                yield from _cores(int(quota), int(period))
    for name in _CPU_MOUNTS:
        for folder in _with_parents(groups / name, cpu):
            with suppress(OSError, ValueError):
                quota = (folder / "cpu.cfs_quota_us").read_text("ascii")
                period = (folder / "cpu.cfs_period_us").read_text("ascii")
                yield from _cores(int(quota), int(period))


def _cores(quota_us: int, period_us: int) -> Iterator[int]:
    if quota_us > 0 and period_us > 0:  # version 1 writes -1 for none
        yield -(-quota_us // period_us)


def _own_groups(root: Path) -> tuple[str, str]:
    """Return this process' control groups: of version 2, and of version 1's CPU controller."""
    unified = cpu = "/"
    with suppress(OSError, UnicodeDecodeError):
        for line in (root / "proc/self/cgroup").read_text("utf-8").splitlines():
            number, _, entry = line.partition(":")
            controllers, _, path = entry.partition(":")
            if number == "0" and not controllers:
                unified = path
            elif "cpu" in controllers.split(","):
                cpu = path
    return unified, cpu


def _with_parents(mount: Path, group: str) -> Iterator[Path]:
    """Return the folders of a group and its parent groups, from the mount downwards."""
    parts = [part for part in PurePosixPath(group).parts if part not in ("/", "..")]
    for count in range(len(parts) + 1):
        yield mount.joinpath(*parts[:count])
