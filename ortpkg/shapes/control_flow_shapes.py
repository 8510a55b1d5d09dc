"""If, Loop and Scan: inference goes through their sub-graphs.

What is known of a value that a loop carries is reduced until every iteration keeps to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortpkg.graph.types import ElementType
from ortpkg.shapes.expression_bounds import is_positive
from ortpkg.shapes.expressions import Size
from ortpkg.shapes.knowledge import Knowledge, KnownTensor, Sizes
from ortpkg.shapes.merging import common
from ortpkg.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.shapes.size_operations import larger, smaller

#: Every round makes at least one size open, or one rank; after so many nothing is said of what a
#: loop carries.
_MOST_ROUNDS = 8


@infers("If")
def if_(context: ShapeContext) -> None:
    """What both branches have in common; a condition that is known counts one branch only."""
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
    """Body (iteration, condition, states...) to (condition, states..., parts of scan outputs)."""
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
            else [_typed_only(each) for each in widened]
        )
    # Without an iteration the states come out as they went in; after the only one, as the body
    # gives them.
    final = [
        later if once and begins else common(before, later, context.new_size)
        for before, later in zip(initial, after if once else states, strict=True)
    ]
    for index, known in enumerate(
        final
    ):  # an optional sequence may come out as a sequence: what the body gives
        context.make_known(index, known or after[index])
    for slot, index in enumerate(range(1 + len(states), len(made)), start=len(states)):
        _stack(context, slot, made[index], trips)


def _merged(
    context: ShapeContext,
    before: Sequence[Knowledge | None],
    after: Sequence[Knowledge | None],
    opened: set[Size],
) -> list[Knowledge | None]:
    """Return facts of loop states that hold both before and after an iteration.

    ``opened`` has the sizes that differ from one iteration to the next, each the state's own
    symbol; those that differ here are added. Whatever the body makes of them, they stay open.
    """
    merged: list[Knowledge | None] = []
    for state_before, state_after in zip(before, after, strict=True):
        state = common(
            state_before, _kept_open(state_before, state_after, opened), context.new_size
        )
        opened.update(new for old, new in _pairs_of_sizes(state_before, state) if old != new)
        merged.append(state)
    return merged


def _kept_open(
    before: Knowledge | None, after: Knowledge | None, opened: set[Size]
) -> Knowledge | None:
    """Return a state after an iteration, with the symbols it had before for sizes in ``opened``."""
    pairs = _pairs_of_sizes(before, after)
    if not pairs or not isinstance(after, KnownTensor):
        return after
    return replace(after, shape=tuple(old if old in opened else new for old, new in pairs))


def _pairs_of_sizes(left: Knowledge | None, right: Knowledge | None) -> Sequence[tuple[Size, Size]]:
    """The sizes of two tensors of the same rank, axis by axis; none where that differs."""
    if not isinstance(left, KnownTensor) or not isinstance(right, KnownTensor):
        return ()
    if left.shape is None or right.shape is None or len(left.shape) != len(right.shape):
        return ()
    return tuple(zip(left.shape, right.shape, strict=True))


def _widened(
    before: Sequence[Knowledge | None], after: Sequence[Knowledge | None]
) -> list[Knowledge | None]:
    """``after``, without elements that changed: they may change again."""
    found: list[Knowledge | None] = []
    for was, now in zip(before, after, strict=True):
        changed = was != now and isinstance(now, KnownTensor) and now.elements is not None
        found.append(now.without_elements() if changed and isinstance(now, KnownTensor) else now)
    return found


def _typed_only(known: Knowledge | None) -> Knowledge | None:
    return KnownTensor(known.element_type, None) if isinstance(known, KnownTensor) else None


def _stack(context: ShapeContext, slot: int, each: Knowledge | None, count: Size | None) -> None:
    if isinstance(each, KnownTensor):
        size = context.new_size() if count is None else larger(0, count)
        sizes = _sizes_of_each(context, each, size)
        context.make(slot, None if sizes is None else (size, *sizes), each.element_type)


def _sizes_of_each(context: ShapeContext, each: KnownTensor, count: Size) -> Sizes | None:
    """The sizes of what ``count`` iterations collect; after none, unknown sizes are 0."""
    if each.shape is None or is_positive(count):
        return each.shape
    return tuple(
        size if isinstance(size, int) else context.compute(_where_any, size, count)
        for size in each.shape
    )


def _where_any(size: Size, count: Size) -> Size:
    return size * smaller(1, count)


@infers("Scan")
def scan(context: ShapeContext) -> None:
    """Version 8 has sequence lengths first and a batch axis around everything."""
    body, scanned = context.subgraph("body"), context.attribute("num_scan_inputs", 0)
    if context.version < 9:
        _scan_batches(context)
        return
    given = [context.known(slot) for slot in range(len(context.node.inputs))]
    input_axes, output_axes = _scan_axes(context, scanned)
    states = given[: len(given) - scanned]
    elements: list[Knowledge | None] = []
    length: Size | None = None
    for known, axis in zip(given[len(states) :], input_axes, strict=True):
        element, size = _element(context, known, axis)
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
        final = [_typed_only(each) for each in final]
        made = context.infer_subgraph(body, (*final, *elements))
    for index, known_state in enumerate(final):
        context.make_known(index, known_state)
    for slot, axis in enumerate(output_axes, start=len(states)):
        _stack_along(context, slot, made[slot] if slot < len(made) else None, length, axis)


def _scan_axes(context: ShapeContext, scanned: int) -> tuple[Sequence[int], Sequence[int]]:
    """The axes that inputs and outputs are scanned along."""
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
    context: ShapeContext, known: Knowledge | None, axis: int
) -> tuple[Knowledge | None, Size | None]:
    """One slice of a scanned input, and how many there are."""
    if not isinstance(known, KnownTensor):
        return None, None
    if known.shape is None:
        return KnownTensor(known.element_type, None), None
    position = context.axis(axis, len(known.shape))
    shape = (*known.shape[:position], *known.shape[position + 1 :])
    return KnownTensor(known.element_type, shape), known.shape[position]


def _stack_along(
    context: ShapeContext, slot: int, each: Knowledge | None, length: Size | None, axis: int
) -> None:
    if not isinstance(each, KnownTensor):
        return
    size = context.new_size() if length is None else length
    sizes = _sizes_of_each(context, each, size)
    if sizes is None:
        context.make(slot, None, each.element_type)
        return
    position = context.axis(axis, len(sizes) + 1)
    context.make(slot, (*sizes[:position], size, *sizes[position:]), each.element_type)


def _scan_batches(context: ShapeContext) -> None:
    """Version 8: inputs (lengths, states (batch, ...), scanned (batch, length, ...)).

    The outputs are in the same order.
    """
    body, scanned = context.subgraph("body"), context.attribute("num_scan_inputs", 0)
    given = [context.known(slot) for slot in range(1, len(context.node.inputs))]
    states, inputs = given[: len(given) - scanned], given[len(given) - scanned :]
    first = next(
        (known.shape for known in given if isinstance(known, KnownTensor) and known.shape), None
    )
    batch: Size = context.new_size() if first is None else first[0]
    length: Size | None = None
    arguments: list[Knowledge | None] = []
    for index, known in enumerate(given):
        skipped = 1 if index < len(states) else 2
        if not isinstance(known, KnownTensor) or known.shape is None or len(known.shape) < skipped:
            arguments.append(
                KnownTensor(known.element_type, None) if isinstance(known, KnownTensor) else None
            )
            continue
        if skipped == 2 and length is None:
            length = known.shape[1]
        arguments.append(KnownTensor(known.element_type, known.shape[skipped:]))
    if not inputs:
        raise ShapeError(f"{context.node}: nothing is scanned")
    made = context.infer_subgraph(body, arguments)
    for slot in range(len(context.node.outputs)):
        each = made[slot] if slot < len(made) else None
        if not isinstance(each, KnownTensor):
            continue
        if slot < len(states):
            each = common(arguments[slot], each, context.new_size)
            if isinstance(each, KnownTensor):
                sizes = None if each.shape is None else (batch, *each.shape)
                context.make(slot, sizes, each.element_type)
            continue
        size = context.new_size() if length is None else length
        own = _sizes_of_each(context, each, context.new_size() if context.has(0) else size)
        context.make(slot, None if own is None else (batch, size, *own), each.element_type)
