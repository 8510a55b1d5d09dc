"""Merges several models into one OpenVINO model, so that they share weights in kernels' layouts.

In OpenVINO 2026, a blob of ``CACHE_MODE=OPTIMIZE_SIZE`` has no weights but offsets into
``WEIGHTS_PATH``, any file, which is mapped. But the CPU plug-in then copies most weights into
layouts of its kernels, once per compiled model, so that weightless models alone still take one set
of weights each. Within one compiled model that copy is made once per weight. So each model of the
group becomes the branch of an ``If`` with a selector: a run computes one branch, the others pass
empty tensors. Weights lie in one file, in which OpenVINO's serialization stores each once.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.ep_context.ep_context_checks import PartsFile
from ortpkg.runtime.providers.native_library import (
    COMPILED,
    WEIGHTS,
    GroupParts,
    NativeModel,
    Part,
    required_part,
)
from ortpkg.runtime.providers.openvino_memory import lent_array, port_of
from ortpkg.runtime.providers.openvino_reading import read_onnx
from ortpkg.runtime.providers.quiet_openvino import openvino
from ortpkg.runtime.providers.quiet_openvino import operations as ops

_MEMBER = "member"
_MOST_MEMBER_NBYTES = 1 << 20
_WEIGHTLESS = {"CACHE_MODE": "OPTIMIZE_SIZE"}
#: Largest share of the models' separate weights at which compiling them together is worth it.
_MOST_OF_UNSHARED = 0.9
#: A blob with more than this share of the weights is not weightless; small groups are not checked.
_MOST_IN_BLOB, _LEAST_WEIGHTS_NBYTES = 0.5, 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Positions of a model's inputs and outputs among those of the compiled model.

    Attributes:
        inputs, outputs: positions, in the order of the ONNX model.
        constants: OpenVINO's tensors for other inputs, the same in each run, by position.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: Mapping[int, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """One model of a written group: positions of its ports, and its weights' offset."""

    selector: int
    selector_count: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    weights_offset: int

    def to_part(self) -> Part:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()


class PooledRequest:
    """Infer request, with its own input tensors for the slots that callers' arrays took."""

    def __init__(self, infer_request: Any) -> None:
        self.infer_request = infer_request
        self.own_inputs: dict[int, Any] = {}


class RequestPool:
    """Infer requests of one compiled model, each of which serves one call at a time.

    Members of a group share them, since each has memory for all of them.
    """

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._idle: list[PooledRequest] = []
        self._lock = threading.Lock()

    def take(self, ports: Ports) -> PooledRequest:
        """Return a request that computes the model with these ports."""
        with self._lock:
            request = self._idle.pop() if self._idle else None
        if request is None:
            request = PooledRequest(self._compiled.create_infer_request())
        for slot, tensor in ports.constants.items():
            request.infer_request.set_input_tensor(slot, tensor)
        if ports.constants:
            for slot in ports.inputs:
                request.own_inputs.setdefault(slot, request.infer_request.get_input_tensor(slot))
        return request

    def give_back(self, request: PooledRequest, ports: Ports) -> None:
        """Take back a request whose call has ended well."""
        if ports.constants:
            for slot in (
                ports.inputs
            ):  # another member's call may come next, and read memory that this caller then freed
                request.infer_request.set_input_tensor(slot, request.own_inputs[slot])
        with self._lock:
            self._idle.append(request)


class SharedCompiledModels:
    """Compiled models of a group, once in this process for all sessions on one of them.

    Attributes:
        compiled: OpenVINO's model.
        requests: infer requests of all members.
    """

    def __init__(self, compiled: Any, keeps: object) -> None:
        self.compiled = compiled
        self.requests = RequestPool(compiled)
        self._keeps = keeps


_GROUPS: WeakValueDictionary[object, SharedCompiledModels] = WeakValueDictionary()
_GROUPS_LOCK = threading.Lock()


def export_group(
    core: Any,
    models: Sequence[NativeModel],
    weights_offset: int,
    device: str,
    properties: Mapping[str, str],
) -> GroupParts:
    """Compile the models together; return their parts.

    Raises:
        ValueError: they have next to no weights in common, or this OpenVINO keeps weights in its
            blobs all the same.
        Exception: anything that OpenVINO raises.
    """
    read = [_read(core, model) for model in models]
    merged, members = _merge(read, models, weights_offset)
    unshared_nbytes = sum(map(_constant_nbytes, read))
    with tempfile.TemporaryDirectory(prefix="ortpkg-") as folder:
        xml_path, bin_path = Path(folder, "group.xml"), Path(folder, "group.bin")
        openvino.serialize(merged, str(xml_path), str(bin_path))
        nbytes = bin_path.stat().st_size
        if nbytes > _MOST_OF_UNSHARED * unshared_nbytes:
            raise ValueError("the models of the group have next to no weights in common")
        text = _with_offset(xml_path.read_bytes(), weights_offset)
        placed = np.zeros(weights_offset + nbytes, dtype=np.uint8)
        with bin_path.open("rb") as file:
            _read_into(file, placed[weights_offset:])
    del merged, read
    # For the serialized model OpenVINO knows each weight's offset in a file.
    source = core.read_model(text, openvino.Tensor(placed, shared_memory=True))
    blob = (
        core.compile_model(source, device, {**properties, **_WEIGHTLESS}).export_model().getbuffer()
    )
    if nbytes > _LEAST_WEIGHTS_NBYTES and len(blob) > _MOST_IN_BLOB * nbytes:
        raise ValueError(
            f"OpenVINO {openvino.get_version()} keeps weights in blobs whatever it is told"
        )
    parts = [{_MEMBER: member.to_part()} for member in members]
    return GroupParts(
        weights=placed.data[weights_offset:], compiled=memoryview(blob), members=parts
    )


def import_member(
    core: Any,
    parts: Mapping[str, Part],
    file: PartsFile | None,
    device: str,
    properties: Mapping[str, str],
) -> tuple[SharedCompiledModels, Ports]:
    """Return one model of a group; load the group unless a session of this process has it.

    Raises:
        ValueError: the parts are not those that were written.
        Exception: anything that OpenVINO raises.
    """
    member = _member_from(required_part(parts, _MEMBER))
    compiled_part, weights = required_part(parts, COMPILED), required_part(parts, WEIGHTS)
    location: object = (
        (_address(weights), _address(compiled_part))
        if file is None
        else (file.stamp, file.offsets.get(WEIGHTS), file.offsets.get(COMPILED))
    )
    key = (location, member.weights_offset, device, tuple(sorted(properties.items())))
    with _GROUPS_LOCK:
        group = _GROUPS.get(key)
        if group is None:
            blob = openvino.Tensor(lent_array(compiled_part), shared_memory=True)
            is_in_place = file is not None and file.offsets.get(WEIGHTS) == member.weights_offset
            if file is not None and is_in_place:
                compiled = core.import_model(
                    blob, device, _import_properties(properties, file.path)
                )
                if not file.is_same:
                    raise ValueError(f"{quoted(file.path)} was replaced while it was being loaded")
            else:
                with _placed_weights(weights, member.weights_offset) as path:
                    compiled = core.import_model(blob, device, _import_properties(properties, path))
            group = SharedCompiledModels(compiled, (blob, weights))
            _GROUPS[key] = group
    return group, _ports(member, group.compiled)


def group_place(parts: Mapping[str, Part]) -> Mapping[str, int]:
    """Return the offset of the group's weights that a member states.

    Raises:
        ValueError: the member is not described.
    """
    return {"weights_offset": _member_from(required_part(parts, _MEMBER)).weights_offset}


def _import_properties(properties: Mapping[str, str], path: Path) -> dict[str, str]:
    return {**properties, **_WEIGHTLESS, "WEIGHTS_PATH": str(path)}


def _read(core: Any, model: NativeModel) -> Any:
    read = read_onnx(core, model)
    # Constants that compiling would fold are folded here, so that models can share the result, too.
    with contextlib.suppress(ImportError):  # it is not in OpenVINO's documented interface
        from openvino._offline_transformations import apply_moc_transformations

        apply_moc_transformations(read, cf=True)
    return read


def _merge(
    read: Sequence[Any], models: Sequence[NativeModel], weights_offset: int
) -> tuple[openvino.Model, list[_Member]]:
    selectors = [
        ops.parameter([], np.bool_, name=f"selector{number}") for number in range(len(read))
    ]
    parameters: list[Any] = []
    results: list[Any] = []
    members = []
    for number, (inner, model) in enumerate(zip(read, models, strict=True)):
        members.append(
            _Member(
                selector=number,
                selector_count=len(read),
                inputs=tuple(
                    len(read) + len(parameters) + port_of(inner.inputs, name)
                    for name in model.inputs
                ),
                outputs=tuple(
                    len(results) + port_of(inner.outputs, name) for name in model.outputs
                ),
                weights_offset=weights_offset,
            )
        )
        outer, outputs = _as_branch(inner, selectors[number])
        parameters += outer
        results += [ops.result(output) for output in outputs]
    return openvino.Model(results, [*selectors, *parameters], "group"), members


def _as_branch(inner: Any, selector: Any) -> tuple[list[Any], list[Any]]:
    """Return parameters around a model, and its outputs, empty ones if the selector is false."""
    branch = ops.if_op(selector)
    nothing = [ops.result(ops.constant(_empty(result))) for result in inner.get_results()]
    branch.set_then_body(inner)
    branch.set_else_body(openvino.Model(nothing, [], "nothing"))
    outer = []
    for parameter in inner.get_parameters():
        outer.append(ops.parameter(parameter.get_partial_shape(), parameter.get_element_type()))
        branch.set_input(outer[-1].output(0), parameter, None)
    return outer, [
        branch.set_output(made, empty)
        for made, empty in zip(inner.get_results(), nothing, strict=True)
    ]


def _empty(result: Any) -> Any:
    rank = result.input(0).get_partial_shape().rank
    shape = [0] * (rank.get_length() if rank.is_static else 1)
    return openvino.Tensor(result.input(0).get_element_type(), openvino.Shape(shape))


def _constant_nbytes(model: Any) -> int:
    constants = (node for node in model.get_ops() if node.get_type_name() == "Constant")
    return sum(constant.get_byte_size() for constant in constants)


def _with_offset(text: bytes, weights_offset: int) -> bytes:
    """Return the serialized model with its weights that much further on in their file."""
    root = ET.fromstring(text)  # noqa: S314 - OpenVINO just wrote it
    for layer in root.iter("layer"):
        data = layer.find("data")
        if layer.get("type") == "Const" and data is not None:
            data.set("offset", str(int(data.get("offset", "0")) + weights_offset))
    return ET.tostring(root)


def _read_into(file: BufferedReader, array: np.ndarray[Any, Any]) -> None:
    if file.readinto(array.data) != array.nbytes:
        raise OSError("the serialized weights are shorter than they were")


@contextlib.contextmanager
def _placed_weights(weights: Part, weights_offset: int) -> Iterator[Path]:
    """Yield the path of a file with the weights at that offset, until OpenVINO has mapped it."""
    with tempfile.TemporaryDirectory(prefix="ortpkg-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "weights.bin")
        with path.open("wb") as file:
            file.seek(weights_offset)
            file.write(weights)
        yield path


def _member_from(part: Part) -> _Member:
    if memoryview(part).nbytes > _MOST_MEMBER_NBYTES:
        raise ValueError("the member of the group is described at too great a length")
    document = json.loads(bytes(part))
    try:
        numbers = [document[name] for name in ("selector", "selector_count", "weights_offset")]
        ports = [document[name] for name in ("inputs", "outputs")]
    except (KeyError, TypeError) as error:
        raise ValueError(f"the member of the group is not described: {error}") from error
    if not all(isinstance(slots, list) for slots in ports) or not all(
        type(number) is int and 0 <= number < 1 << 48 for number in (*numbers, *ports[0], *ports[1])
    ):
        raise ValueError("the member of the group is not described by numbers from 0")
    return _Member(
        selector=numbers[0],
        selector_count=numbers[1],
        weights_offset=numbers[2],
        inputs=tuple(ports[0]),
        outputs=tuple(ports[1]),
    )


def _ports(member: _Member, compiled: Any) -> Ports:
    inputs, outputs = len(compiled.inputs), len(compiled.outputs)
    is_right = member.selector < member.selector_count <= inputs
    if (
        not is_right
        or max(member.inputs, default=0) >= inputs
        or max(member.outputs, default=0) >= outputs
    ):
        raise ValueError(
            f"the member of the group has other ports than its {inputs} inputs and {outputs}"
            " outputs"
        )
    constants = {
        number: openvino.Tensor(np.array(number == member.selector))
        for number in range(member.selector_count)
    }
    return Ports(inputs=member.inputs, outputs=member.outputs, constants=constants)


def _address(part: Part) -> tuple[int, int]:
    view = np.frombuffer(part, dtype=np.uint8)
    return view.ctypes.data, view.nbytes
