"""The names of a package's documents in both generations; ``sidecar`` has those that are ours."""

from __future__ import annotations

MANIFEST = "manifest.json"
METADATA = "metadata.json"
#: Of a component model, in its folder.
COMPONENT = "component.json"
