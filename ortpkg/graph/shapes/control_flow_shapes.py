"""Shapes of If, Loop and Scan, inferred through their sub-graphs.

Knowledge of a value that a loop carries is reduced until every iteration preserves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortpkg.graph.shapes.expression_bounds import is_positive
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.knowledge import Knowledge, KnownTensor, Sizes
from ortpkg.graph.shapes.merging import common
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.shapes.size_operations import larger, smaller
from ortpkg.graph.types import ElementType

#: Most rounds, each of which makes at least one size or rank unknown; after the last one, only the
#: types of values that a loop carries are known.
_MOST_ROUNDS = 8


@infers("If")
def if_(context: ShapeContext) -> None:
    """Infer what both branches have in common; for a known condition, the branch taken."""
    condition = context.number(0)
    then, other = context.subgraph("then_branch"), context.subgraph("else_branch")
    made = [context.infer_subgraph(branch, ()) for branch in (then, other)]
    for slot in range(len(context.node.outputs)):
        ways = [way[slot] if slot < len(way) else None for way in made]
        if condition is not None:
            context.make_known(slot, ways[0] if condition else ways[1])
        else:
            context.make_known(slot, common(ways[0], ways[1], context.new_size))


@infers("Loop")
def loop(context: ShapeContext) -> None:
    """Infer from a body (iteration, condition, states...) to (condition, states..., scanned)."""
    body = context.subgraph("body")
    states: list[Knowledge | None] = [
        context.known(slot) for slot in range(2, len(context.node.inputs))
    ]
    number = KnownTensor(ElementType.INT64, ())
    condition = KnownTensor(ElementType.BOOL, ())
    trips = context.size(0) if not context.has(1) else None
    once = context.number(0) == 1
    begins = not context.has(1) or context.number(1) == 1
    initial = list(states)
    opened: set[Size] = set()
    for round_ in range(_MOST_ROUNDS):
        made = context.infer_subgraph(body, (number, condition, *states))
        after = [made[1 + index] if 1 + index < len(made) else None for index in range(len(states))]
        if once:
            break
        widened = _merged(context, states, after, opened)
        if widened == states:
            break
        states = (
            _widened(states, widened)
            if round_ < _MOST_ROUNDS - 2
            else [_typed_only(state) for state in widened]
        )
    # Without iterations, the final states are the initial ones; after a single one, they are those
    # that the body returns.
    final = [
        later if once and begins else common(before, later, context.new_size)
        for before, later in zip(initial, after if once else states, strict=True)
    ]
    for index, final_state in enumerate(
        final
    ):  # an optional sequence may come out as a sequence: what the body gives
        context.make_known(index, final_state or after[index])
    for slot, index in enumerate(range(1 + len(states), len(made)), start=len(states)):
        _stack(context, slot, made[index], trips)


def _merged(
    context: ShapeContext,
    before: Sequence[Knowledge | None],
    after: Sequence[Knowledge | None],
    opened: set[Size],
) -> list[Knowledge | None]:
    """Return knowledge of loop states that holds both before and after an iteration.

    ``opened`` contains the sizes that differ between iterations, as symbols of the state; new ones
    are added. They stay open whatever the body computes for them.
    """
    merged: list[Knowledge | None] = []
    for state_before, state_after in zip(before, after, strict=True):
        state = common(
            state_before, _with_opened_symbols(state_before, state_after, opened), context.new_size
        )
        opened.update(new for old, new in _pairs_of_sizes(state_before, state) if old != new)
        merged.append(state)
    return merged


def _with_opened_symbols(
    before: Knowledge | None, after: Knowledge | None, opened: set[Size]
) -> Knowledge | None:
    """Return a state after an iteration, with its symbols from before for sizes in ``opened``."""
    pairs = _pairs_of_sizes(before, after)
    if not pairs or not isinstance(after, KnownTensor):
        return after
    return replace(after, shape=tuple(old if old in opened else new for old, new in pairs))


def _pairs_of_sizes(left: Knowledge | None, right: Knowledge | None) -> Sequence[tuple[Size, Size]]:
    """Return the sizes of two tensors of equal rank, axis by axis; nothing for other values."""
    if not isinstance(left, KnownTensor) or not isinstance(right, KnownTensor):
        return ()
    if left.shape is None or right.shape is None or len(left.shape) != len(right.shape):
        return ()
    return tuple(zip(left.shape, right.shape, strict=True))


def _widened(
    before: Sequence[Knowledge | None], after: Sequence[Knowledge | None]
) -> list[Knowledge | None]:
    """Return ``after`` without elements that changed, since they may change again."""
    states: list[Knowledge | None] = []
    for was, now in zip(before, after, strict=True):
        changed = was != now and isinstance(now, KnownTensor) and now.elements is not None
        states.append(now.without_elements() if changed and isinstance(now, KnownTensor) else now)
    return states


def _typed_only(knowledge: Knowledge | None) -> Knowledge | None:
    return KnownTensor(knowledge.element_type, None) if isinstance(knowledge, KnownTensor) else None


def _stack(context: ShapeContext, slot: int, element: Knowledge | None, count: Size | None) -> None:
    if isinstance(element, KnownTensor):
        size = context.new_size() if count is None else larger(0, count)
        sizes = _collected_sizes(context, element, size)
        context.make(slot, None if sizes is None else (size, *sizes), element.element_type)


def _collected_sizes(context: ShapeContext, element: KnownTensor, count: Size) -> Sizes | None:
    """Return the sizes of elements that ``count`` iterations collect.

    They are 0 if unknown and no iteration runs.
    """
    if element.shape is None or is_positive(count):
        return element.shape
    return tuple(
        size if isinstance(size, int) else context.compute(_zero_if_none, size, count)
        for size in element.shape
    )


def _zero_if_none(size: Size, count: Size) -> Size:
    return size * smaller(1, count)


@infers("Scan")
def scan(context: ShapeContext) -> None:
    """Infer a Scan; version 8 has sequence lengths first and a batch axis around everything."""
    body, scanned = context.subgraph("body"), context.attribute("num_scan_inputs", 0)
    if context.version < 9:
        _scan_batches(context)
        return
    arguments = [context.known(slot) for slot in range(len(context.node.inputs))]
    input_axes, output_axes = _scan_axes(context, scanned)
    states = arguments[: len(arguments) - scanned]
    elements: list[Knowledge | None] = []
    length: Size | None = None
    for scanned_input, axis in zip(arguments[len(states) :], input_axes, strict=True):
        element, size = _element(context, scanned_input, axis)
        elements.append(element)
        if length is None or (isinstance(size, int) and not isinstance(length, int)):
            length = size
    made = context.infer_subgraph(body, (*states, *elements))
    final = list(states)
    opened: set[Size] = set()
    for _ in range(_MOST_ROUNDS):
        after = [made[index] if index < len(made) else None for index in range(len(states))]
        widened = _merged(context, final, after, opened)
        if widened == final:
            break
        final = _widened(final, widened)
        made = context.infer_subgraph(body, (*final, *elements))
    else:
        final = [_typed_only(state) for state in final]
        made = context.infer_subgraph(body, (*final, *elements))
    for index, known_state in enumerate(final):
        context.make_known(index, known_state)
    for slot, axis in enumerate(output_axes, start=len(states)):
        _stack_along(context, slot, made[slot] if slot < len(made) else None, length, axis)


def _scan_axes(context: ShapeContext, scanned: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the axes along which inputs and outputs are scanned."""
    if not 0 < scanned <= len(context.node.inputs):
        raise ShapeError(f"{context.node}: scans {scanned} of {len(context.node.inputs)} inputs")
    count = len(context.node.outputs) - (len(context.node.inputs) - scanned)
    axes = context.integers("scan_input_axes") or (0,) * scanned
    made_along = context.integers("scan_output_axes") or (0,) * count
    if len(axes) != scanned or len(made_along) != count:
        raise ShapeError(
            f"{context.node}: an axis is needed for each of {scanned} inputs and {count} outputs"
        )
    return axes, made_along


def _element(
    context: ShapeContext, knowledge: Knowledge | None, axis: int
) -> tuple[Knowledge | None, Size | None]:
    """Return one slice of a scanned input, and the number of slices."""
    if not isinstance(knowledge, KnownTensor):
        return None, None
    if knowledge.shape is None:
        return KnownTensor(knowledge.element_type, None), None
    position = context.axis(axis, len(knowledge.shape))
    shape = (*knowledge.shape[:position], *knowledge.shape[position + 1 :])
    return KnownTensor(knowledge.element_type, shape), knowledge.shape[position]


def _stack_along(
    context: ShapeContext, slot: int, element: Knowledge | None, length: Size | None, axis: int
) -> None:
    if not isinstance(element, KnownTensor):
        return
    size = context.new_size() if length is None else length
    sizes = _collected_sizes(context, element, size)
    if sizes is None:
        context.make(slot, None, element.element_type)
        return
    position = context.axis(axis, len(sizes) + 1)
    context.make(slot, (*sizes[:position], size, *sizes[position:]), element.element_type)


def _scan_batches(context: ShapeContext) -> None:
    """Infer version 8: inputs (lengths, states (batch, ...), scanned (batch, length, ...)).

    The outputs are in the same order.
    """
    body, scanned = context.subgraph("body"), context.attribute("num_scan_inputs", 0)
    inputs_known = [context.known(slot) for slot in range(1, len(context.node.inputs))]
    states, inputs = (
        inputs_known[: len(inputs_known) - scanned],
        inputs_known[len(inputs_known) - scanned :],
    )
    first = next(
        (
            knowledge.shape
            for knowledge in inputs_known
            if isinstance(knowledge, KnownTensor) and knowledge.shape
        ),
        None,
    )
    batch: Size = context.new_size() if first is None else first[0]
    length: Size | None = None
    arguments: list[Knowledge | None] = []
    for index, knowledge in enumerate(inputs_known):
        skipped = 1 if index < len(states) else 2
        if (
            not isinstance(knowledge, KnownTensor)
            or knowledge.shape is None
            or len(knowledge.shape) < skipped
        ):
            arguments.append(
                KnownTensor(knowledge.element_type, None)
                if isinstance(knowledge, KnownTensor)
                else None
            )
            continue
        if skipped == 2 and length is None:
            length = knowledge.shape[1]
        arguments.append(KnownTensor(knowledge.element_type, knowledge.shape[skipped:]))
    if not inputs:
        raise ShapeError(f"{context.node}: nothing is scanned")
    made = context.infer_subgraph(body, arguments)
    for slot in range(len(context.node.outputs)):
        output = made[slot] if slot < len(made) else None
        if not isinstance(output, KnownTensor):
            continue
        if slot < len(states):
            output = common(arguments[slot], output, context.new_size)
            if isinstance(output, KnownTensor):
                sizes = None if output.shape is None else (batch, *output.shape)
                context.make(slot, sizes, output.element_type)
            continue
        size = context.new_size() if length is None else length
        element_sizes = _collected_sizes(
            context, output, context.new_size() if context.has(0) else size
        )
        context.make(
            slot,
            None if element_sizes is None else (batch, size, *element_sizes),
            output.element_type,
        )
