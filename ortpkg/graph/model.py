"""A model: its graph and the other information in its file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.graph.graph import Graph


@dataclass(slots=True, kw_only=True, eq=False)
class Model:
    """A loaded model. Model-local functions have been inlined; training information is not kept.

    Attributes:
        graph: the main graph.
        ir_version, producer_name, producer_version, domain, doc_string: as in ModelProto.
        model_version: likewise; None if the file has none.
        metadata_props: free text by key.
        path: the file that it was loaded from, if there is one.
    """

    graph: Graph
    ir_version: int
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int | None = None
    doc_string: str = ""
    metadata_props: dict[str, str] = field(default_factory=dict)
    path: Path | None = None

    @property
    def opset_imports(self) -> dict[str, int]:
        """Domain → version; all graphs of the model share it, so transformers may add domains."""
        return self.graph.opset_imports
