"""Providers on a native library: they claim the largest sub-graphs that the library compiles.

Only compiling tells for certain whether a library takes a sub-graph, so claims are made by
compiling; ``compile`` then returns what was made. Nodes that the library refuses are left to the
next provider, and the log says why. If the library takes all, the whole graph is one partition.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from ortpkg.foundations.ep_names import context_sources_of
from ortpkg.foundations.errors import (
    CompileError,
    InvalidSessionOptionError,
    LimitExceededError,
    OrtpkgError,
    quoted,
)
from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.foundations.versions import is_same_minor, is_within_release, release_of
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.claim_refusals import ClaimRefusal, read_refusal, write_refusal
from ortpkg.runtime.ep_context.context_form import ContextForm
from ortpkg.runtime.ep_context.context_node import ep_context_attributes, is_ep_context
from ortpkg.runtime.ep_context.ep_context_descriptor import (
    ContextDescriptor,
    ContextMismatch,
    find_mismatch,
)
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry
from ortpkg.runtime.providers.claim_blame import (
    MOST_NAMES_SHOWN,
    compile_error,
)
from ortpkg.runtime.providers.compatibility_info import compatibility_text
from ortpkg.runtime.providers.compiled_partition import CompiledPartition, NotCompiled
from ortpkg.runtime.providers.compiling_provider import CompilingProvider
from ortpkg.runtime.providers.execution_provider import (
    Allocator,
    BackendPlacement,
    ComputeCapability,
    DeviceSlots,
    FusedNode,
    GraphViewer,
    NodeComputeInfo,
)
from ortpkg.runtime.providers.first_load import NativeContextLoader, load_in_child_first
from ortpkg.runtime.providers.index_guards import PartitionGuards
from ortpkg.runtime.providers.isolated_model import ISOLATED_BACKENDS
from ortpkg.runtime.providers.library_words import shortened
from ortpkg.runtime.providers.model_share import TOO_LITTLE, TOO_SMALL, worth_taking
from ortpkg.runtime.providers.native_claims import MOST_REFUSALS_UNNAMED, NativeClaims
from ortpkg.runtime.providers.native_group import check_weights, share_weights
from ortpkg.runtime.providers.native_library import (
    COMPILED,
    WEIGHTS,
    CompiledModel,
    ContextLibrary,
    GroupLibrary,
    NativeLibrary,
    NativeModel,
    Part,
    WeightlessLibrary,
    signature_part,
)
from ortpkg.runtime.providers.native_model import native_model
from ortpkg.runtime.providers.numpy_standby import StandbyPartition, can_stand_by, forget_arrays
from ortpkg.runtime.providers.openvino_container import OPENVINO_FORM
from ortpkg.runtime.providers.partition_body import fused_node_of
from ortpkg.runtime.providers.partition_cache import PartitionCache
from ortpkg.runtime.providers.session_settings import NO_CPU_FALLBACK_ENTRY, SessionSettings
from ortpkg.runtime.providers.watched_partition import watched_partition

_log = logging.getLogger(__name__)

#: Backend → form in which onnxruntime's execution provider on the same library keeps contexts.
CONTEXT_FORMS: Mapping[str, ContextForm] = {"openvino": OPENVINO_FORM}


class NativeExecutionProvider(CompilingProvider):
    """Execution provider on one native library.

    Sub-graphs (If, Loop) go along inside their nodes if it can compile them.
    """

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
        self._claims = NativeClaims(name, library)
        #: Compiled at the claim, by the fused node's name, until ``compile`` asks for them.
        self._claimed: dict[str, CompiledModel] = {}
        #: The last body for the library, and its form for it, until the compiled partition is kept.
        self._handed_over: tuple[Graph, NativeModel] | None = None
        #: Compatibility string that onnxruntime's provider would give to the context kept for it.
        self._kept_info = ""
        #: True if it leaves the whole model: nobody named it, and it could take too little.
        self._leaves_model = False
        self._has_logged = False
        self._standbys: list[StandbyPartition] = []
        #: Compiled partitions in use, by the fused node's name.
        self._compiled: dict[str, CompiledModel] = {}

    def use_session_settings(self, settings: SessionSettings) -> None:
        self._library.use_settings(settings)
        if unapplied := self._library.unapplied(settings):
            names = ", ".join(map(quoted, unapplied))
            _log.warning("%s: these session options do not apply to it: %s", self.name, names)

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        infos = super().compile(fused_nodes)
        if self._library.memory is not None:
            pairs = zip(infos, fused_nodes, strict=True)
            infos = [replace(info, device_slots=self._device_slots(fused)) for info, fused in pairs]
        if self._library.traits.verifies_indices(self.name):
            return infos
        watched = zip(infos, fused_nodes, strict=True)
        return [self._watched(info, fused) for info, fused in watched]

    def create_allocator(self) -> Allocator:
        return self._library.memory or super().create_allocator()

    def _device_slots(self, fused: FusedNode) -> DeviceSlots:
        """Return the inputs and outputs that a partition has in the library's memory.

        Empty for a context, whose inputs and outputs may differ from its node's.
        """
        compiled = self._compiled.get(fused.node.name)
        slots = getattr(compiled, "device_slots", None)
        if slots is None or self.context_node_of(fused) is not None:
            return DeviceSlots()
        guards = self._guards_of(fused.body)
        read = frozenset[str]() if guards is None else guards.read_values
        outputs = range(len(fused.body.outputs))
        return DeviceSlots(
            inputs=slots.inputs,
            outputs=slots.outputs.intersection(outputs),
            read_inputs=frozenset(
                slot for slot, name in enumerate(fused.body.inputs) if name in read
            ),
            read_outputs=frozenset(slot for slot in outputs if fused.body.outputs[slot] in read),
        )

    def _watched(self, info: NodeComputeInfo, fused: FusedNode) -> NodeComputeInfo:
        guards = self._guards_of(fused.body)
        if self._library.traits.verifies_runs and (guards is None or not guards.has_checks):
            return info
        return watched_partition(info, guards, self._standby_of(fused))

    def _standby_of(self, fused: FusedNode) -> StandbyPartition | None:
        """Return the numpy engine for refused runs; None if it may not stand in."""
        if (
            self.graph_engine is None
            or self._library.traits.verifies_runs
            or self.context_node_of(fused) is not None
            or self.session_settings.entries.get(NO_CPU_FALLBACK_ENTRY) == "1"
            or not can_stand_by(fused.body)
        ):
            return None
        forget_arrays(fused.body)
        self._standbys.append(StandbyPartition(fused.body, self.graph_engine, self.name))
        return self._standbys[-1]

    # --- claims -----------------------------------------------------------------------------------

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        if self.is_picked:
            self._claims.most_refusals = MOST_REFUSALS_UNNAMED
        claims = super().get_capability(viewer, types_of)
        if self.is_picked and viewer.graph.parent is None and not self._leaves_model:
            claims = self._most_or_none(viewer, claims)
        self._log_reasons(took_some=bool(claims))
        return claims

    def _most_or_none(
        self, viewer: GraphViewer, claims: list[ComputeCapability]
    ) -> list[ComputeCapability]:
        """Return claims of contexts, and the others worth taking if they are most of the model."""
        contexts = [claim for claim in claims if _is_of_contexts(viewer.graph, claim)]
        compiled = [claim for claim in claims if claim not in contexts]
        worthwhile = worth_taking(viewer.graph, [claim.node_indices for claim in compiled])
        if not worthwhile:
            self._leave_model()
        for position, claim in enumerate(compiled):
            if position not in worthwhile and claim.meta_def is not None:
                self._claimed.pop(claim.meta_def.name, None)
                self._claims.reasons_by_node |= dict.fromkeys(
                    claim.node_indices, TOO_SMALL if worthwhile else TOO_LITTLE
                )
        return [*contexts, *(compiled[position] for position in worthwhile)]

    def _leave_model(self) -> None:
        self._leaves_model = True
        self._claims.reasons[TOO_LITTLE] = None

    def _log_reasons(self, *, took_some: bool) -> None:
        """Log, once, why nodes were left; the plan has the reasons node by node."""
        if self._has_logged or not self._claims.reasons:
            return
        self._has_logged = True
        level = logging.INFO if self.is_picked else logging.WARNING
        outcome = "leaves nodes to other execution providers" if took_some else "takes no node"
        _log.log(level, "%s (%s) %s: %s", self.name, self.backend, outcome, self.refusal_text)

    def nodes_for_float32(
        self,
        viewer: GraphViewer,  # noqa: ARG002 - part of the interface
        types_of: Callable[[Node], Mapping[str, ElementType]],  # noqa: ARG002
    ) -> Collection[int]:
        """Return none: its library chooses the precision of each node itself."""
        return ()

    def supported_nodes(
        self,
        viewer: GraphViewer,
        types_of: Callable[[Node], Mapping[str, ElementType]],  # noqa: ARG002 - the library looks for itself
    ) -> Collection[int]:
        """Return all nodes but those that the library lacks or gets wrong.

        Nodes that bring foreign values in are left out, too.
        """
        if self._leaves_model:
            return ()
        self._library.opened()
        candidates = self._claims.candidates(viewer)
        if (
            self.is_picked
            and viewer.graph.parent is None
            and not worth_taking(viewer.graph, [candidates])
        ):
            self._leave_model()  # before anything is compiled
            return ()
        return candidates

    def claim_subgraphs(
        self, viewer: GraphViewer, supported: Collection[int]
    ) -> list[ComputeCapability | None]:
        name = partial(self._partition_name, viewer.graph)
        return [*self._claims.subgraphs(viewer, supported, name, self._try)]

    def _try(self, graph: Graph, claim: ComputeCapability) -> ClaimRefusal | None:
        """Compile a claim, or find it compiled; return None if the library took all of it."""
        assert claim.meta_def is not None
        nodes = [graph.node(index) for index in claim.node_indices]
        fused = fused_node_of(graph, nodes, claim.meta_def, self.name)
        caching = self._caching()
        if caching is None or self._library.describe_environment() is None:
            outcome = self._compile_claim(graph, nodes, fused)
        else:
            outcome = self._find_or_compile_claim(caching, graph, nodes, fused)
        if isinstance(outcome, ClaimRefusal):
            return outcome
        self._claimed[fused.node.name] = outcome
        return None

    def _find_or_compile_claim(
        self, caching: PartitionCache, graph: Graph, nodes: Sequence[Node], fused: FusedNode
    ) -> CompiledModel | ClaimRefusal:
        """Return the claim's entry in the cache, compiled or refused.

        If the cache has none, the claim is compiled now and put there.
        """
        descriptor, directory = self._cache_descriptor(fused), caching.cache.directory

        def find(is_locked: bool) -> CompiledModel | ClaimRefusal | None:
            refusal = read_refusal(directory, descriptor)
            if refusal is not None:
                return refusal
            is_there = caching.find(
                descriptor, fused, lambda entry: self._import(entry, fused), is_locked=is_locked
            )
            return None if is_there is None else self._compiled[fused.node.name]

        def make() -> CompiledModel | ClaimRefusal:
            made = self._compile_claim(graph, nodes, fused)
            if not isinstance(made, ClaimRefusal):
                self._compiled[fused.node.name] = made
                caching.keep(descriptor, fused, lambda: self._parts_of(made, fused))
            elif made.is_lasting:
                write_refusal(directory, descriptor, made)
            self._handed_over = None
            return made

        if caching.only_explains:
            outcome: CompiledModel | ClaimRefusal | None = read_refusal(directory, descriptor)
            if outcome is None:
                caching.note_outcome(descriptor, fused)
            return outcome or NotCompiled()
        caching.note_outcome(descriptor, fused)
        outcome = caching.once(descriptor, find, make)
        if isinstance(outcome, ClaimRefusal):
            self.cache_outcomes.pop()  # it is no partition
        self._compiled.pop(fused.node.name, None)  # until it is asked for
        return outcome

    def _compile_claim(
        self, graph: Graph, nodes: Sequence[Node], fused: FusedNode
    ) -> CompiledModel | ClaimRefusal:
        try:
            is_kept = self.ep_context.enable or self.ep_context.cache is not None
            return self._library.compile_model(replace(self._model_of(fused.body), is_kept=is_kept))
        except (
            LimitExceededError,
            InvalidSessionOptionError,
        ):  # the caller's error: no other provider helps
            raise
        except Exception as error:  # noqa: BLE001 - libraries raise what they like
            pass_on_handlers_error(error)
            return self._claims.blame.refusal(graph, nodes, error)

    @property
    def refusal_text(self) -> str:
        """Why it left nodes; "" if it left none."""
        reasons = [shortened(reason) for reason in self._claims.reasons]
        unshown_count = len(reasons) - MOST_NAMES_SHOWN
        unshown = [f"and {unshown_count} more"] if unshown_count > 0 else []
        return "; ".join([*reasons[:MOST_NAMES_SHOWN], *unshown])

    def get_refusal(self) -> str:
        return "" if self._compiled else self.refusal_text

    def get_node_refusals(self) -> Mapping[int, str]:
        return self._claims.reasons_by_node

    # --- compiling, keeping, loading --------------------------------------------------------------

    def _find_or_compile(self, fused: FusedNode) -> CompiledPartition:
        """Return the partition of the claim, which asked the cache already.

        A partition that another provider claimed asks it now.
        """
        return (
            self._compile(fused)
            if fused.node.name in self._claimed
            else super()._find_or_compile(fused)
        )

    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        """Return what the claim compiled; compile a partition that another provider claimed.

        Raises:
            CompileError: the library does not compile it.
        """
        compiled = self._claimed.pop(fused.node.name, None)
        if compiled is None:
            with self._as_compile_errors():
                compiled = self._library.compile_model(self._model_of(fused.body))
        self._compiled[fused.node.name] = compiled
        return compiled

    @contextlib.contextmanager
    def _as_compile_errors(self) -> Iterator[None]:
        """Raise CompileError for what the library raises; ortpkg's own errors pass."""
        try:
            yield
        except OrtpkgError:
            raise
        except Exception as error:
            pass_on_handlers_error(error)
            raise CompileError(compile_error(self.name, error), ep_name=self.name) from error

    def _cache_descriptor(self, fused: FusedNode) -> ContextDescriptor:
        descriptor = super()._cache_descriptor(fused)
        settings = (
            self._library.settings.of_compiling
            if self._library.traits.takes_session_entries
            else {}
        )
        guards = self._guards_of(fused.body)
        further = () if guards is None else (*guards.indices, *guards.shapes)
        # A kept context has further outputs for these; one of an earlier release lacks them.
        watched = {"watched": " ".join(further)} if further else {}
        options = {**descriptor.options, **settings, **watched}
        return replace(descriptor, options=MappingProxyType(options))

    def export_context(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, Part]:
        del compiled
        assert isinstance(self._library, ContextLibrary), "its description was asked for first"
        with self._as_compile_errors():
            parts = self._library.export_model(
                self._compiled[fused.node.name], self._model_of(fused.body)
            )
        self._note_info(parts)
        return parts

    def _note_info(self, parts: Mapping[str, Part]) -> None:
        """Remember the compatibility string that onnxruntime's provider would give to a context."""
        if self.context_form is not None and self.ep_context.for_onnxruntime:
            self._kept_info = self.context_form.compatibility_info(parts) or self._kept_info

    def complete_context(self, entry: ContextEntry, node: Node) -> ContextEntry:
        """Add names of inputs and outputs, and what another tool's context does not state.

        The latter is taken from this environment. Release and kind of device are compared as always
        if they are stated. If no release is stated, the library decides whether it takes the blob,
        first in a child process.
        """
        self._note_info(entry.parts)
        named = {**signature_part(node.inputs, node.outputs), **entry.parts}
        if not entry.is_foreign:
            return entry if len(named) == len(entry.parts) else replace(entry, parts=named)
        here = self.describe_environment()
        recorded = entry.descriptor
        version = recorded.sdk_version or ep_context_attributes(node).ep_sdk_version
        descriptor = replace(
            here,
            sdk_version=(
                here.sdk_version
                if not version or is_within_release(here.sdk_version, version)
                else version
            ),
            device=recorded.device or here.device,
        )
        return replace(entry, parts=named, descriptor=descriptor)

    def group_source(self, fused: FusedNode) -> NativeModel | None:
        return None if self._library.unshared_reason else self._model_of(fused.body)

    def finish_group(
        self, entries: Sequence[ContextEntry], first_offset: int
    ) -> Sequence[ContextEntry]:
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
        compiled = self._compiled[fused.node.name] = self._import_by_library(entry)
        return compiled

    def _import_by_library(self, entry: ContextEntry) -> CompiledModel:
        if entry.descriptor.weights_source:
            if isinstance(self._library, WeightlessLibrary):
                return self._library.import_member(entry.parts, entry.file)
            raise TypeError("its library loads no weightless contexts")
        if isinstance(self._library, ContextLibrary):
            return self._library.import_model(entry.parts, entry.file)
        raise TypeError("its library loads no contexts")

    def _tried_of_member(self, entry: ContextEntry) -> Mapping[str, Any]:
        """Return what the library sees of a group's members; it is the same for all of them.

        One trial is enough for equal results.
        """
        shared = {
            name: entry.digests[name] for name in (WEIGHTS, COMPILED) if name in entry.digests
        }
        library = self._library
        place_in_file = (
            library.group_place(entry.parts) if isinstance(library, GroupLibrary) else {}
        )
        return {**shared, **place_in_file}

    def describe_environment(self) -> ContextDescriptor:
        self._library.opened()
        environment = self._library.describe_environment()
        if environment is None:
            raise CompileError(
                f"{self.name} cannot keep what it compiled: it makes no contexts",
                ep_name=self.name,
            )
        return environment

    def find_mismatch(
        self, recorded: ContextDescriptor, here: ContextDescriptor
    ) -> ContextMismatch | None:
        """Return any difference but one of patch releases, if the library takes those."""
        versions = (release_of(descriptor.sdk_version) for descriptor in (recorded, here))
        # The cache's key has the settings, and the context was found by it.
        settings = self._library.settings.of_compiling
        if settings:
            options = {
                key: value for key, value in recorded.options.items() if settings.get(key) != value
            }
            recorded = replace(recorded, options=MappingProxyType(options))
        if self._library.traits.takes_patches and is_same_minor(*versions):
            recorded = replace(recorded, sdk_version=here.sdk_version)
        return find_mismatch(recorded, here)

    def get_compiled_model_compatibility_info(self, graph: Graph) -> str:  # noqa: ARG002 - the same for every model
        if self.ep_context.for_onnxruntime:
            return self._kept_info
        environment = self._library.describe_environment()
        return "" if environment is None else compatibility_text(environment, self._library.backend)

    def get_placement(self, fused_node: str) -> Sequence[BackendPlacement]:
        compiled = self._compiled.get(fused_node)
        return () if compiled is None else compiled.get_placement()

    def close(self) -> None:
        self._claimed.clear()
        self._compiled.clear()
        for standby in self._standbys:
            standby.release()
        self._library.close()

    def _guards_of(self, body: Graph) -> PartitionGuards | None:
        """Return the checks of a partition's indices.

        None if the library checks them, or a context is made: that has the model's outputs only.
        """
        verifies = self._library.traits.verifies_indices(self.name)
        return None if verifies or self.ep_context.enable else PartitionGuards(body)

    # --- handing over -----------------------------------------------------------------------------

    def _model_of(self, body: Graph) -> NativeModel:
        if self._handed_over is not None and self._handed_over[0] is body:
            return self._handed_over[1]
        model = native_model(body, self._guards_of(body), form=self._library.weight_form)
        if (
            self.ep_context.cache is not None
        ):  # keeping the compiled partition takes the model again, at once
            self._handed_over = body, model
        return model


def _is_of_contexts(graph: Graph, claim: ComputeCapability) -> bool:
    return any(is_ep_context(graph.node(index)) for index in claim.node_indices)
