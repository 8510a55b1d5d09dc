"""Distribution that may bring a plug-in EP, as the scan of installed distributions finds it."""

from __future__ import annotations

from typing import NamedTuple


class EpPackage(NamedTuple):
    """Python package of a wheel: the name to import it by, and its folder."""

    module: str
    folder: str


class EpCandidate(NamedTuple):
    """A distribution, or one package of it, that may bring a plug-in EP.

    Attributes:
        distribution, version: name and version of the wheel.
        package: package to ask for its library; None if only a library's name is a hint.
        libraries: paths of libraries with the usual names of plug-ins, the likeliest first.
        files: paths of the package in ``RECORD``; if one is missing, the wheel is damaged.
    """

    distribution: str
    version: str
    package: EpPackage | None
    libraries: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
