"""Provider of the bridge: sub-graphs and contexts on an EP of the installed onnxruntime.

The library behind it loads onnxruntime, in this process or in a child process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import CompileError, EpContextError, quoted
from ortpkg.foundations.isolation.worker import Message
from ortpkg.foundations.storage.context_file_mark import MAGIC
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.context_node import ep_context_attributes, is_ep_context
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, map_context_file
from ortpkg.runtime.ep_context.ep_context_options import CONTEXT_FILE_PATH, SHARE_EP_CONTEXTS
from ortpkg.runtime.ep_context.ep_context_reader import EpContextReader
from ortpkg.runtime.ep_context.judged_contexts import cached_file_digest
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.execution_provider import ComputeCapability, FusedNode, GraphViewer
from ortpkg.runtime.providers.first_load import NativeContextLoader, load_in_child_first
from ortpkg.runtime.providers.isolated_model import compile_request
from ortpkg.runtime.providers.native_execution_provider import NativeExecutionProvider
from ortpkg.runtime.providers.native_library import NativeLibrary, NativeModel
from ortpkg.runtime.providers.supported_subgraphs import subgraph_claim


class BridgedExecutionProvider(NativeExecutionProvider):
    """One execution provider of onnxruntime in one session.

    Nodes that it leaves inside a partition run on onnxruntime's own CPU provider. A model with
    EPContext nodes that onnxruntime itself made for that provider is handed to it as a whole.
    """

    def __init__(
        self,
        name: str,
        library: NativeLibrary,
        *,
        ep_devices: Sequence[EpDevice] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, library, ep_devices=ep_devices, options=options)
        self._passes_through = False

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        context_nodes = [node for node in viewer.nodes if self._is_own_context(node)]
        if viewer.graph.parent is None and any(
            not self._is_made_by_ortpkg(node) for node in context_nodes
        ):
            self._passes_through = True
            self._check_carries(context_nodes)
            claim = subgraph_claim(
                viewer.graph, tuple(viewer.order), self._partition_name(viewer.graph)
            )
            if claim is not None and not any(node.execution_provider for node in viewer.nodes):
                return [claim]
        return super().get_capability(viewer, types_of)

    def context_node_of(self, fused: FusedNode) -> Node | None:
        return None if self._passes_through else super().context_node_of(fused)

    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        if not self._passes_through:
            return super().compile_partition(fused)
        reader = EpContextReader(self.name, self.ep_context, ())
        reader.check_judged_files()  # onnxruntime opens them by path
        if not self._library.in_child:
            self._load_in_child_first(fused)
        try:
            compiled = super().compile_partition(fused)
        except CompileError as error:
            raise EpContextError(
                f"onnxruntime cannot load the contexts of the model for {self.name}: {error}",
                ep_name=self.name,
            ) from error
        reader.check_judged_files()
        return compiled

    def _load_in_child_first(self, fused: FusedNode) -> None:
        """Load the model in a child process first: onnxruntime may crash over its contexts."""
        model = self._model_of(fused.body)
        entry = ContextEntry(
            name=fused.node.name,
            descriptor=ContextDescriptor(ep=self.name, sdk_version="", device=""),
            parts={},
            digests={
                "model": hashlib.sha256(model.data).hexdigest(),
                **self._digests_of_files(fused.body),
            },
        )
        here = self._library.describe_environment()
        if here is None:
            here = ContextDescriptor(ep=self.name, sdk_version=self._library.backend, device="")
        loader = _ModelLoader(
            backend=self._library.backend,
            options=self.options,
            ep_devices=self.get_ep_devices(),
            model=model,
        )
        load_in_child_first(entry, here, loader, fused)

    def _digests_of_files(self, body: Graph) -> dict[str, str]:
        reader = EpContextReader(self.name, self.ep_context, ())
        digests = {}
        for attributes in map(ep_context_attributes, filter(is_ep_context, body.nodes)):
            if attributes.main_context and not attributes.embed_mode:
                path = reader.path_of(attributes)
                judged = (self.ep_context.judged or {}).get(path)
                digests[str(path)] = cached_file_digest(
                    judged or map_context_file(path, ep_name=self.name)
                )
        return digests

    def _model_of(self, body: Graph) -> NativeModel:
        model = super()._model_of(body)
        model_path = self.ep_context.model_path or self.ep_context.file_path
        if not self._passes_through or model_path is None:
            return model
        # Sessions of a group: onnxruntime's provider keeps what they share.
        shared = {SHARE_EP_CONTEXTS: "1"} if self.ep_context.share else {}
        return replace(
            model, config_entries={CONTEXT_FILE_PATH: str(model_path.absolute()), **shared}
        )

    def _check_carries(self, context_nodes: Sequence[Node]) -> None:
        """Raise EpContextError if a new model would need files that only onnxruntime reads."""
        if not self.ep_context.enable:
            return
        for attributes in map(ep_context_attributes, context_nodes):
            if attributes.main_context and not attributes.embed_mode:
                raise EpContextError(
                    f"the context of {quoted(attributes.partition_name or attributes.context_path)}"
                    " was made by onnxruntime, and lies in the file"
                    f" {quoted(attributes.context_path)}, which cannot be carried into another"
                    " model: compile the source model anew",
                    ep_name=self.name,
                    source=attributes.source,
                    partition_name=attributes.partition_name,
                )

    def _is_made_by_ortpkg(self, node: Node) -> bool:
        """Return True if the context of ``node``, or of its main node, is in our container."""
        attributes = ep_context_attributes(node)
        if not attributes.main_context:
            return True  # its main node is checked instead
        if attributes.embed_mode:
            return attributes.ep_cache_context.startswith(MAGIC)
        if self.ep_context.read_data is not None:
            return True  # onnxruntime reads its own contexts from files only
        path = EpContextReader(self.name, self.ep_context, ()).path_of(attributes)
        judged = (self.ep_context.judged or {}).get(path)
        return (
            _starts_with_magic(path)
            if judged is None
            else bytes(judged.data[: len(MAGIC)]) == MAGIC
        )


def _starts_with_magic(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return True  # loading it raises the error


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelLoader(NativeContextLoader):
    """Loader of a model with contexts that only onnxruntime reads."""

    model: NativeModel

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        return {"config_entries": dict(self.model.config_entries)}

    def load_request(self, entry: ContextEntry, fused: FusedNode) -> Message:
        del entry, fused
        return compile_request(self.model)
