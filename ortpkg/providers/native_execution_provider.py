"""Providers on a native library: they claim the largest sub-graphs that the library compiles.

Only compiling tells for certain whether a library takes a sub-graph, so claims are made by compiling; ``compile`` then
hands out what was made. Nodes that the library refuses are left to the next provider, and the log says why. Where the
library takes all, the whole graph is one partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ortpkg.devices.hardware import EpDevice
from ortpkg.ep_names import context_sources_of
from ortpkg.errors import CompileError, InvalidSessionOptionError, LimitExceededError, OrtpkgError, quoted
from ortpkg.graph.ep_context import ep_context_attributes
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import to_model_proto
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.providers.claim_refusals import ClaimRefusal, read_refusal, write_refusal
from ortpkg.providers.compatibility_info import compatibility_text
from ortpkg.providers.compiling_provider import CompiledPartition, CompilingProvider, NotCompiled
from ortpkg.providers.context_form import ContextForm
from ortpkg.providers.ep_context_cache import EpContextCache
from ortpkg.providers.ep_context_descriptor import ContextDescriptor, ContextMismatch, find_mismatch
from ortpkg.providers.ep_context_file import ContextEntry
from ortpkg.providers.execution_provider import (
    BackendPlacement,
    ComputeCapability,
    FusedNode,
    GraphViewer,
    MetaDef,
)
from ortpkg.providers.first_load import NativeContextLoader, load_in_child_first
from ortpkg.providers.isolated_model import ISOLATED_BACKENDS
from ortpkg.providers.library_traits import Operator
from ortpkg.providers.native_group import check_weights, share_weights
from ortpkg.providers.native_library import (
    COMPILED,
    WEIGHTS,
    CompiledModel,
    NativeLibrary,
    NativeModel,
    Part,
    signature_part,
    words_of,
)
from ortpkg.providers.openvino_container import OPENVINO_FORM
from ortpkg.providers.partition_body import partition_body
from ortpkg.providers.session_settings import SessionSettings
from ortpkg.providers.supported_subgraphs import supported_subgraphs
from ortpkg.versions import is_same_minor, is_within_release, release_of

_log = logging.getLogger(__name__)

#: Understood by every release of the libraries that we support, and new enough for 4-bit types.
_IR_VERSION = 10
#: protobuf's limit for one message; more needs external data.
_MOST_MODEL_NBYTES = (1 << 31) - 1
_MOST_NAMES_SHOWN = 5
#: Backend → how onnxruntime's execution provider on the same library keeps contexts.
CONTEXT_FORMS: Mapping[str, ContextForm] = {"openvino": OPENVINO_FORM}


class NativeExecutionProvider(CompilingProvider):
    """An execution provider on one native library. Sub-graphs (If, Loop) go along inside their nodes where it can."""

    computes_natively = True

    def __init__(
        self,
        name: str,
        library: NativeLibrary,
        *,
        ep_devices: Sequence[EpDevice] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, ep_devices=ep_devices, options=options)
        self.backend = library.backend
        self.context_sources = context_sources_of(name)
        self.context_form = CONTEXT_FORMS.get(library.backend)
        self._library = library
        #: Compiled at the claim, by the fused node's name, until ``compile`` asks for them.
        self._claimed: dict[str, CompiledModel] = {}
        #: What the provider of onnxruntime would say of what was kept for it.
        self._kept_info = ""
        #: Handed out, by the fused node's name.
        self._compiled: dict[str, CompiledModel] = {}
        #: Operators that the library said it lacks: it is not asked again.
        self._unknown: set[Operator] = set()
        self._refusals: dict[str, None] = {}

    def use_session_settings(self, settings: SessionSettings) -> None:
        self._library.use_settings(settings)
        if unapplied := self._library.traits.unapplied(settings):
            names = ", ".join(map(quoted, unapplied))
            _log.warning("%s: these session options do not apply to it: %s", self.name, names)

    # --- claims ------------------------------------------------------------------------------------------------------

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        known = len(self._refusals)
        claims = super().get_capability(viewer, types_of)
        if len(self._refusals) > known:
            outcome = "leaves nodes to other execution providers" if claims else "takes no node"
            _log.warning("%s (%s) %s: %s", self.name, self.backend, outcome, self.refusal_text)
        return claims

    def nodes_for_float32(
        self,
        viewer: GraphViewer,  # noqa: ARG002 - part of the interface
        types_of: Callable[[Node], Mapping[str, ElementType]],  # noqa: ARG002
    ) -> Collection[int]:
        """None: its library chooses the precision of each node itself."""
        return ()

    def supported_nodes(
        self,
        viewer: GraphViewer,
        types_of: Callable[[Node], Mapping[str, ElementType]],  # noqa: ARG002 - the library looks for itself
    ) -> Collection[int]:
        """All nodes but those of operators that the library lacks, and those that would bring foreign values in."""
        self._library.opened()
        candidates = {node.index for node in viewer.nodes if _operator(node) not in self._unknown}
        while foreign := self._foreign_border(viewer, candidates):
            candidates -= foreign
        return candidates

    def claim_subgraphs(self, viewer: GraphViewer, supported: Collection[int]) -> list[ComputeCapability | None]:
        claims: list[ComputeCapability | None] = []
        waiting = supported_subgraphs(viewer, supported)
        while waiting:
            group = waiting.pop(0)
            if not any(viewer.graph.node(index).op_type != "Constant" for index in group):
                continue
            claim = self._claim(viewer.graph, group, self._partition_name(viewer.graph))
            if claim is None:
                continue
            refused = self._try(viewer.graph, claim)
            if not refused:
                claims.append(claim)
            elif len(refused) < len(group):
                rest = set(group) - refused
                while foreign := self._foreign_border(viewer, rest):
                    rest -= foreign
                waiting[:0] = supported_subgraphs(viewer, rest)
        return claims

    def _foreign_border(self, viewer: GraphViewer, candidates: set[int]) -> set[int]:
        """Candidates that take or give, across the border of their partition, what cannot cross it."""
        found = set()
        for node in (node for node in viewer.nodes if node.index in candidates):
            values = _border_values(viewer.graph, node, candidates)
            foreign = next((value for value in values if not self._crosses(viewer.graph, value)), None)
            if foreign is not None:
                found.add(node.index)
                self._refuse(f"it cannot take or give values of the type of {quoted(foreign)}")
        return found

    def _has_foreign_values(self, graph: Graph, node: Node) -> bool:
        """Whether it, or a node inside it, takes or gives values whose type could not cross a partition's border."""
        values = filter(None, (*node.inputs, *node.implicit_inputs, *node.outputs))
        if any(_type_of(graph, value) is not None and not self._crosses(graph, value) for value in values):
            return True
        return any(self._has_foreign_values(inner, each) for inner in node.subgraphs.values() for each in inner.nodes)

    def _crosses(self, graph: Graph, value: str) -> bool:
        found = _type_of(graph, value)
        return isinstance(found, TensorType) and found.element_type in self._library.traits.border_types

    def _try(self, graph: Graph, claim: ComputeCapability) -> set[int]:
        """Compiles a claim, or finds it compiled; indices of nodes that the library refuses, none if it took all."""
        assert claim.meta_def is not None
        nodes = [graph.node(index) for index in claim.node_indices]
        fused = fused_node_of(graph, nodes, claim.meta_def, self.name)
        cache = self.ep_context.cache
        if cache is None or self._library.describe_environment() is None:
            found = self._compile_claim(graph, nodes, fused)
        else:
            found = self._find_or_compile_claim(cache, graph, nodes, fused)
        if not isinstance(found, ClaimRefusal):
            self._claimed[fused.node.name] = found
            return set()
        self._unknown |= found.unknown
        for reason in found.reasons:
            self._refuse(reason)
        return {node.index for node in nodes if _makes(node) in found.makes}

    def _find_or_compile_claim(
        self, cache: EpContextCache, graph: Graph, nodes: Sequence[Node], fused: FusedNode
    ) -> CompiledModel | ClaimRefusal:
        """What the cache has for the claim, or what the library said of it there; else compiled, and kept."""
        descriptor = self._cache_descriptor(fused)

        def find(is_locked: bool) -> CompiledModel | ClaimRefusal | None:
            refusal = read_refusal(cache.directory, descriptor)
            if refusal is not None or self._find(cache, descriptor, fused, is_locked) is None:
                return refusal
            return self._compiled[fused.node.name]

        def make() -> CompiledModel | ClaimRefusal:
            made = self._compile_claim(graph, nodes, fused)
            if not isinstance(made, ClaimRefusal):
                self._compiled[fused.node.name] = made
                self._keep(cache, descriptor, fused, made)
            elif made.is_lasting:
                write_refusal(cache.directory, descriptor, made)
            return made

        if self.ep_context.only_explains_cache:
            found: CompiledModel | ClaimRefusal | None = read_refusal(cache.directory, descriptor)
            if found is None:
                self._note_outcome(cache, descriptor, fused)
            return found or NotCompiled()
        self._note_outcome(cache, descriptor, fused)
        found = self._once(cache, descriptor, find, make)
        if isinstance(found, ClaimRefusal):
            self.cache_outcomes.pop()  # it is no partition
        self._compiled.pop(fused.node.name, None)  # until it is asked for
        return found

    def _compile_claim(self, graph: Graph, nodes: Sequence[Node], fused: FusedNode) -> CompiledModel | ClaimRefusal:
        try:
            is_kept = self.ep_context.enable or self.ep_context.cache is not None
            return self._library.compile_model(replace(self._model_of(fused.body), is_kept=is_kept))
        except (LimitExceededError, InvalidSessionOptionError):  # the caller's matter: no other provider mends it
            raise
        except Exception as error:  # noqa: BLE001 - libraries raise what they like
            return self._refusal_of(graph, nodes, error)

    def _refusal_of(self, graph: Graph, nodes: Sequence[Node], error: Exception) -> ClaimRefusal:
        """Who is to blame for ``error``: nodes of operators that it names, or that fail alone; else all."""
        unknown = self._library.traits.unknown_operators(str(error)) & {
            each for node in nodes for each in _operators_in(node)
        }
        refused = [node for node in nodes if not unknown.isdisjoint(_operators_in(node))]
        if refused:
            names = ", ".join(sorted(f"{domain or 'ai.onnx'}:{name}" for domain, name in unknown))
            reason = f"{self.name} cannot compile the model as a whole: its library lacks {names}"
            return ClaimRefusal(makes=tuple(map(_makes, refused)), reasons=(reason,), unknown=unknown)
        reason = str(error) if isinstance(error, OrtpkgError) else self._compile_error(error)
        alone = self._failing_alone(graph, nodes) if len(nodes) > 1 else set()
        # What gives such values to a node inside cannot be tried alone: if nobody else is to blame, they are.
        alone = alone or {node.index for node in nodes if self._has_foreign_values(graph, node)}
        refused = list(nodes)
        if alone and len(alone) < len(nodes):
            names = ", ".join(quoted(graph.node(index).name) for index in sorted(alone)[:_MOST_NAMES_SHOWN])
            reason = f"{reason}; it refuses {names}"
            refused = [node for node in nodes if node.index in alone]
        return ClaimRefusal(makes=tuple(map(_makes, refused)), reasons=(reason,), is_lasting=_is_about_the_model(error))

    def _failing_alone(self, graph: Graph, nodes: Sequence[Node]) -> set[int]:
        """Nodes whose kind (operator, version, types) the library does not compile even as a model of one node."""
        verdicts: dict[object, bool] = {}
        failing = set()
        for node in nodes:
            types = tuple(str(graph.type_of(value)) for value in (*node.inputs, *node.outputs))
            kind = (*_operator(node), node.since_version, types)
            if kind not in verdicts:
                verdicts[kind] = self._fails_alone(graph, node)
            if verdicts[kind]:
                failing.add(node.index)
        return failing

    def _fails_alone(self, graph: Graph, node: Node) -> bool:
        claim = self._claim(graph, (node.index,), node.name)
        if claim is None or claim.meta_def is None:
            return False
        meta: MetaDef = claim.meta_def
        if not all(self._crosses(graph, value) for value in (*meta.inputs, *meta.outputs)):
            return False
        try:
            self._library.compile_model(
                self._model_of(partition_body(graph, [node], meta, self.name, takes_subgraphs=False))
            )
        except (LimitExceededError, InvalidSessionOptionError):
            raise
        except Exception:  # noqa: BLE001 - as above
            return True
        return False

    def _refuse(self, reason: str) -> None:
        self._refusals[reason] = None

    @property
    def refusal_text(self) -> str:
        """Why it left nodes; "" where it left none."""
        return "; ".join(list(self._refusals)[:_MOST_NAMES_SHOWN])

    def get_refusal(self) -> str:
        return "" if self._compiled else self.refusal_text

    # --- compiling, keeping, loading ---------------------------------------------------------------------------------

    def _find_or_compile(self, fused: FusedNode) -> CompiledPartition:
        """As the claim left it, which asked the cache; a partition that another made asks it now."""
        return self._compile(fused) if fused.node.name in self._claimed else super()._find_or_compile(fused)

    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        """Hands out what the claim compiled; a partition that another made is compiled now. May raise CompileError."""
        compiled = self._claimed.pop(fused.node.name, None)
        if compiled is None:
            try:
                compiled = self._library.compile_model(self._model_of(fused.body))
            except OrtpkgError:
                raise
            except Exception as error:
                raise CompileError(self._compile_error(error), ep_name=self.name) from error
        self._compiled[fused.node.name] = compiled
        return compiled

    def _cache_descriptor(self, fused: FusedNode) -> ContextDescriptor:
        descriptor = super()._cache_descriptor(fused)
        settings = self._library.settings.of_compiling if self._library.traits.takes_session_entries else {}
        return replace(descriptor, options=MappingProxyType({**descriptor.options, **settings}))

    def export_context(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, Part]:
        del compiled
        try:
            parts = self._library.export_model(self._compiled[fused.node.name], self._model_of(fused.body))
        except NotImplementedError as error:
            raise CompileError(f"{self.name} cannot keep what it compiled: {error}", ep_name=self.name) from error
        self._note_info(parts)
        return parts

    def _note_info(self, parts: Mapping[str, Part]) -> None:
        """Remembers what onnxruntime's provider would say of what is kept for it."""
        if self.context_form is not None and self.ep_context.for_onnxruntime:
            self._kept_info = self.context_form.compatibility_info(parts) or self._kept_info

    def complete_context(self, entry: ContextEntry, node: Node) -> ContextEntry:
        """Names of inputs and outputs, and, where another tool made it, all that it does not say as it is here.

        What it does say is compared as always: the release, the kind of device.
        """
        self._note_info(entry.parts)
        named = {**signature_part(node.inputs, node.outputs), **entry.parts}
        if not entry.is_foreign:
            return entry if len(named) == len(entry.parts) else replace(entry, parts=named)
        here = self.describe_environment()
        said = entry.descriptor
        version = said.sdk_version or ep_context_attributes(node).ep_sdk_version
        descriptor = replace(
            here,
            sdk_version=here.sdk_version if is_within_release(here.sdk_version, version) else version,
            device=said.device or here.device,
        )
        return replace(entry, parts=named, descriptor=descriptor)

    def group_source(self, fused: FusedNode) -> NativeModel | None:
        return None if self._library.unshared_reason else self._model_of(fused.body)

    def finish_group(self, entries: Sequence[ContextEntry], first_offset: int) -> Sequence[ContextEntry]:
        return share_weights(self._library, entries, first_offset, ep_name=self.name)

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:
        is_weightless = bool(entry.descriptor.weights_source)
        if is_weightless:
            check_weights(entry, ep_name=self.name)
        if not self._library.in_child and self._library.backend in ISOLATED_BACKENDS:
            loader = NativeContextLoader(
                backend=self._library.backend,
                options=self.options,
                ep_devices=self.get_ep_devices(),
            )
            tried = self._tried_of_member(entry) if is_weightless else None
            load_in_child_first(entry, self.describe_environment(), loader, fused, tried=tried)
        if is_weightless:
            compiled = self._library.import_member(entry.parts, entry.file)
        else:
            compiled = self._library.import_model(entry.parts)
        self._compiled[fused.node.name] = compiled
        return compiled

    def _tried_of_member(self, entry: ContextEntry) -> Mapping[str, Any]:
        """What the library sees of a member of a group, the same for all members: one trial is enough for them."""
        shared = {name: entry.digests[name] for name in (WEIGHTS, COMPILED) if name in entry.digests}
        return {**shared, **self._library.group_place(entry.parts)}

    def describe_environment(self) -> ContextDescriptor:
        self._library.opened()
        found = self._library.describe_environment()
        if found is None:
            raise CompileError(
                f"{self.name} cannot keep what it compiled: contexts of this provider are made by its library itself",
                ep_name=self.name,
            )
        return found

    def find_mismatch(self, recorded: ContextDescriptor, here: ContextDescriptor) -> ContextMismatch | None:
        """As always, but where the library takes them, contexts of a release with the same major and minor version."""
        versions = (release_of(each.sdk_version) for each in (recorded, here))
        settings = self._library.settings.of_compiling  # the cache's key has them, which was asked for these
        if settings:
            stated = {key: value for key, value in recorded.options.items() if settings.get(key) != value}
            recorded = replace(recorded, options=MappingProxyType(stated))
        if self._library.traits.takes_patches and is_same_minor(*versions):
            recorded = replace(recorded, sdk_version=here.sdk_version)
        return find_mismatch(recorded, here)

    def get_compiled_model_compatibility_info(self, graph: Graph) -> str:  # noqa: ARG002 - the same for every model
        if self.ep_context.for_onnxruntime:
            return self._kept_info
        found = self._library.describe_environment()
        return "" if found is None else compatibility_text(found, self._library.backend)

    def get_placement(self, fused_node: str) -> Sequence[BackendPlacement]:
        compiled = self._compiled.get(fused_node)
        return () if compiled is None else compiled.get_placement()

    def close(self) -> None:
        self._claimed.clear()
        self._compiled.clear()
        self._library.close()

    # --- handing over ------------------------------------------------------------------------------------------------

    def _model_of(self, body: Graph) -> NativeModel:
        return native_model(body)

    def _compile_error(self, error: Exception) -> str:
        return f"{self.name} cannot compile the model: {quoted(words_of(error))}"


def native_model(body: Graph) -> NativeModel:
    """A partition's body as a library reads it. ValueError where it is larger than one message may be."""
    proto = to_model_proto(Model(graph=body, ir_version=_IR_VERSION))
    if proto.ByteSize() > _MOST_MODEL_NBYTES:
        raise ValueError(f"the model has {proto.ByteSize()} bytes; at most {_MOST_MODEL_NBYTES} can be handed over")
    return NativeModel(data=proto.SerializeToString(), inputs=body.inputs, outputs=body.outputs)


def _border_values(graph: Graph, node: Node, inside: Collection[int]) -> Iterator[str]:
    """Values that ``node`` takes from outside of the nodes ``inside``, and those that it gives."""
    for value in filter(None, (*node.inputs, *node.implicit_inputs)):
        producer = graph.producer_of(value)
        if (producer is None or producer.index not in inside) and graph.constant(value) is None:
            yield value
    for value in filter(None, node.outputs):
        if graph.is_output(value) or any(use.node_index not in inside for use in graph.consumers_of(value)):
            yield value


def _type_of(graph: Graph, value: str) -> object:
    """Its type, known in ``graph`` or a graph around it; None where it is not."""
    current: Graph | None = graph
    while current is not None:
        found = current.type_of(value)
        if found is not None:
            return found
        current = current.parent
    return None


def fused_node_of(graph: Graph, nodes: Sequence[Node], meta: MetaDef, ep_name: str) -> FusedNode:
    """What the nodes would be fused into, to be compiled and thrown away: the graph stays as it is."""
    node = Node(
        index=-1, name=meta.name, op_type=meta.name, domain=meta.domain, inputs=meta.inputs, outputs=meta.outputs
    )
    return FusedNode(node=node, body=partition_body(graph, nodes, meta, ep_name, takes_subgraphs=False))


def _makes(node: Node) -> str:
    """The first value that it makes, by which it is known in its graph."""
    return next(filter(None, node.outputs), "")


def _is_about_the_model(error: Exception) -> bool:
    """Whether it would come again: not where memory ran out, a file could not be read, or a child process ended."""
    is_passing = isinstance(error, OrtpkgError | MemoryError | OSError) or "alloc" in str(error).lower()
    return not is_passing and getattr(error, "kind", "") not in ("MemoryError", "OSError")


def _operator(node: Node) -> Operator:
    return ("" if node.domain == "ai.onnx" else node.domain, node.op_type)


def _operators_in(node: Node) -> Iterator[Operator]:
    """The node's operator and those of the graphs inside it."""
    yield _operator(node)
    for subgraph in node.subgraphs.values():
        for inner in subgraph.nodes:
            yield from _operators_in(inner)
