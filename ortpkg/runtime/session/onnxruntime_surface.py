"""Methods of onnxruntime's InferenceSession that build on ``run`` and other public methods only."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import SessionError, UsageError
from ortpkg.runtime.kernels.op_kernel import Value
from ortpkg.runtime.providers.device_memories import memory_named, numbers_of
from ortpkg.runtime.session.io_binding import IOBinding
from ortpkg.runtime.session.options import RunOptions
from ortpkg.runtime.session.session_answers import SessionAnswers
from ortpkg.runtime.session.values.device_values import NO_BORDERS, DeviceBorders
from ortpkg.runtime.session.values.memory_info import OrtMemoryInfo
from ortpkg.runtime.session.values.onnxruntime_enums import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
)
from ortpkg.runtime.session.values.ort_device import OrtDevice, check_is_host
from ortpkg.runtime.session.values.ort_ep_device import OrtEpDevice, offered_ep_devices
from ortpkg.runtime.session.values.ort_value import OrtValue
from ortpkg.runtime.session.values.ort_value_vector import OrtValueVector

#: Config entry of ONNX Runtime: "1" lets a session report which provider runs which nodes.
RECORD_ASSIGNMENT_ENTRY = "session.record_ep_graph_assignment_info"


@dataclass(frozen=True, slots=True)
class OrtEpAssignedNode:
    """A node that a provider runs.

    Attributes:
        name, op_type: the node's name and operator.
        domain: the operator's domain; "" for ONNX's own.
    """

    name: str
    op_type: str
    domain: str = ""


@dataclass(frozen=True, slots=True)
class OrtEpAssignedSubgraph:
    """Nodes that a provider runs, or has compiled into one.

    Attributes:
        ep_name: name of the execution provider.
        nodes: the nodes in order.
    """

    ep_name: str
    nodes: tuple[OrtEpAssignedNode, ...]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """Return the nodes as a new list."""
        return list(self.nodes)


class OnnxruntimeSurface(SessionAnswers):
    """Base of :class:`~ortpkg.runtime.session.inference_session.InferenceSession`."""

    @abstractmethod
    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Value]:
        """Run the model once; see :meth:`InferenceSession.run`."""

    # --- running ----------------------------------------------------------------------------------

    def io_binding(self) -> IOBinding:
        """Return a new, empty binding of inputs and outputs."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run on bound inputs, into bound outputs.

        Raises:
            UsageError: the binding belongs to another session, or no output is bound.
        """
        if iobinding.session is not self:
            raise UsageError(
                "the binding is another session's; a session runs on bindings of its own"
                " io_binding()"
            )
        names = iobinding.output_names
        if not names:
            raise UsageError("no output is bound; bind at least one before the run")
        iobinding.take_results(
            self._run_bound(names, iobinding.inputs, iobinding.targets, run_options)
        )

    def _run_bound(
        self,
        output_names: Sequence[str],
        input_feed: Mapping[str, Any],
        _targets: Mapping[str, object],
        run_options: RunOptions | None,
    ) -> list[Value]:
        """Run the model, computing into the memory that is bound to outputs if possible."""
        return self.run(output_names, input_feed, run_options)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Run the model with OrtValues as inputs and outputs; see :meth:`run`."""
        return [
            OrtValue(result)
            for result in self.run(output_names, input_dict_ort_values, run_options)
        ]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: OrtValueVector,
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Sequence[OrtDevice],
    ) -> None:
        """Run on vectors of values.

        Outputs are added to an empty ``fetches``, or written into the tensors in it.

        Raises:
            UsageError: the numbers of names, values and devices differ, or a device is not the CPU.
        """
        if len(feeds) != len(feed_names) or len(fetch_devices) != len(fetch_names):
            raise UsageError(
                f"{len(feed_names)} names of inputs have {len(feeds)} values, {len(fetch_names)}"
                f" names of outputs have {len(fetch_devices)} devices; each has one"
            )
        if len(fetches) not in (0, len(fetch_names)):
            raise UsageError(
                f"{len(fetches)} tensors were given for {len(fetch_names)} outputs; give all or"
                " none"
            )
        for device in fetch_devices:
            check_is_host(device)
        results = self.run(fetch_names, dict(zip(feed_names, feeds, strict=True)), run_options)
        if not len(fetches):
            for result in results:
                fetches.push_back(OrtValue(result))
            return
        for target, result in zip(fetches, results, strict=True):
            target.update_inplace(OrtValue(result))

    # --- asking -----------------------------------------------------------------------------------

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return the memory of each input, in order: the CPU's or a device's."""
        memories = self.get_device_borders().inputs
        return [_memory_info(memories.get(value.name, "")) for value in self.get_inputs()]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return the memory of each output, in order: the CPU's or a device's."""
        memories = self.get_device_borders().outputs
        return [_memory_info(memories.get(value.name, "")) for value in self.get_outputs()]

    def get_device_borders(self) -> DeviceBorders:
        """Return the inputs and outputs that can stay on a device, with their memories."""
        return NO_BORDERS

    def get_input_epdevices(self) -> list[OrtEpDevice | None]:
        """Return the device on which each input is expected: the CPU provider's.

        An entry is None if the machine's CPU is unknown.
        """
        cpu = next((device for device in offered_ep_devices() if device.ep_name == CPU_EP), None)
        return [cpu for _ in self.get_inputs()]

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """Return which provider runs which nodes, grouping the nodes of a compiled sub-graph.

        :meth:`get_partitions` returns this without a config entry.

        Raises:
            SessionError: the config entry ``session.record_ep_graph_assignment_info`` is not "1".
        """
        if self.get_session_options().config_entries.get(RECORD_ASSIGNMENT_ENTRY) != "1":
            raise SessionError(
                f'set the config entry {RECORD_ASSIGNMENT_ENTRY} to "1" before the session is made'
            )
        subgraphs = []
        for partition in self.get_partitions():
            nodes = [
                OrtEpAssignedNode(*node)
                for node in zip(
                    partition.node_names, partition.op_types, partition.domains, strict=True
                )
            ]
            groups = [tuple(nodes)] if partition.fused_node else [(node,) for node in nodes]
            subgraphs += [OrtEpAssignedSubgraph(partition.provider, group) for group in groups]
        return subgraphs

    # --- devices ----------------------------------------------------------------------------------

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: npt.DTypeLike | int,
        device_type: str,
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """Return an uninitialized tensor; see :meth:`OrtValue.ortvalue_from_shape_and_type`."""
        return OrtValue.ortvalue_from_shape_and_type(
            shape, element_type, device_type, device_id, vendor_id
        )

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Accept options that no provider here has, as onnxruntime's providers without them do.

        Raises:
            UsageError: no options.
        """
        if not options:
            raise UsageError("set_ep_dynamic_options takes at least one option")

    def get_tuning_results(self) -> list[Any]:
        """Return no results: no provider here tunes its kernels."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Ignore ``results``, which no provider here can use.

        Raises:
            UsageError: there are results, and ``error_on_invalid`` is set.
        """
        if results and error_on_invalid:
            raise UsageError("no execution provider here takes tuning results")

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Do nothing: no provider here captures graphs."""


def _memory_info(memory: str) -> OrtMemoryInfo:
    """Return the memory info of an open memory; the CPU's for ""."""
    allocator = memory_named(memory) if memory else None
    numbers = None if allocator is None else numbers_of(allocator)
    if numbers is None:
        return _host_memory()
    return OrtMemoryInfo.create_v2(
        memory,
        OrtMemoryInfoDeviceType(numbers.device_type),
        numbers.vendor_id,
        numbers.device_id,
        OrtDeviceMemoryType.DEFAULT,
        0,
        OrtAllocatorType.ORT_DEVICE_ALLOCATOR,
    )


def _host_memory() -> OrtMemoryInfo:
    return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)
