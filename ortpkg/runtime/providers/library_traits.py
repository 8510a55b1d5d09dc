"""Facts about native libraries before they are loaded, also about those in child processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.versions import parse_version
from ortpkg.graph.graph import Graph
from ortpkg.graph.types import ElementType
from ortpkg.runtime.providers.onnxruntime_differences import onnxruntime_faults
from ortpkg.runtime.providers.openvino_differences import openvino_faults
from ortpkg.runtime.providers.session_settings import OBEYED_BY_SESSION, SessionSettings

#: Element types that numpy has by itself: they cross the border to a library without conversion.
NUMERIC_TYPES: frozenset[ElementType] = frozenset(
    {
        ElementType.FLOAT,
        ElementType.DOUBLE,
        ElementType.FLOAT16,
        ElementType.INT8,
        ElementType.INT16,
        ElementType.INT32,
        ElementType.INT64,
        ElementType.UINT8,
        ElementType.UINT16,
        ElementType.UINT32,
        ElementType.UINT64,
        ElementType.BOOL,
    }
)

#: The first release of onnxruntime that reads external data of a model from memory.
_READS_FILES_SINCE = (1, 21)
#: Version at the end of an operator's name, in OpenVINO's messages.
_VERSION = re.compile(r"-\d+$")

#: An operator: domain ("" for ONNX's own), name.
Operator = tuple[str, str]


def _no_faults(graph: Graph) -> Mapping[int, str]:
    del graph
    return {}


class WeightForm(Enum):
    """Ways to pass a model's large weights to a library."""

    #: The message contains them, up to protobuf's limit.
    INSIDE = "inside"
    #: The message names the file and offset of weights in files; others are passed by name.
    EXTERNAL = "external"
    #: All are passed by name.
    NAMED = "named"
    #: They are inputs of the model's graph, passed by name, that the library makes constants.
    INPUTS = "inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryTraits:
    """Facts about a native library that its provider must know.

    Attributes:
        border_types: element types that may cross the border to it.
        session_values: options of the session that it obeys, by onnxruntime's names; None for all.
        values_of_device: options that it obeys on one device only, by that device's name.
        takes_session_entries: True if it reads onnxruntime's config entries.
        takes_patches: True if contexts of another release with the same major and minor version
            load.
        operator_lists: patterns in its messages: a list of operators that it lacks, as group
            ``names``, separated by commas.
        operators: patterns in its messages: one such operator, as groups ``domain`` and ``name``.
        faults: returns the nodes of a graph that it computes wrongly: node index → description.
        verifies_runs: True if it reports a run that ONNX defines as an error, and says why.
        index_verifiers: its execution providers that refuse an index out of range; None for all.
            Kernels of GPUs read somewhere else, or return zeros.
        weight_form: form of weights beside the message of a model; by default they are inside it.
    """

    border_types: frozenset[ElementType] = NUMERIC_TYPES
    session_values: frozenset[str] | None = frozenset()
    values_of_device: Mapping[str, frozenset[str]] = field(default_factory=dict)
    takes_session_entries: bool = False
    takes_patches: bool = False
    operator_lists: tuple[re.Pattern[str], ...] = ()
    operators: tuple[re.Pattern[str], ...] = ()
    faults: Callable[[Graph], Mapping[int, str]] = _no_faults
    verifies_runs: bool = True
    index_verifiers: frozenset[str] | None = None
    weight_form: WeightForm = WeightForm.INSIDE

    def verifies_indices(self, ep_name: str) -> bool:
        """Return True if that execution provider refuses an index out of range."""
        verifiers = self.index_verifiers
        return self.verifies_runs and (verifiers is None or ep_name in verifiers)

    def unapplied(self, settings: SessionSettings, *, device: str = "") -> tuple[str, ...]:
        """Return the names of settings that the library does not obey on that device."""
        obeyed = self.session_values
        if obeyed is not None:
            obeyed |= self.values_of_device.get(device, frozenset())
        values = (
            ()
            if obeyed is None
            else (name for name in settings.values if name not in obeyed | OBEYED_BY_SESSION)
        )
        entries = () if self.takes_session_entries else settings.entries
        return (*values, *entries, *settings.other_entries)

    def unknown_operators(self, message: str) -> frozenset[Operator]:
        """Return the operators that the library says it lacks; empty for any other message."""
        pairs = [
            (match["domain"], match["name"])
            for pattern in self.operators
            for match in pattern.finditer(message)
        ]
        for pattern in self.operator_lists:
            for match in pattern.finditer(message):
                names = (_VERSION.sub("", name.strip()) for name in match["names"].split(","))
                pairs += [name.rpartition(".")[::2] for name in names]
        return frozenset(
            ("" if domain == "ai.onnx" else domain or "", name) for domain, name in pairs if name
        )


#: Backend → traits; a library without an entry is asked for nothing but to compile.
LIBRARY_TRAITS: Mapping[str, LibraryTraits] = {
    "openvino": LibraryTraits(
        values_of_device={"CPU": frozenset({"intra_op_num_threads"})},
        # "No conversion rule found for operations: acme.Frobnicate, Unique, Det-21": with the
        # opset's version, or not
        operator_lists=(
            re.compile(
                r"No conversion rule found for operations: (?P<names>[\w.\-]+(?:, [\w.\-]+)*)"
            ),
        ),
        faults=openvino_faults,
        verifies_runs=False,
        weight_form=WeightForm.INPUTS,
    ),
    "onnxruntime": LibraryTraits(
        border_types=NUMERIC_TYPES | {ElementType.STRING},
        session_values=None,
        takes_session_entries=True,
        takes_patches=True,
        faults=onnxruntime_faults,
        index_verifiers=frozenset({CPU_EP}),
        weight_form=WeightForm.EXTERNAL,
        operators=(
            # "Fatal error: acme:Frobnicate(-1) is not a registered function/op"
            re.compile(
                r"(?:(?P<domain>[\w.\-]*):)?(?P<name>\w+)\(-?\d+\) is not a registered function/op"
            ),
            # "NOT_IMPLEMENTED : Could not find an implementation for Sin(7) node with name ''"
            re.compile(
                r"Could not find an implementation for (?:(?P<domain>[\w.\-]+)[.:])?(?P<name>\w+)\("
            ),
        ),
    ),
}


def onnxruntime_weight_form(version: str) -> WeightForm:
    """Return the form in which a release of onnxruntime takes weights.

    Before 1.21 it reads no files for a model from memory.
    """
    parsed = parse_version(version)
    is_older = parsed is not None and parsed.release < _READS_FILES_SINCE
    return WeightForm.NAMED if is_older else WeightForm.EXTERNAL
