"""Put a bill of materials into the wheel while hatchling builds it: CycloneDX, where PEP 770 says.

It names what an installer adds (pyproject.toml's dependencies, those of extras as optional), and
code of others that the wheel itself carries (the report's vendor.json). Versions that an installer
chooses are not known here: components have the requirement instead.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

VENDORED = "ortpkg/report/static/vendor/vendor.json"


class SbomBuildHook(BuildHookInterface):
    """Hook of hatchling, entered in pyproject.toml."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bill into a folder of its own, and name it to the builder."""
        del version
        core = self.metadata.core
        bill = make_sbom(
            (core.name, self.metadata.version, core.license_expression),
            core.dependencies,
            core.optional_dependencies,
            json.loads(Path(self.root, VENDORED).read_text(encoding="utf-8")),
        )
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, f"{core.name}.cdx.json")
        path.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove that folder."""
        del version, build_data, artifact_path
        self._folder.cleanup()


def make_sbom(
    project: tuple[str, str, str],
    dependencies: Sequence[str],
    extras: Mapping[str, Sequence[str]],
    vendored: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """Return the bill of a wheel as CycloneDX 1.6; the same arguments give the same bill.

    Args:
        project: name, version and license (SPDX).
        dependencies: requirements that are always installed.
        extras: name of an extra → its requirements; one that names the project takes over those of
            other extras.
        vendored: entries of vendor.json.
    """
    name, version, license_id = project
    root = {
        **_component(name, f"pkg:pypi/{name}@{version}", license_id),
        "version": version,
    }
    requirements = _requirements(canonicalize_name(name), dependencies, extras)
    installed = [
        _dependency(name_of_requirement, requirements[name_of_requirement])
        for name_of_requirement in sorted(requirements)
    ]
    carried = [_vendored(entry) for entry in vendored]
    required = [
        component["bom-ref"]
        for component in [*installed, *carried]
        if component["scope"] == "required"
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": [*installed, *carried],
        "dependencies": [{"ref": root["bom-ref"], "dependsOn": required}],
        # Dependencies of dependencies are the installer's choice, and not listed.
        "compositions": [{"aggregate": "incomplete", "dependencies": [root["bom-ref"]]}],
    }


def _requirements(
    project: str, dependencies: Sequence[str], extras: Mapping[str, Sequence[str]]
) -> dict[str, list[tuple[Requirement, str]]]:
    """Map what is required to each requirement of it, with its extra ("": none)."""
    requirements: dict[str, list[tuple[Requirement, str]]] = {}

    def add(lines: Sequence[str], extra: str) -> None:
        for requirement in map(Requirement, lines):
            required_project = canonicalize_name(requirement.name)
            if required_project != project:
                requirements.setdefault(required_project, []).append((requirement, extra))
                continue
            for other in sorted(requirement.extras):
                add(extras[other], extra)

    add(dependencies, "")
    for extra, lines in sorted(extras.items()):
        add(lines, extra)
    return requirements


def _dependency(name: str, requirements: Sequence[tuple[Requirement, str]]) -> dict[str, Any]:
    is_required = any(not extra for _, extra in requirements)
    properties = [
        {
            "name": f"ortpkg:requirement:{extra}" if extra else "ortpkg:requirement",
            "value": str(requirement),
        }
        for requirement, extra in requirements
    ]
    return {
        **_component(name, f"pkg:pypi/{name}"),
        "scope": "required" if is_required else "optional",
        "properties": properties,
    }


def _vendored(entry: Mapping[str, str]) -> dict[str, Any]:
    name, version = entry["name"], entry["version"]
    purl = f"pkg:npm/{quote(name, safe='/')}@{version}"
    return {
        **_component(name, purl, entry["license"]),
        "version": version,
        "scope": "required",
        "hashes": [{"alg": "SHA-256", "content": entry["sha256"]}],
        "properties": [
            {"name": "ortpkg:file", "value": f"{Path(VENDORED).parent.as_posix()}/{entry['file']}"}
        ],
    }


def _component(name: str, purl: str, license_id: str | None = None) -> dict[str, Any]:
    licenses = {} if license_id is None else {"licenses": [{"license": {"id": license_id}}]}
    return {"type": "library", "bom-ref": purl, "name": name, "purl": purl, **licenses}
