"""Shapes of sequences, optional values and maps, ai.onnx.ml's operators, and those on texts."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.knowledge import (
    Knowledge,
    KnownOptional,
    KnownOther,
    KnownSequence,
    KnownTensor,
)
from ortpkg.graph.shapes.merging import common
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.shapes.size_operations import product
from ortpkg.graph.types import ElementType, MapType, TensorType

ML = "ai.onnx.ml"


@infers("SequenceConstruct")
def sequence_construct(context: ShapeContext) -> None:
    inputs = [context.known(slot) for slot in range(len(context.node.inputs))]
    context.make_sequence(0, _common_of(context, inputs))


def _common_of(context: ShapeContext, values: Sequence[Knowledge | None]) -> Knowledge | None:
    shared: Knowledge | None = values[0] if values else None
    for other in values[1:]:
        shared = common(shared, other, context.new_size)
    return shared.without_elements() if isinstance(shared, KnownTensor) else shared


@infers("SequenceEmpty")
def sequence_empty(context: ShapeContext) -> None:
    """Infer a sequence of tensors of unknown shape, since any may be inserted."""
    element_type = context.chosen_type("dtype", ElementType.FLOAT)
    context.make_sequence(0, KnownTensor(element_type, None))


@infers("SequenceInsert")
def sequence_insert(context: ShapeContext) -> None:
    sequence = context.known(0)
    if isinstance(sequence, KnownSequence):
        context.make_sequence(0, _common_of(context, (sequence.element, context.known(1))))
    else:
        inserted = context.known(1)
        context.make_sequence(
            0, KnownTensor(context.element_type(1)) if inserted is not None else None
        )


@infers("SequenceErase")
def sequence_erase(context: ShapeContext) -> None:
    context.make_known(0, context.known(0))


@infers("SequenceAt")
def sequence_at(context: ShapeContext) -> None:
    sequence = context.known(0)
    if isinstance(sequence, KnownSequence):
        context.make_known(0, sequence.element)


@infers("SequenceLength")
def sequence_length(context: ShapeContext) -> None:
    context.make(0, (), ElementType.INT64)


@infers("SplitToSequence")
def split_to_sequence(context: ShapeContext) -> None:
    """Infer parts of equal size, or of size 1, for which the axis may be dropped."""
    shape, element_type = context.shape(0), context.element_type(0)
    if shape is None:
        context.make_sequence(0, KnownTensor(element_type))
        return
    axis = context.axis(context.attribute("axis", 0), len(shape))
    if not context.has(1):
        part_axis = (1,) if context.attribute("keepdims", 1) else ()
        context.make_sequence(
            0, KnownTensor(element_type, (*shape[:axis], *part_axis, *shape[axis + 1 :]))
        )
        return
    split, split_shape = context.elements(1), context.shape(1)
    size: Size = context.new_size()
    if split is not None and split.numbers is not None:
        numbers = split.numbers
        if split_shape == ():
            whole = shape[axis]
            if isinstance(whole, int) and numbers[0] > 0 and whole % numbers[0] == 0:
                size = numbers[0]
        elif len(set(numbers)) == 1:
            size = numbers[0]
    context.make_sequence(0, KnownTensor(element_type, (*shape[:axis], size, *shape[axis + 1 :])))


@infers("ConcatFromSequence")
def concat_from_sequence(context: ShapeContext) -> None:
    """Infer the concatenation of elements of equal rank, stacked with ``new_axis``."""
    sequence = context.known(0)
    element = sequence.element if isinstance(sequence, KnownSequence) else None
    element_type = context.element_type(0)
    if not isinstance(element, KnownTensor) or element.shape is None:
        context.make(0, None, element_type)
        return
    shape, is_new = element.shape, bool(context.attribute("new_axis", 0))
    axis = context.axis(context.attribute("axis", 0), len(shape) + is_new)
    context.make(
        0, (*shape[:axis], context.new_size(), *shape[axis + (not is_new) :]), element_type
    )


@infers("SequenceMap")
def sequence_map(context: ShapeContext) -> None:
    """Infer the body for one element of each sequence and the other inputs."""
    arguments = [context.known(slot) for slot in range(len(context.node.inputs))]
    inputs = [
        argument.element if isinstance(argument, KnownSequence) else argument
        for argument in arguments
    ]
    body = context.optional("body", "GRAPH")
    for slot, made in enumerate([] if body is None else context.infer_subgraph(body, inputs)):
        context.make_sequence(
            slot, made.without_elements() if isinstance(made, KnownTensor) else made
        )


@infers("Optional")
def optional(context: ShapeContext) -> None:
    value = context.known(0)
    if value is not None or context.has(0):
        context.make_known(0, KnownOptional(value))


@infers("OptionalGetElement")
def optional_get_element(context: ShapeContext) -> None:
    value = context.known(0)
    context.make_known(0, value.element if isinstance(value, KnownOptional) else value)


@infers("OptionalHasElement")
def optional_has_element(context: ShapeContext) -> None:
    context.make(0, (), ElementType.BOOL, None if context.has(0) else [0])


# --- texts ----------------------------------------------------------------------------------------


@infers("StringSplit")
def string_split(context: ShapeContext) -> None:
    shape = context.shape(0)
    context.make(0, None if shape is None else (*shape, context.new_size()), ElementType.STRING)
    context.make(1, shape, ElementType.INT64)


@infers("TfIdfVectorizer")
def tf_idf_vectorizer(context: ShapeContext) -> None:
    """Infer one column for each n-gram index, up to the largest."""
    shape, indexes = context.shape(0), context.integers("ngram_indexes")
    if shape is not None and indexes:
        if len(shape) not in {1, 2}:
            raise ShapeError(f"{context.node}: one or two dimensions are needed, not {len(shape)}")
        context.make(0, (*shape[:-1], max(indexes) + 1), ElementType.FLOAT)
    else:
        context.make(0, None, ElementType.FLOAT)


# --- ai.onnx.ml -----------------------------------------------------------------------------------


@infers("Binarizer", "Imputer", "Normalizer", "Scaler", domain=ML)
def per_element(context: ShapeContext) -> None:
    context.make(0, context.shape(0))


@infers("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(context: ShapeContext) -> None:
    """Infer the chosen elements of the last axis; a vector counts as one row."""
    shape, chosen = context.shape(0), context.shape(1)
    if shape is None or chosen is None:
        return
    count = context.compute(lambda: product(chosen))
    context.make(0, (1, count) if len(shape) < 2 else (*shape[:-1], count))


@infers("FeatureVectorizer", domain=ML)
def feature_vectorizer(context: ShapeContext) -> None:
    shape, widths = context.shape(0), context.integers("inputdimensions")
    rows = shape[0] if shape is not None and len(shape) > 1 else None
    if rows is None or len(widths) != len(context.node.inputs):
        context.make(0, None, ElementType.FLOAT)
    else:
        context.make(0, (rows, sum(widths)), ElementType.FLOAT)


@infers("OneHotEncoder", domain=ML)
def one_hot_encoder(context: ShapeContext) -> None:
    shape = context.shape(0)
    categories = (
        context.optional("cats_int64s", "INTS") or context.optional("cats_strings", "STRINGS") or ()
    )
    context.make(0, None if shape is None else (*shape, len(categories)), ElementType.FLOAT)


@infers("LabelEncoder", domain=ML)
def label_encoder(context: ShapeContext) -> None:
    """Infer the type of the values, of which there is one list."""
    context.make(0, context.shape(0), _encoded_type(context))


def _encoded_type(context: ShapeContext) -> ElementType | None:
    if context.version == 1:
        return (
            ElementType.INT64
            if context.element_type(0) is ElementType.STRING
            else ElementType.STRING
        )
    for name, element_type in (
        ("values_strings", ElementType.STRING),
        ("values_int64s", ElementType.INT64),
        ("values_floats", ElementType.FLOAT),
    ):
        if context.attribute(name) is not None:
            return element_type
    tensor = context.optional("values_tensor", "TENSOR")
    return None if tensor is None else ElementType(tensor.element_type)


@infers("CategoryMapper", domain=ML)
def category_mapper(context: ShapeContext) -> None:
    is_text = context.element_type(0) is ElementType.STRING
    context.make(0, context.shape(0), ElementType.INT64 if is_text else ElementType.STRING)


@infers("DictVectorizer", domain=ML)
def dict_vectorizer(context: ShapeContext) -> None:
    """Infer one row, as long as the vocabulary."""
    words = (
        context.optional("string_vocabulary", "STRINGS")
        or context.optional("int64_vocabulary", "INTS")
        or ()
    )
    context.make(0, (1, len(words)))


@infers("CastMap", domain=ML)
def cast_map(context: ShapeContext) -> None:
    element_type = {
        "TO_FLOAT": ElementType.FLOAT,
        "TO_INT64": ElementType.INT64,
        "TO_STRING": ElementType.STRING,
    }
    is_sparse = context.attribute("map_form", "DENSE") == "SPARSE"
    columns = context.attribute("max_map", 1) if is_sparse else context.new_size()
    context.make(0, (1, columns), element_type.get(context.attribute("cast_to", "TO_FLOAT")))


@infers("ZipMap", domain=ML)
def zip_map(context: ShapeContext) -> None:
    """Infer a sequence of maps; the operator's definition leaves only the key type open."""

    key = ElementType.INT64 if context.attribute("classlabels_int64s") else ElementType.STRING
    context.make_sequence(0, KnownOther(MapType(key, TensorType(ElementType.FLOAT, ()))))


def _rows(context: ShapeContext) -> Size:
    shape = context.shape(0)
    if shape is None:
        return context.new_size()
    return 1 if len(shape) == 1 else shape[0] if shape else 1


@infers("LinearRegressor", "SVMRegressor", "TreeEnsembleRegressor", "TreeEnsemble", domain=ML)
def regressor(context: ShapeContext) -> None:
    name = "targets" if context.node.op_type == "LinearRegressor" else "n_targets"
    count = 1 if context.node.op_type == "SVMRegressor" else context.attribute(name, 1)
    element_type = (
        context.element_type(0) if context.node.op_type == "TreeEnsemble" else ElementType.FLOAT
    )
    context.make(0, (_rows(context), count), element_type)


_LABEL_LISTS = {
    "classlabels_int64s": "INTS",
    "classlabels_ints": "INTS",
    "classlabels_strings": "STRINGS",
}


@infers("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier", domain=ML)
def classifier(context: ShapeContext) -> None:
    """Infer labels, and a score per class."""
    lists = [context.optional(name, kind) for name, kind in _LABEL_LISTS.items()]
    labels: Sequence[object] = next((candidates for candidates in lists if candidates), ())
    is_text = bool(context.attribute("classlabels_strings"))
    rows = _rows(context)
    context.make(0, (rows,), ElementType.STRING if is_text else ElementType.INT64)
    count: Size = len(labels)
    if len(labels) < 2 or context.node.op_type == "SVMClassifier":
        count = context.new_size()
    context.make(1, (rows, count), ElementType.FLOAT)
