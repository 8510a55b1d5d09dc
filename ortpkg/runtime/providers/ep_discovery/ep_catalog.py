"""Windows' catalog of EPs (Windows ML), read through the wheel ``windowsml``.

Windows installs and updates EPs for its hardware; ``EpCatalog`` of the wheel lists them. EPs that
are ready are used like those of wheels. Nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import quoted
from ortpkg.foundations.isolation.backend_probe import ask_backend, asking_anew
from ortpkg.runtime.providers.ep_discovery.candidate_distributions import EpOrigin
from ortpkg.runtime.providers.ep_discovery.ep_finding import (
    EpFinding,
    problem_of_file,
    problem_of_names,
)

#: The wheel that lists the catalog.
CATALOG_MODULE = "windowsml"
_PROBE = "ortpkg.runtime.providers.ep_discovery.ep_package_probe:list_catalog"
_READY = "Ready"


def has_catalog() -> bool:
    """Return True on Windows with the wheel, where the catalog can be read."""
    return sys.platform == "win32" and importlib.util.find_spec(CATALOG_MODULE) is not None


def catalog_findings() -> list[EpFinding]:
    """Return a finding for each EP in the catalog; one that is not ready has a ``problem``."""
    spec = importlib.util.find_spec(CATALOG_MODULE)
    if spec is None or spec.origin is None:
        return []
    folder = str(Path(spec.origin).parent)
    entries = _ask(folder)
    if isinstance(entries, list) and any(
        problem_of_file(entry["path"]) for entry in entries if entry["state"] == _READY
    ):
        with asking_anew():  # Windows has put a newer one in the place of one that is remembered
            entries = _ask(folder)
    if isinstance(entries, str):
        unnamed = EpFinding(EpOrigin.CATALOG, "Windows' catalog of EPs")
        return [unnamed._replace(problem=f"asked for its EPs, {entries}")]
    return [_finding(entry) for entry in entries]


def _ask(folder: str) -> list[dict[str, Any]] | str:
    """Return the catalog's entries, or a text that says how reading it failed."""
    answer = ask_backend(
        _PROBE,
        {"module": CATALOG_MODULE, "folder": folder},
        fingerprint={"folder": folder},
        # An EP that is not ready may be so at any time.
        is_kept=lambda value: all(entry["state"] == _READY for entry in value),
    )
    return answer.failure or list(answer.value or ())


def _finding(entry: dict[str, Any]) -> EpFinding:
    name = str(entry["name"])
    finding = EpFinding(
        EpOrigin.CATALOG, f"Windows' {name}", str(entry["version"]), ep_names=(name,)
    )
    if entry["state"] != _READY:
        return finding._replace(
            problem=(
                f"it is not ready ({quoted(entry['state'])}); ensure_ready() of windowsml's"
                " EpCatalog prepares it, which may download it"
            )
        )
    path = str(entry["path"])
    problem = problem_of_file(path)
    problem = f"its library is {problem}" if problem else problem_of_names((name,))
    return finding._replace(path=path, problem=problem)
