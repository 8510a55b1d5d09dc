"""What is installed of the software that sessions run on, in which versions.

Nothing of it is imported.
"""

from __future__ import annotations

from ortpkg.providers.ep_discovery.ep_libraries import installed_ep_libraries
from ortpkg.providers.installed_distribution import find_distributions
from ortpkg.providers.onnxruntime_factory import installed_distributions
from ortpkg.version import __version__

_UNKNOWN = "of unknown version"


def installed_software() -> list[tuple[str, str]]:
    """Names of distributions and their versions, ortpkg first; "" for what is not installed.

    onnxruntime under the name of the distribution that brings it (``onnxruntime-gpu``,
    ``onnxruntime-openvino``, ...), each where several do, and behind it the wheels that bring
    execution providers for it.
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
        _one("onnx"),
        _one("numpy"),
        *(runtimes or [("onnxruntime", "")]),
        *dict.fromkeys(libraries),
        _one("openvino"),
    ]


def _one(name: str) -> tuple[str, str]:
    found = find_distributions(name, (name,))
    return (name, found[0].version or _UNKNOWN) if found else (name, "")
