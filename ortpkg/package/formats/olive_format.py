"""Packages as the released Olive 0.13 writes them (``olive generate-model-package``).

The form is close to the component generation, but no release of onnxruntime reads it:
``manifest.json`` has ``schema_version`` 1 as a number, ``components`` as a list of names,
``configs_dir`` and ``producer``; each component is described in
``models/<component>/metadata.json``, which has a ``schema_version``, too, and variants with ``ep``,
``device`` and ``compatibility_string``; a variant's files lie in the folder of its name.
Configurations of onnxruntime-genai lie in ``configs``; a variant's additions to them are in its
``genai_config_overlay.json``. Source: packages made by olive-ai 0.13.0.

ortpkg reads this form and converts it; no command changes it in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortpkg.package.document_names import METADATA
from ortpkg.package.formats.metadata_format import MODELS

VERSION = 1
#: Keys of the manifest that the component generation does not know.
OWN_MANIFEST_KEYS = ("configs_dir", "producer")


def is_olive_manifest(manifest: Mapping[str, Any]) -> bool:
    """Return True if a manifest has this form: it lists its components by name."""
    components, version = manifest.get("components"), manifest.get("schema_version")
    return (
        type(version) is int
        and version == VERSION
        and isinstance(components, list)
        and all(isinstance(name, str) for name in components)
    )


def as_component_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the equivalent manifest of the component generation."""
    return {
        "schema_version": f"{VERSION}.0",
        **{
            key: value
            for key, value in manifest.items()
            if key not in ("schema_version", "components", *OWN_MANIFEST_KEYS)
        },
        "components": {name: f"{MODELS}/{name}/{METADATA}" for name in manifest["components"]},
        "additional_metadata": {key: manifest[key] for key in OWN_MANIFEST_KEYS if key in manifest},
    }
