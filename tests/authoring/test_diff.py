"""diff: what two packages differ in by meaning, whatever their format, layout and packing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortpkg.authoring.create import add_variant, create, remove_variant
from ortpkg.authoring.diff import diff
from ortpkg.authoring.model_diff import Change, ComparedModel, ModelDiff, diff_models
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.sharing.dedup import dedup
from ortpkg.foundations.errors import ModelFileError, PackageNotFoundError
from ortpkg.package.package_info import PackageFormat
from tests.authoring.weight_models import (
    copy_of,
    edit_metadata,
    external,
    make_model,
    make_package,
    weight,
)

WEIGHTS = {"w0": weight(0), "w1": weight(1)}
DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    models = {
        "a": make_model(tmp_path / "a", WEIGHTS),
        "b": make_model(tmp_path / "b", WEIGHTS | {"w1": weight(5)}),
    }
    return make_package(tmp_path / "p.ortpackage", models)


def model_diff(old: Path, new: Path) -> ModelDiff:
    return diff_models(
        ComparedModel(path=old, data_folder=old.parent),
        ComparedModel(path=new, data_folder=new.parent),
    )


def save(path: Path, text: str, **tensors: TensorProto) -> Path:
    """A model from text with these initializers."""
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')
    for name, tensor in tensors.items():
        tensor.name = name
        model.graph.initializer.append(tensor)
    path.write_bytes(model.SerializeToString())
    return path


def test_a_package_equals_itself_and_its_copy(package: Path) -> None:
    assert diff(package, package).is_equal
    assert diff(DIGITS, DIGITS).is_equal


def test_format_layout_and_packing_make_no_difference(package: Path, tmp_path: Path) -> None:
    shared = copy_of(package, "shared")
    assert dedup(shared).saved_nbytes > 0
    embedded = {
        "a": make_model(tmp_path / "ea", WEIGHTS, embedded=list(WEIGHTS), name="other.onnx"),
        "b": make_model(
            tmp_path / "eb", WEIGHTS | {"w1": weight(5)}, packing=["w1", "w0"], padding=64
        ),
    }
    variants = [
        NewVariant(model=path, name=name, ep=ep)
        for (name, path), ep in zip(embedded.items(), ("cpu", "cuda"), strict=True)
    ]
    others = [
        create(tmp_path / form / "p", variants, name="p", form=form).root for form in made(tmp_path)
    ]

    for other in (shared, *others):
        found = diff(package, other)
        assert found.is_equal, found
        assert found.old_nbytes != found.new_nbytes


def made(tmp_path: Path) -> list[PackageFormat]:
    for form in PackageFormat:
        (tmp_path / form).mkdir()
    return list(PackageFormat)


def test_names_components_and_variants_that_came_and_went(package: Path, tmp_path: Path) -> None:
    other = copy_of(package, "other")
    remove_variant(other, "b")
    add_variant(other, make_model(tmp_path / "c", WEIGHTS), variant="c")
    add_variant(other, make_model(tmp_path / "d", WEIGHTS), component="second", variant="d")

    found = diff(package, other)
    back = diff(other, package)

    assert (found.variants_removed, found.variants_added) == ((("model", "b"),), (("model", "c"),))
    assert (found.components_removed, found.components_added) == ((), ("second",))
    assert (back.variants_removed, back.components_removed) == ((("model", "c"),), ("second",))
    assert not found.is_equal
    assert found.variants_changed == ()


EDITS: dict[str, tuple[Callable[[dict[str, dict[str, object]]], object], Change]] = {
    "constraint": (
        lambda variants: variants["b"].update(constraints={"ep": "QNNExecutionProvider"}),
        Change(what="constraint ep", old="CUDAExecutionProvider", new="QNNExecutionProvider"),
    ),
    "option": (
        lambda variants: variants["b"].update(session_options={"session.log_id": "x"}),
        Change(what="session option session.log_id", old=None, new="x"),
    ),
    "fact": (
        lambda variants: variants["b"].update(
            metadata={"opset": 17, "nodes": 2, "data_types": ["float"], "k": 1}
        ),
        Change(what="fact k", old=None, new=1),
    ),
    "additional metadata": (
        lambda variants: variants["b"].update(additional_metadata={"x": 1}),
        Change(what="additional_metadata", old=None, new={"x": 1}),
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_names_what_a_variant_needs_or_says_otherwise(package: Path, edit: str) -> None:
    other = copy_of(package, "other")
    edit_metadata(other, EDITS[edit][0])

    (found,) = diff(package, other).variants_changed

    assert (found.component, found.variant) == ("model", "b")
    assert EDITS[edit][1] in found.facts
    assert found.model is not None
    assert found.model.is_empty


def test_names_facts_of_the_package_and_the_order_of_variants(package: Path) -> None:
    other = copy_of(package, "other")
    path = edit_metadata(other, lambda variants: variants.update({"a": variants.pop("a")}))
    assert list(json.loads(path.read_bytes())["model_variants"]) == ["b", "a"]
    manifest = json.loads((other / "manifest.json").read_bytes()) | {
        "model_version": "2",
        "description": "d",
    }
    (other / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")

    found = diff(package, other)

    assert found.facts == (
        Change(what="package version", old=None, new="2"),
        Change(what="package description", old=None, new="d"),
        Change(what="order of variants of model", old=["a", "b"], new=["b", "a"]),
    )
    assert (found.old_format, found.new_format) == ("universal", "metadata")


def test_names_samples_that_differ(tmp_path: Path) -> None:
    other = Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))
    samples = sorted(path for path in (other / "samples").iterdir() if path.suffix == ".npz")
    samples[0].write_bytes(samples[1].read_bytes())

    found = diff(DIGITS, other)

    assert list(found.files) == [f"samples/{samples[0].name}"]
    assert not found.is_equal


def test_compares_sets_of_files_by_their_files(tmp_path: Path) -> None:
    def make(name: str, vocabulary: str) -> Path:
        make_model(tmp_path / name, WEIGHTS)
        (tmp_path / name / "genai_config.json").write_text("{}", encoding="utf-8")
        (tmp_path / name / "vocab.txt").write_text(vocabulary, encoding="utf-8")
        shutil.copy(tmp_path / name / "model.onnx", tmp_path / name / "second.onnx")
        return create(
            tmp_path / f"{name}.p",
            [NewVariant(model=tmp_path / name, name="v", ep="cpu")],
            name="p",
        ).root

    found = diff(make("one", "a"), make("two", "b"))

    (variant,) = found.variants_changed
    assert list(variant.files) == ["vocab.txt"]
    assert variant.model is None
    assert variant.old_nbytes > 2048


class TestModels:
    def test_names_changed_added_and_removed_weights_with_the_largest_difference(
        self, tmp_path: Path
    ) -> None:
        changed = weight(0).copy()
        changed[3, 4] += 0.25
        old = make_model(tmp_path / "a", WEIGHTS | {"gone": weight(3)})
        new = make_model(tmp_path / "b", {"w0": changed, "w1": weight(1), "wide": weight(4)})

        found = model_diff(old, new)

        assert [each.name for each in found.weights] == ["w0", "gone", "wide"]
        assert found.weights[0].largest_difference == pytest.approx(0.25)
        assert (found.weights[1].new, found.weights[2].old) == (None, None)
        assert found.weights[0].old is not None
        assert (found.weights[0].old.type, found.weights[0].old.shape) == ("float", (16, 16))
        assert found.equal_weights == 1

    @pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int64, np.complex64, np.bool_])
    def test_types_and_shapes_count(self, tmp_path: Path, dtype: type) -> None:
        text = "g (float[1] x) => (float[1] y) { y = Identity(x) }"
        zeros = numpy_helper.from_array(np.zeros(4, dtype=dtype))
        ones = numpy_helper.from_array(np.ones(4, dtype=dtype))
        square = numpy_helper.from_array(np.zeros((2, 2), dtype=dtype))
        old, new = save(tmp_path / "a.onnx", text, w=zeros), save(tmp_path / "b.onnx", text, w=ones)

        (found,) = model_diff(old, new).weights
        (shaped,) = model_diff(old, save(tmp_path / "c.onnx", text, w=square)).weights

        assert found.largest_difference == (None if dtype is np.bool_ else 1.0)
        assert shaped.largest_difference is None

    def test_typed_fields_raw_data_and_external_data_are_the_same_to_it(
        self, tmp_path: Path
    ) -> None:
        text = "g (float[16,16] x) => (float[16,16] y) { y = MatMul(x, w) }"
        array = weight(1)
        (tmp_path / "w.bin").write_bytes(b"pad!" + array.tobytes())
        models = [
            save(tmp_path / "raw.onnx", text, w=numpy_helper.from_array(array)),
            save(
                tmp_path / "typed.onnx",
                text,
                w=helper.make_tensor("w", 1, (16, 16), array.reshape(-1).tolist()),
            ),
            save(tmp_path / "external.onnx", text, w=external("w", array, "w.bin", 4)),
        ]

        assert all(model_diff(models[0], other).is_empty for other in models)

    @pytest.mark.parametrize(
        ("text", "operators", "nodes"),
        [
            ("(float[1,4] x) => (float[1,4] y) { h = Relu(x) y = Neg(h) }", {}, (0, 0)),
            (
                "(float[1,4] x) => (float[1,4] y) { h = Relu(x) y = Abs(h) }",
                {"Abs": (0, 1), "Neg": (1, 0)},
                (1, 1),
            ),
            ("(float[1,4] x) => (float[1,4] y) { y = Neg(x) h = Relu(y) }", {}, (2, 2)),
            (
                "(float[1,4] x) => (float[1,4] y) { h = Relu(x) y = Neg(h) z = Neg(h) }",
                {"Neg": (1, 2)},
                (0, 1),
            ),
        ],
    )
    def test_names_operators_and_nodes(
        self,
        tmp_path: Path,
        text: str,
        operators: dict[str, tuple[int, int]],
        nodes: tuple[int, int],
    ) -> None:
        old = save(
            tmp_path / "a.onnx", "g (float[1,4] x) => (float[1,4] y) { h = Relu(x) y = Neg(h) }"
        )
        new = save(tmp_path / "b.onnx", f"g {text}")

        found = model_diff(old, new)

        assert found.operators == {f"ai.onnx::{name}": counts for name, counts in operators.items()}
        assert (found.nodes_removed, found.nodes_added) == nodes

    def test_an_attribute_deep_in_a_sub_graph_counts_and_names_and_documentation_do_not(
        self, tmp_path: Path
    ) -> None:
        def make(name: str, axis: int, doc: str) -> Path:
            text = f"""g (float[2,2] x, bool c) => (float[2,2] y) {{
                y = If (c) <
                    then_branch = t () => (float[2,2] a) {{ a = Softmax <axis = {axis}> (x) }},
                    else_branch = e () => (float[2,2] b) {{ b = Identity(x) }}>
            }}"""
            path = save(tmp_path / name, text)
            model = onnx.load(path)
            model.graph.node[0].name = doc
            model.graph.node[0].doc_string = doc
            model.graph.node[0].attribute[0].g.node[0].name = doc
            path.write_bytes(model.SerializeToString())
            return path

        assert model_diff(make("a.onnx", 0, "one"), make("b.onnx", 0, "two")).is_empty
        found = model_diff(make("c.onnx", 0, "one"), make("d.onnx", 1, "one"))
        assert (found.operators, found.nodes_removed, found.nodes_added) == ({}, 1, 1)

    def test_names_opsets_inputs_outputs_and_metadata(self, tmp_path: Path) -> None:
        old = save(tmp_path / "a.onnx", "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
        new = save(tmp_path / "b.onnx", "g (float16[N,4] x) => (float16[N,4] y) { y = Relu(x) }")
        model = onnx.load(new)
        model.opset_import[0].version = 18
        helper.set_model_props(model, {"k": "v"})
        new.write_bytes(model.SerializeToString())

        assert model_diff(old, new).facts == (
            Change(what="opset ai.onnx", old=17, new=18),
            Change(what="input x", old="tensor(float)[N, 4]", new="tensor(float16)[N, 4]"),
            Change(what="output y", old="tensor(float)[N, 4]", new="tensor(float16)[N, 4]"),
            Change(what="metadata k", old=None, new="v"),
        )

    def test_weights_in_constants_and_sparse_tensors_count_wherever_they_lie(
        self, tmp_path: Path
    ) -> None:
        def make(folder: str, seed: int, offset: int) -> Path:
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "w.bin").write_bytes(bytes(offset) + weight(seed).tobytes())
            tensor = external("c", weight(seed), "w.bin", offset)
            node = helper.make_node("Constant", [], ["y"], value=tensor)
            y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 16])
            indices = numpy_helper.from_array(np.arange(3, dtype=np.int64))
            values = numpy_helper.from_array(np.full(3, seed, dtype=np.float32), "s")
            sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=[9])
            graph = helper.make_graph([node], "g", [], [y], sparse_initializer=[sparse])
            model = helper.make_model(
                graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
            )
            path = tmp_path / folder / "model.onnx"
            path.write_bytes(model.SerializeToString())
            return path

        old = make("a", 1, 0)

        assert model_diff(old, make("b", 1, 128)).is_empty
        found = model_diff(old, make("c", 2, 0))
        assert (found.nodes_removed, found.nodes_added) == (2, 2)


def test_a_damaged_model_is_named(package: Path) -> None:
    other = copy_of(package, "other")
    (other / "models/model/a/weights.bin").write_bytes(b"short")

    with pytest.raises(ModelFileError, match=r"data file 'weights.bin' in '.*' is too short"):
        diff(package, other)


def test_refuses_what_is_no_package(package: Path, tmp_path: Path) -> None:
    with pytest.raises(PackageNotFoundError, match="is not a model package"):
        diff(package, tmp_path)
