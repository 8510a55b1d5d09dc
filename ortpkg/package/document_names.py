"""Names of the documents of both generations; ``sidecar`` has those that are ortpkg's own."""

from __future__ import annotations

MANIFEST = "manifest.json"
METADATA = "metadata.json"
#: Document of a component model, in its folder.
COMPONENT = "component.json"
