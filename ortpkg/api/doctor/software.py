"""Installed versions of the software that sessions run on; nothing of it is imported."""

from __future__ import annotations

from ortpkg.foundations.version import __version__
from ortpkg.runtime.providers.ep_discovery.ep_libraries import installed_ep_libraries
from ortpkg.runtime.providers.installed_distribution import find_distributions
from ortpkg.runtime.providers.onnxruntime_factory import installed_distributions

_UNKNOWN = "of unknown version"


def installed_software() -> list[tuple[str, str]]:
    """Return names and versions of distributions, ortpkg first; "" for what is not installed.

    onnxruntime has the name of the distribution that provides it (``onnxruntime-gpu``,
    ``onnxruntime-openvino``, ...), each if there are several, followed by the wheels with execution
    providers for it.
    """
    runtimes = [
        (runtime.name, runtime.version or _UNKNOWN) for runtime in installed_distributions()
    ]
    libraries = [
        (library.distribution, library.version)
        for library in installed_ep_libraries()
        if library.distribution
    ]
    return [
        ("ortpkg", __version__),
        _distribution_version("onnx"),
        _distribution_version("numpy"),
        *(runtimes or [("onnxruntime", "")]),
        *dict.fromkeys(libraries),
        _distribution_version("openvino"),
    ]


def _distribution_version(name: str) -> tuple[str, str]:
    distributions = find_distributions(name, (name,))
    return (name, distributions[0].version or _UNKNOWN) if distributions else (name, "")
