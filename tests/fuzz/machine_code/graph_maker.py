"""Builds a graph node by node, and computes each node with the numpy kernels while it does.

What the kernels give is what machine code is held against. Beside it goes what they give where
every rounded number is moved a little: that tells how much rounding may change a result.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.graph.graph import Node
from tests.kernels.node_runner import NoKernelError, as_node, compute_node

Array = npt.NDArray[Any]
#: A size in each run of a session: the same number each time, or an open one.
Size = tuple[int, ...]

OPSETS = {"": 21, "com.microsoft": 1}
F32, F16, BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
#: Where a number moves by that much of itself, more moves than 16 roundings do.
MOVED: Mapping[np.dtype[Any], float] = {
    np.dtype(np.float64): 2.0**-48, F32: 2.0**-20, F16: 2.0**-10, BF16: 2.0**-7,
}  # fmt: skip
#: Results of narrow floats beyond this are infinite or not by how sums are rounded.
_MOST_NARROW = 1e4
_MOST_ELEMENTS = 60_000
_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-42, 1.0)
_FLIPPED_SHARE = 0.1
#: A few numbers may happen to move little: they are moved so many times, and the furthest counts.
_FEW, _TRIALS = 16, 6


class UnfitError(Exception):
    """A node that was not added: its inputs do not fit it, or the numpy kernel refuses them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Value:
    """A value of the graph.

    Attributes:
        arrays: what it is in each run.
        moved: what it is where everything before it is moved a little.
        is_exact: machine code has to give just these bits.
        is_constant: it is an initializer.
    """

    name: str
    arrays: tuple[Array, ...]
    moved: tuple[Array, ...]
    is_exact: bool
    is_constant: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """Kind of its elements."""
        return self.arrays[0].dtype

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return self.arrays[0].ndim

    @property
    def shape(self) -> tuple[Size, ...]:
        """Its size along each axis, in each run."""
        return tuple(zip(*(each.shape for each in self.arrays), strict=True)) if self.rank else ()

    def fixed(self, axis: int) -> int | None:
        """Its size along an axis, where that is the same in each run."""
        sizes = set(self.shape[axis])
        return sizes.pop() if len(sizes) == 1 else None


class GraphMaker:
    """Holds the graph that is built."""

    def __init__(self, seed: int, run_count: int) -> None:
        self.choose = random.Random(seed)
        self.generator = np.random.default_rng(seed)
        self.run_count = run_count
        self.values: list[Value] = []
        self.nodes: list[onnx.NodeProto] = []
        self._inputs: list[tuple[Value, list[int | str]]] = []
        self._initializers: list[onnx.TensorProto] = []
        self._symbols: dict[Size, str] = {}
        self._read: set[str] = set()
        self._names = 0
        self.has_specials = self.choose.random() < 0.25

    # --- sizes ------------------------------------------------------------------------------------

    def size(self, *, most: int = 70, is_fixed: bool = False) -> Size:
        """A size: mostly one number, at times one of the graph's open sizes or a new one."""
        sizes = (1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 65, 70)
        allowed = [each for each in sizes if each <= most]
        chance = self.choose.random()
        if not is_fixed and chance < 0.25:
            known = [each for each in self._symbols if max(each) <= most]
            if known and chance < 0.15:
                return self.choose.choice(known)
            fresh = tuple(self.choose.choice(allowed) for _ in range(self.run_count))
            if len(set(fresh)) == self.run_count > 1:
                self._symbols.setdefault(fresh, f"n{len(self._symbols)}")
                return fresh
        if chance > 0.985 and not is_fixed:
            return (0,) * self.run_count
        return (self.choose.choice(allowed),) * self.run_count

    def same(self, size: int) -> Size:
        """That size in each run."""
        return (size,) * self.run_count

    # --- values -----------------------------------------------------------------------------------

    def name(self) -> str:
        """A new name."""
        self._names += 1
        return f"v{self._names}"

    def fresh(
        self,
        dtype: npt.DTypeLike,
        shape: Sequence[Size],
        *,
        least: float | None = None,
        most: float | None = None,
        is_constant: bool | None = None,
    ) -> Value:
        """A new input or, where its sizes are the same in each run and chance will, a constant.

        Args:
            dtype: of its elements.
            shape: its sizes.
            least, most: bounds of its elements.
            is_constant: whether it is one; None: by chance.
        """
        sizes = [tuple(each[run] for each in shape) for run in range(self.run_count)]
        if is_constant is None:
            is_constant = len(set(sizes)) == 1 and self.choose.random() < 0.35
        if is_constant:
            arrays = (self._filled(np.dtype(dtype), sizes[0], least, most),) * self.run_count
            return self.constant(arrays[0])
        arrays = tuple(self._filled(np.dtype(dtype), each, least, most) for each in sizes)
        value = Value(
            name=self.name(),
            arrays=arrays,
            moved=arrays,
            is_exact=True,
            is_constant=False,
        )
        self._inputs.append((value, [self._declared(size) for size in shape]))
        return value

    def _declared(self, size: Size) -> int | str:
        """How an input declares a size: one that differs between runs has a name."""
        if len(set(size)) == 1:
            return size[0]
        return self._symbols.setdefault(size, f"n{len(self._symbols)}")

    def constant(self, array: npt.ArrayLike) -> Value:
        """An initializer of these elements."""
        value = np.asarray(array)
        found = Value(
            name=self.name(),
            arrays=(value,) * self.run_count,
            moved=(value,) * self.run_count,
            is_exact=True,
            is_constant=True,
        )
        self._initializers.append(numpy_helper.from_array(value, found.name))
        return found

    def chosen(self, *kinds: str, rank: int | None = None, is_exact: bool = False) -> Value:
        """A value that there is, of dtypes of one of these kinds; UnfitError where none is."""
        fitting = [
            value
            for value in self.values
            if _kind(value.dtype) in kinds
            and rank in (None, value.rank)
            and (value.is_exact or not is_exact)
        ]
        if not fitting:
            raise UnfitError
        return self.choose.choice(fitting[-6:])

    # --- nodes ------------------------------------------------------------------------------------

    def add(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        *,
        outputs: int = 1,
        is_exact: bool = False,
        domain: str = "",
        **attributes: Any,
    ) -> Value:
        """Adds a node, and gives its first output.

        Args:
            op_type: its operator.
            inputs: None: left out.
            outputs: how many.
            is_exact: it gives the same bits, however it is computed, for the same inputs.
            domain: of the operator.
            attributes: of the node.

        Raises UnfitError where the numpy kernel refuses the inputs, or makes what is too large.
        """
        names = [each.name if each else "" for each in inputs]
        made = [self.name() for _ in range(outputs)]
        proto = helper.make_node(op_type, names, made, domain=domain, **attributes)
        node = as_node(proto, OPSETS)
        exact = is_exact and all(each is None or each.is_exact for each in inputs)
        found = [self._computed(node, inputs, run) for run in range(self.run_count)]
        moved = found if exact else [
            self._furthest(found[run], node, inputs, run, is_exact=is_exact)
            for run in range(self.run_count)
        ]  # fmt: skip
        values = []
        for slot, name in enumerate(made):
            arrays = tuple(run[slot] for run in found)
            others = tuple(run[slot] for run in moved)
            self._check(arrays, others)
            values.append(
                Value(name=name, arrays=arrays, moved=others, is_exact=exact, is_constant=False)
            )
        self.nodes.append(proto)
        self._read |= set(names)
        self.values += values
        return values[0]

    def _computed(self, node: Node, inputs: Sequence[Value | None], run: int) -> list[Array]:
        return _outputs(node, [each.arrays[run] if each else None for each in inputs])

    def _furthest(
        self,
        found: Sequence[Array],
        node: Node,
        inputs: Sequence[Value | None],
        run: int,
        *,
        is_exact: bool,
    ) -> list[Array]:
        """What the node gives where its inputs move; of small outputs, the furthest of trials."""
        chosen = self._moved(node, inputs, run, is_exact=is_exact)
        if all(each.size > _FEW or not each.size for each in found):
            return chosen
        for _ in range(_TRIALS - 1):
            moved = self._moved(node, inputs, run, is_exact=is_exact)
            chosen = list(map(_further, found, chosen, moved))
        return chosen

    def _moved(
        self, node: Node, inputs: Sequence[Value | None], run: int, *, is_exact: bool
    ) -> list[Array]:
        """What the node gives where its inputs, and what it makes of them, move."""
        fed = [
            None if each is None
            else self._move(each.arrays[run]) if each.is_exact and not is_exact
            else each.moved[run]
            for each in inputs
        ]  # fmt: skip
        made = _outputs(node, fed)
        return made if is_exact else list(map(self._move, made))

    def _check(self, arrays: Sequence[Array], others: Sequence[Array]) -> None:
        """UnfitError for what is too large, or infinite by chance."""
        for array, other in zip(arrays, others, strict=True):
            if array.size > _MOST_ELEMENTS or array.shape != other.shape or array.ndim > 6:
                raise UnfitError("too large")
            if array.dtype in {F16, BF16} and array.size:
                wide = array.astype(np.float64)
                if np.abs(wide[np.isfinite(wide)]).max(initial=0) > _MOST_NARROW:
                    raise UnfitError("close to what the kind cannot hold")
        if not self.has_specials and any(
            _kind(array.dtype) in {"float", "narrow"}
            and not np.isfinite(array.astype(np.float64)).all()
            for array in arrays
        ):
            raise UnfitError("not finite")

    # --- elements ---------------------------------------------------------------------------------

    def _filled(
        self, dtype: np.dtype[Any], shape: Sequence[int], least: float | None, most: float | None
    ) -> Array:
        generator = self.generator
        if dtype == np.bool_:
            return generator.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            low = info.min if least is None else int(least)
            high = info.max if most is None else int(most)
            if least is None and dtype.itemsize > 1:
                low, high = max(low, -1000), 1000
            return generator.integers(low, high, shape, np.int64, endpoint=True).astype(dtype)
        if least is not None and most is not None:
            return generator.uniform(least, most, shape).astype(dtype)
        made = np.asarray(generator.standard_normal(shape)).astype(dtype)
        if self.has_specials and made.size and self.choose.random() < 0.5:
            flat = made.reshape(-1)
            with np.errstate(all="ignore"):
                for at in generator.integers(0, flat.size, 1 + flat.size // 50):
                    flat[at] = np.asarray(self.choose.choice(_SPECIAL)).astype(dtype)
        return made

    def _move(self, array: Array) -> Array:
        """The array with each float moved by a share of it, and some codes of 8 bits by one."""
        share = MOVED.get(array.dtype)
        if share is None or not array.size:
            return array
        signs = self.generator.choice((-1.0, 1.0), array.shape)
        with np.errstate(all="ignore"):
            return np.asarray(array.astype(np.float64) * (1 + share * signs)).astype(array.dtype)

    def entered(self, value: Value) -> Value:
        """The value, which nodes to come may take."""
        self.values.append(value)
        return value

    def flipped(self, value: Value) -> Value:
        """The value with some of its codes one further in what is moved: a rounding may do that."""
        moved = []
        for array in value.moved:
            info = np.iinfo(array.dtype)
            steps = self.generator.choice((-1, 1), array.shape)
            steps *= self.generator.random(array.shape) < _FLIPPED_SHARE
            stepped = np.clip(array.astype(np.int64) + steps, info.min, info.max)
            moved.append(np.asarray(stepped).astype(array.dtype))
        found = Value(
            name=value.name,
            arrays=value.arrays,
            moved=tuple(moved),
            is_exact=False,
            is_constant=False,
        )
        self.values[self.values.index(value)] = found
        return found

    # --- the model --------------------------------------------------------------------------------

    def outputs(self) -> list[Value]:
        """What nothing reads, and now and then what something does."""
        return [
            value
            for value in self.values
            if any(value.name in node.output for node in self.nodes)
            and (value.name not in self._read or self.choose.random() < 0.15)
        ]

    def model(self, outputs: Sequence[Value]) -> onnx.ModelProto:
        """The model that makes these."""
        infos = [
            helper.make_tensor_value_info(
                value.name, helper.np_dtype_to_tensor_dtype(value.dtype), declared
            )
            for value, declared in self._inputs
        ]
        made = [
            helper.make_tensor_value_info(
                value.name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.rank
            )
            for value in outputs
        ]
        graph = helper.make_graph(self.nodes, "fuzz", infos, made, self._initializers)
        imports = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def feeds(self, run: int) -> dict[str, Array]:
        """The inputs of a run."""
        return {value.name: value.arrays[run] for value, _ in self._inputs}


def _outputs(node: Node, inputs: Sequence[Array | None]) -> list[Array]:
    """What the numpy kernel gives. UnfitError where it refuses."""
    try:
        computed = compute_node(node, inputs, OPSETS[node.domain])
    except (OrtpkgError, NoKernelError, ValueError, IndexError, TypeError) as error:
        raise UnfitError(str(error)) from error
    return [np.asarray(each) for each in computed]


def _further(found: Array, one: Array, other: Array) -> Array:
    """The one of two that is further away, place by place, where there are few."""
    if not 0 < found.size <= _FEW or not found.shape == one.shape == other.shape:
        return one
    with np.errstate(all="ignore"):
        wide = found.astype(np.float64)
        is_further = np.abs(other - wide) > np.abs(one - wide)
    return np.where(is_further, other, one).astype(found.dtype)


def _kind(dtype: np.dtype[Any]) -> str:
    """ "float", "narrow", "double", "code" (8 bits), "integer" or "bool"."""
    if dtype == np.bool_:
        return "bool"
    if dtype.kind in "iu":
        return "code" if dtype.itemsize == 1 else "integer"
    return {F32: "float", F16: "narrow", BF16: "narrow"}.get(dtype, "double")
