"""Programs as JSON, strict and bounded: what a stranger wrote is refused with the place and reason.

The keys are the names of the dataclasses of :mod:`ortpkg.machine_code.program`, every one of them
given; sizes stand as :mod:`ortpkg.machine_code.size_format` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from ortpkg.documents.document_limits import DocumentLimits
from ortpkg.documents.json_documents import parse_document
from ortpkg.ep_names import LLVM_EP
from ortpkg.errors import EpContextError, PackageFormatError, quoted
from ortpkg.graph.types import ElementType
from ortpkg.machine_code.program import (
    ArenaBuffer,
    BufferUse,
    Condition,
    ConstantSpec,
    Guard,
    IndexReport,
    Program,
    Space,
    Step,
    TensorSpec,
)
from ortpkg.machine_code.program_checks import verify_program
from ortpkg.machine_code.size_format import size_from_json, size_to_json
from ortpkg.shapes.expressions import Size

ValueT = TypeVar("ValueT")

_DOCUMENT = "program of the machine code"
#: A real program has some hundreds of kilobytes.
_LIMITS = DocumentLimits(nbytes=64 << 20, values=8_000_000, string_length=1 << 16)
_FORM = 3
_KEYS = (
    "form",
    "target",
    "extras",
    "abi_version",
    "is_checked",
    "code_nbytes",
    "scratch_nbytes",
    "inputs",
    "outputs",
    "constants",
    "arena",
    "functions",
    "guards",
    "reports",
    "steps",
)


def dump_program(program: Program) -> bytes:
    """The program as JSON; equal programs give equal bytes, and :func:`load_program` reads them."""
    document = {
        "form": _FORM,
        "target": program.target,
        "extras": list(program.extras),
        "abi_version": program.abi_version,
        "is_checked": program.is_checked,
        "code_nbytes": program.code_nbytes,
        "scratch_nbytes": size_to_json(program.scratch_nbytes),
        "inputs": [_tensor_to_json(each) for each in program.inputs],
        "outputs": [_tensor_to_json(each) for each in program.outputs],
        "constants": [{"part": each.part, "nbytes": each.nbytes} for each in program.constants],
        "arena": [
            {
                "nbytes": size_to_json(each.nbytes),
                "first_step": each.first_step,
                "last_step": each.last_step,
            }
            for each in program.arena
        ],
        "functions": dict(sorted(program.functions.items())),
        "guards": [
            {
                "axes": [size_to_json(size) for size in each.axes],
                "margin": size_to_json(each.margin),
            }
            for each in program.guards
        ],
        "reports": [
            {"node": each.node, "size": size_to_json(each.size)} for each in program.reports
        ],
        "steps": [_step_to_json(each) for each in program.steps],
    }
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()


def load_program(data: bytes) -> Program:
    """The program that :func:`dump_program` wrote, verified.

    EpContextError where it is none, or could not be run as it says: it names the place.
    """
    try:
        document = parse_document(data, document=_DOCUMENT, limits=_LIMITS)
    except PackageFormatError as error:
        raise EpContextError(f"the {error}", ep_name=LLVM_EP) from error
    reader = _Fields(document, "", _KEYS)
    if (form := reader.number("form")) != _FORM:
        _fail("/form", f"is {form}; this version of ortpkg reads {_FORM}")
    program = Program(
        target=reader.text("target"),
        extras=reader.each("extras", _text),
        abi_version=reader.number("abi_version"),
        is_checked=reader.flag("is_checked"),
        code_nbytes=reader.number("code_nbytes"),
        scratch_nbytes=reader.size("scratch_nbytes"),
        inputs=reader.each("inputs", _tensor),
        outputs=reader.each("outputs", _tensor),
        constants=reader.each("constants", _constant),
        arena=reader.each("arena", _arena_buffer),
        functions=reader.offsets("functions"),
        guards=reader.each("guards", _guard),
        reports=reader.each("reports", _report),
        steps=reader.each("steps", _step),
    )
    verify_program(program)
    return program


def _tensor_to_json(spec: TensorSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "element_type": spec.element_type.name.lower(),
        "shape": [size_to_json(each) for each in spec.shape],
    }


def _step_to_json(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "kernel": step.kernel,
        "buffers": [
            {"space": each.space.value, "index": each.index, "offset": size_to_json(each.offset)}
            for each in step.buffers
        ],
        "sizes": [size_to_json(each) for each in step.sizes],
        "tile_count": size_to_json(step.tile_count),
        "wave_tiles": size_to_json(step.wave_tiles),
        "chunk": step.chunk,
        "cost_ps": size_to_json(step.cost_ps),
        "conditions": [
            {"size": size_to_json(each.size), "least": each.least, "most": each.most}
            for each in step.conditions
        ],
    }


def _fail(place: str, what: str) -> NoReturn:
    raise EpContextError(f"the {_DOCUMENT} is wrong at {quoted(place)}: it {what}", ep_name=LLVM_EP)


class _Fields:
    """The members of one object, which are these and no others; each is read as what it must be."""

    def __init__(self, value: object, place: str, keys: tuple[str, ...]) -> None:
        if not isinstance(value, dict):
            _fail(place, "is no object")
        if unknown := sorted(value.keys() - set(keys)):
            _fail(place, f"has the unknown key {quoted(unknown[0])}")
        if missing := [key for key in keys if key not in value]:
            _fail(place, f"lacks the key {quoted(missing[0])}")
        self._value: dict[str, Any] = value
        self._place = place

    def text(self, key: str) -> str:
        return _text(self._value[key], f"{self._place}/{key}")

    def number(self, key: str) -> int:
        return _number(self._value[key], f"{self._place}/{key}")

    def number_or_none(self, key: str) -> int | None:
        return None if self._value[key] is None else self.number(key)

    def flag(self, key: str) -> bool:
        value = self._value[key]
        if not isinstance(value, bool):
            _fail(f"{self._place}/{key}", "is neither true nor false")
        return value

    def size(self, key: str) -> Size:
        return _size(self._value[key], f"{self._place}/{key}")

    def each(self, key: str, read: Callable[[object, str], ValueT]) -> tuple[ValueT, ...]:
        value, place = self._value[key], f"{self._place}/{key}"
        if not isinstance(value, list):
            _fail(place, "is no list")
        return tuple(read(each, f"{place}/{index}") for index, each in enumerate(value))

    def offsets(self, key: str) -> Mapping[str, int]:
        value, place = self._value[key], f"{self._place}/{key}"
        if not isinstance(value, dict):
            _fail(place, "is no object")
        return MappingProxyType({name: _number(value[name], f"{place}/{name}") for name in value})


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        _fail(place, "is no text")
    return value


def _number(value: object, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        _fail(place, "is no whole number")
    return value


def _size(value: object, place: str) -> Size:
    try:
        return size_from_json(value)
    except ValueError as error:
        _fail(place, str(error))


def _tensor(value: object, place: str) -> TensorSpec:
    reader = _Fields(value, place, ("name", "element_type", "shape"))
    written = reader.text("element_type")
    if written != written.lower() or written.upper() not in ElementType.__members__:
        _fail(f"{place}/element_type", f"is {quoted(written)}, which is no element type")
    return TensorSpec(
        name=reader.text("name"),
        element_type=ElementType[written.upper()],
        shape=reader.each("shape", _size),
    )


def _constant(value: object, place: str) -> ConstantSpec:
    reader = _Fields(value, place, ("part", "nbytes"))
    return ConstantSpec(part=reader.text("part"), nbytes=reader.number("nbytes"))


def _arena_buffer(value: object, place: str) -> ArenaBuffer:
    reader = _Fields(value, place, ("nbytes", "first_step", "last_step"))
    return ArenaBuffer(
        nbytes=reader.size("nbytes"),
        first_step=reader.number("first_step"),
        last_step=reader.number("last_step"),
    )


def _guard(value: object, place: str) -> Guard:
    reader = _Fields(value, place, ("axes", "margin"))
    return Guard(axes=reader.each("axes", _size), margin=reader.size("margin"))


def _report(value: object, place: str) -> IndexReport:
    reader = _Fields(value, place, ("node", "size"))
    return IndexReport(node=reader.text("node"), size=reader.size("size"))


_SPACES = {space.value: space for space in Space}


def _buffer_use(value: object, place: str) -> BufferUse:
    reader = _Fields(value, place, ("space", "index", "offset"))
    written = reader.text("space")
    if written not in _SPACES:
        _fail(f"{place}/space", f"is {quoted(written)}, not one of {', '.join(_SPACES)}")
    return BufferUse(
        space=_SPACES[written], index=reader.number("index"), offset=reader.size("offset")
    )


def _condition(value: object, place: str) -> Condition:
    reader = _Fields(value, place, ("size", "least", "most"))
    return Condition(
        size=reader.size("size"),
        least=reader.number("least"),
        most=reader.number_or_none("most"),
    )


_STEP_KEYS = (
    "name",
    "kernel",
    "buffers",
    "sizes",
    "tile_count",
    "wave_tiles",
    "chunk",
    "cost_ps",
    "conditions",
)


def _step(value: object, place: str) -> Step:
    reader = _Fields(value, place, _STEP_KEYS)
    return Step(
        name=reader.text("name"),
        kernel=reader.text("kernel"),
        buffers=reader.each("buffers", _buffer_use),
        sizes=reader.each("sizes", _size),
        tile_count=reader.size("tile_count"),
        wave_tiles=reader.size("wave_tiles"),
        chunk=reader.number("chunk"),
        cost_ps=reader.size("cost_ps"),
        conditions=reader.each("conditions", _condition),
    )
