"""Methods of onnxruntime's InferenceSession that need ``run`` and its answers on itself only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ortpkg.engine.partition import Partition
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import SessionError, UsageError
from ortpkg.kernels.op_kernel import Value
from ortpkg.providers.device_memories import memory_named, numbers_of
from ortpkg.session.device_values import NO_BORDERS, DeviceBorders
from ortpkg.session.io_binding import IOBinding
from ortpkg.session.memory_info import OrtMemoryInfo
from ortpkg.session.node_args import NodeArg
from ortpkg.session.onnxruntime_enums import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
)
from ortpkg.session.options import RunOptions, SessionOptions
from ortpkg.session.ort_device import OrtDevice, check_is_host
from ortpkg.session.ort_ep_device import OrtEpDevice, offered_ep_devices
from ortpkg.session.ort_value import OrtValue
from ortpkg.session.ort_value_vector import OrtValueVector

#: Config entry of ONNX Runtime: "1" lets a session say which provider runs which nodes.
RECORD_ASSIGNMENT_ENTRY = "session.record_ep_graph_assignment_info"


@dataclass(frozen=True, slots=True)
class OrtEpAssignedNode:
    """A node that a provider runs: its name, op_type and domain; ONNX's own domain is ""."""

    name: str
    op_type: str
    domain: str = ""


@dataclass(frozen=True, slots=True)
class OrtEpAssignedSubgraph:
    """Nodes that a provider runs or compiled into one: ``ep_name``, and ``nodes`` in order."""

    ep_name: str
    nodes: tuple[OrtEpAssignedNode, ...]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """Its nodes; ``nodes`` as a list of the caller's own."""
        return list(self.nodes)


class OnnxruntimeSurface(ABC):
    """Base of :class:`~ortpkg.session.inference_session.InferenceSession`."""

    @abstractmethod
    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Value]:
        """Runs the model once; see the session's own."""

    @abstractmethod
    def get_inputs(self) -> list[NodeArg]:
        """Inputs that must be fed."""

    @abstractmethod
    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs, in its order."""

    @abstractmethod
    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs with a default value."""

    @abstractmethod
    def get_partitions(self) -> tuple[Partition, ...]:
        """Which provider runs which nodes."""

    @abstractmethod
    def get_session_options(self) -> SessionOptions:
        """A copy of the options that the session was made with."""

    # --- running ----------------------------------------------------------------------------------

    def io_binding(self) -> IOBinding:
        """A new, empty binding of inputs and outputs."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Runs on bound inputs, into bound outputs.

        UsageError for the binding of another session.
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
        """:meth:`run`, with the memory that is bound to outputs.

        Who cannot compute in that leaves it alone.
        """
        return self.run(output_names, input_feed, run_options)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """:meth:`run` with OrtValues in and out."""
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
        """Runs on vectors of values.

        Outputs are added to an empty ``fetches``, or written into the tensors in it.

        Raises UsageError where names, values and devices are not as many, or a device is not the
        CPU.
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
        there = self.get_device_borders().inputs
        return [_memory_info(there.get(value.name, "")) for value in self.get_inputs()]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return the memory of each output, in order: the CPU's or a device's."""
        there = self.get_device_borders().outputs
        return [_memory_info(there.get(value.name, "")) for value in self.get_outputs()]

    def get_device_borders(self) -> DeviceBorders:
        """Return the inputs and outputs that can stay on a device, with their memories."""
        return NO_BORDERS

    def get_input_epdevices(self) -> list[OrtEpDevice | None]:
        """Whose device each input is wanted on: the CPU provider's.

        None where the machine's CPU is not known.
        """
        cpu = next((device for device in offered_ep_devices() if device.ep_name == CPU_EP), None)
        return [cpu for _ in self.get_inputs()]

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """Which provider runs which nodes: a compiled sub-graph's together, others one by one.

        :meth:`get_partitions` says it without being asked before.

        Raises SessionError without the config entry ``session.record_ep_graph_assignment_info``.
        """
        if self.get_session_options().config_entries.get(RECORD_ASSIGNMENT_ENTRY) != "1":
            raise SessionError(
                f'set the config entry {RECORD_ASSIGNMENT_ENTRY} to "1" before the session is made'
            )
        found = []
        for each in self.get_partitions():
            nodes = [
                OrtEpAssignedNode(*node)
                for node in zip(each.node_names, each.op_types, each.domains, strict=True)
            ]
            together = [tuple(nodes)] if each.fused_node else [(node,) for node in nodes]
            found += [OrtEpAssignedSubgraph(each.provider, group) for group in together]
        return found

    # --- devices ----------------------------------------------------------------------------------

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: npt.DTypeLike | int,
        device_type: str,
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """An uninitialized tensor, as :meth:`OrtValue.ortvalue_from_shape_and_type` makes it."""
        return OrtValue.ortvalue_from_shape_and_type(
            shape, element_type, device_type, device_id, vendor_id
        )

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Accepted as by providers that have no such options, which are all of those here.

        UsageError for none.
        """
        if not options:
            raise UsageError("set_ep_dynamic_options takes at least one option")

    def get_tuning_results(self) -> list[Any]:
        """None: no provider here tunes its kernels."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Ignores ``results``, which no provider here can use.

        UsageError for any with ``error_on_invalid``.
        """
        if results and error_on_invalid:
            raise UsageError("no execution provider here takes tuning results")

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:  # noqa: B027 - it is this empty
        """Does nothing: no provider here captures graphs."""


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
