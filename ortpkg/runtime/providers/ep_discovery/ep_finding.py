"""Results of looking for plug-in EPs: a library with its EPs, or why it cannot be used."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ortpkg.foundations.ep_names import OWN_EPS, resolve_ep_name
from ortpkg.foundations.errors import quoted
from ortpkg.runtime.providers.ep_discovery.candidate_distributions import EpOrigin
from ortpkg.runtime.providers.ep_discovery.ep_candidate import EpPackage

_MOST_NAMES = 32
_NAME = re.compile(r"[\w.+-]{1,128}")
_FILE_NAME = re.compile(r"(?:lib)?(?:onnxruntime_)?(?:providers_)?(\w+?)(?:_plugin|_ep)?")
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class EpFinding(NamedTuple):
    """Library of EPs in a wheel, a path or the catalog, or the reason why there is none.

    Attributes:
        origin: source of the library.
        distribution, version: name and version of the wheel; "" for a path from the user.
        path: path of the library; "" if there is none.
        ep_names: names of its EPs.
        package: package to import before the library is registered; None for none.
        problem: why it cannot be used; "" if it can.
    """

    origin: EpOrigin
    distribution: str = ""
    version: str = ""
    path: str = ""
    ep_names: tuple[str, ...] = ()
    package: EpPackage | None = None
    problem: str = ""

    def __str__(self) -> str:
        if not self.distribution:
            return quoted(self.path)
        return f"{self.distribution} {self.version}".strip()


def problem_of_file(path: str) -> str:
    """Return why ``path`` cannot be a library, as the end of a sentence about it; "" if it can."""
    if not os.path.isabs(path):  # noqa: PTH117 - a text from outside
        return f"{quoted(path)}, which is no absolute path"
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - as above
    except (OSError, ValueError):
        return f"{quoted(path)}, which is not there"
    if stat.S_ISREG(mode):
        return ""
    return f"{quoted(path)}, which is {_KINDS.get(stat.S_IFMT(mode), 'no file')}"


def problem_of_names(names: Sequence[str]) -> str:
    """Return why a library's EPs cannot have these names; "" if they can."""
    if len(names) > _MOST_NAMES:
        return f"it names {len(names)} execution providers; at most {_MOST_NAMES} are believed"
    for name in names:
        if not _NAME.fullmatch(name):
            return f"it names its execution provider {quoted(name)}, which is no name"
        if name in OWN_EPS:
            return f"it names its execution provider {name}, which is ortpkg's own"
    return ""


def name_by_file(path: str) -> str:
    """Return the name of an EP that a library's file name suggests.

    >>> name_by_file("/opt/libonnxruntime_providers_qnn.so"), name_by_file("libonnxruntime_ggml.so")
    ('QNNExecutionProvider', 'ggml')
    """
    stem = Path(path).name.partition(".")[0]
    match = _FILE_NAME.fullmatch(stem)
    return resolve_ep_name(match[1] if match else stem)
