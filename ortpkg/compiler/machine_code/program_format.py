"""Programs as JSON, strict and bounded: untrusted data is refused with JSON pointer and reason.

The keys are the names of the dataclasses of :mod:`ortpkg.compiler.machine_code.program`, all of
them required; :mod:`ortpkg.compiler.machine_code.size_format` describes sizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from ortpkg.compiler.machine_code.program import (
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
from ortpkg.compiler.machine_code.program_checks import verify_program
from ortpkg.compiler.machine_code.size_format import size_from_json, size_to_json
from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import EpContextError, PackageFormatError, quoted
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.types import ElementType

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
    """Return the program as JSON for :func:`load_program`; equal programs give equal bytes."""
    document = {
        "form": _FORM,
        "target": program.target,
        "extras": list(program.extras),
        "abi_version": program.abi_version,
        "is_checked": program.is_checked,
        "code_nbytes": program.code_nbytes,
        "scratch_nbytes": size_to_json(program.scratch_nbytes),
        "inputs": [_tensor_to_json(spec) for spec in program.inputs],
        "outputs": [_tensor_to_json(spec) for spec in program.outputs],
        "constants": [
            {"part": constant.part, "nbytes": constant.nbytes} for constant in program.constants
        ],
        "arena": [
            {
                "nbytes": size_to_json(buffer.nbytes),
                "first_step": buffer.first_step,
                "last_step": buffer.last_step,
            }
            for buffer in program.arena
        ],
        "functions": dict(sorted(program.functions.items())),
        "guards": [
            {
                "axes": [size_to_json(size) for size in guard.axes],
                "margin": size_to_json(guard.margin),
            }
            for guard in program.guards
        ],
        "reports": [
            {"node": report.node, "size": size_to_json(report.size)} for report in program.reports
        ],
        "steps": [_step_to_json(step) for step in program.steps],
    }
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()


def load_program(data: bytes) -> Program:
    """Return the verified program that :func:`dump_program` wrote.

    Raises:
        EpContextError: names the JSON pointer at fault, if it is no program or could not run.
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
        extras=reader.items("extras", _text),
        abi_version=reader.number("abi_version"),
        is_checked=reader.flag("is_checked"),
        code_nbytes=reader.number("code_nbytes"),
        scratch_nbytes=reader.size("scratch_nbytes"),
        inputs=reader.items("inputs", _tensor),
        outputs=reader.items("outputs", _tensor),
        constants=reader.items("constants", _constant),
        arena=reader.items("arena", _arena_buffer),
        functions=reader.offsets("functions"),
        guards=reader.items("guards", _guard),
        reports=reader.items("reports", _report),
        steps=reader.items("steps", _step),
    )
    verify_program(program)
    return program


def _tensor_to_json(spec: TensorSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "element_type": spec.element_type.name.lower(),
        "shape": [size_to_json(size) for size in spec.shape],
    }


def _step_to_json(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "kernel": step.kernel,
        "buffers": [
            {"space": use.space.value, "index": use.index, "offset": size_to_json(use.offset)}
            for use in step.buffers
        ],
        "sizes": [size_to_json(size) for size in step.sizes],
        "tile_count": size_to_json(step.tile_count),
        "wave_tiles": size_to_json(step.wave_tiles),
        "chunk": step.chunk,
        "cost_ps": size_to_json(step.cost_ps),
        "conditions": [
            {"size": size_to_json(condition.size), "least": condition.least, "most": condition.most}
            for condition in step.conditions
        ],
    }


def _fail(pointer: str, what: str) -> NoReturn:
    raise EpContextError(
        f"the {_DOCUMENT} is wrong at {quoted(pointer)}: it {what}", ep_name=LLVM_EP
    )


class _Fields:
    """The members of an object with exactly these keys; each is read as its type."""

    def __init__(self, value: object, pointer: str, keys: tuple[str, ...]) -> None:
        if not isinstance(value, dict):
            _fail(pointer, "is no object")
        if unknown := sorted(value.keys() - set(keys)):
            _fail(pointer, f"has the unknown key {quoted(unknown[0])}")
        if missing := [key for key in keys if key not in value]:
            _fail(pointer, f"lacks the key {quoted(missing[0])}")
        self._value: dict[str, Any] = value
        self._pointer = pointer

    def text(self, key: str) -> str:
        return _text(self._value[key], f"{self._pointer}/{key}")

    def number(self, key: str) -> int:
        return _number(self._value[key], f"{self._pointer}/{key}")

    def number_or_none(self, key: str) -> int | None:
        return None if self._value[key] is None else self.number(key)

    def flag(self, key: str) -> bool:
        value = self._value[key]
        if not isinstance(value, bool):
            _fail(f"{self._pointer}/{key}", "is neither true nor false")
        return value

    def size(self, key: str) -> Size:
        return _size(self._value[key], f"{self._pointer}/{key}")

    def items(self, key: str, read: Callable[[object, str], ValueT]) -> tuple[ValueT, ...]:
        value, pointer = self._value[key], f"{self._pointer}/{key}"
        if not isinstance(value, list):
            _fail(pointer, "is no list")
        return tuple(read(item, f"{pointer}/{index}") for index, item in enumerate(value))

    def offsets(self, key: str) -> Mapping[str, int]:
        value, pointer = self._value[key], f"{self._pointer}/{key}"
        if not isinstance(value, dict):
            _fail(pointer, "is no object")
        return MappingProxyType({name: _number(value[name], f"{pointer}/{name}") for name in value})


def _text(value: object, pointer: str) -> str:
    if not isinstance(value, str):
        _fail(pointer, "is no text")
    return value


def _number(value: object, pointer: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        _fail(pointer, "is no whole number")
    return value


def _size(value: object, pointer: str) -> Size:
    try:
        return size_from_json(value)
    except ValueError as error:
        _fail(pointer, str(error))


def _tensor(value: object, pointer: str) -> TensorSpec:
    reader = _Fields(value, pointer, ("name", "element_type", "shape"))
    written = reader.text("element_type")
    if written != written.lower() or written.upper() not in ElementType.__members__:
        _fail(f"{pointer}/element_type", f"is {quoted(written)}, which is no element type")
    return TensorSpec(
        name=reader.text("name"),
        element_type=ElementType[written.upper()],
        shape=reader.items("shape", _size),
    )


def _constant(value: object, pointer: str) -> ConstantSpec:
    reader = _Fields(value, pointer, ("part", "nbytes"))
    return ConstantSpec(part=reader.text("part"), nbytes=reader.number("nbytes"))


def _arena_buffer(value: object, pointer: str) -> ArenaBuffer:
    reader = _Fields(value, pointer, ("nbytes", "first_step", "last_step"))
    return ArenaBuffer(
        nbytes=reader.size("nbytes"),
        first_step=reader.number("first_step"),
        last_step=reader.number("last_step"),
    )


def _guard(value: object, pointer: str) -> Guard:
    reader = _Fields(value, pointer, ("axes", "margin"))
    return Guard(axes=reader.items("axes", _size), margin=reader.size("margin"))


def _report(value: object, pointer: str) -> IndexReport:
    reader = _Fields(value, pointer, ("node", "size"))
    return IndexReport(node=reader.text("node"), size=reader.size("size"))


_SPACES = {space.value: space for space in Space}


def _buffer_use(value: object, pointer: str) -> BufferUse:
    reader = _Fields(value, pointer, ("space", "index", "offset"))
    written = reader.text("space")
    if written not in _SPACES:
        _fail(f"{pointer}/space", f"is {quoted(written)}, not one of {', '.join(_SPACES)}")
    return BufferUse(
        space=_SPACES[written], index=reader.number("index"), offset=reader.size("offset")
    )


def _condition(value: object, pointer: str) -> Condition:
    reader = _Fields(value, pointer, ("size", "least", "most"))
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


def _step(value: object, pointer: str) -> Step:
    reader = _Fields(value, pointer, _STEP_KEYS)
    return Step(
        name=reader.text("name"),
        kernel=reader.text("kernel"),
        buffers=reader.items("buffers", _buffer_use),
        sizes=reader.items("sizes", _size),
        tile_count=reader.size("tile_count"),
        wave_tiles=reader.size("wave_tiles"),
        chunk=reader.number("chunk"),
        cost_ps=reader.size("cost_ps"),
        conditions=reader.items("conditions", _condition),
    )
