"""Operators of domains of one's own: declared, registered, held against their definition, run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ortpkg
from ortpkg.foundations.errors import InvalidGraphError, KernelNotFoundError, RunError, UsageError
from ortpkg.graph.custom_op_registry import has_custom_op

pytestmark = pytest.mark.usefixtures("warm_processes")

_DOMAIN = "acme.test"
_PAGE = Path(__file__).resolve().parents[2] / "docs" / "custom_operators.md"


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    for domain in (_DOMAIN, "acme.audio"):
        if has_custom_op(domain, "Gain") or has_custom_op(domain, "Op"):
            ortpkg.unregister_custom_ops(domain)


def session_of(graph: str) -> ortpkg.InferenceSession:
    text = f'<ir_version: 10, opset_import: ["" : 21, "{_DOMAIN}" : 3]>\n{graph}'
    return ortpkg.InferenceSession(onnx.parser.parse_model(text).SerializeToString())


def op(compute: Callable[..., Any], **declared: Any) -> ortpkg.CustomOp:
    """An operator T → T, but for what is declared otherwise."""
    defaults: dict[str, Any] = {
        "inputs": {"x": "T"},
        "outputs": {"y": "T"},
        "types": {"T": ("float", "double")},
    }
    made = {**defaults, **declared}
    if "T" not in {
        text.rstrip("?*") for each in ("inputs", "outputs") for text in made[each].values()
    }:
        made["types"] = {}
    return ortpkg.custom_op(_DOMAIN, "Op", **made)(compute)


def registered(compute: Callable[..., Any], **declared: Any) -> None:
    ortpkg.register_custom_ops([op(compute, **declared)])


# --- running --------------------------------------------------------------------------------------


def test_a_kernel_runs_between_operators_of_onnx() -> None:
    registered(lambda x: x * 2)
    session = session_of(
        "g (float[N] x) => (float[N] y) { a = Neg(x) b = acme.test.Op(a) y = Abs(b) }"
    )
    assert session.run(None, {"x": np.array([1, -3], np.float32)})[0].tolist() == [2, 6]


def test_attributes_come_by_name_with_their_defaults() -> None:
    seen: list[dict[str, Any]] = []

    def compute(x: Any, **attributes: Any) -> Any:
        seen.append(attributes)
        return x.copy()

    registered(
        compute,
        attributes={"gain": 1.5, "mode": "up", "count": int, "axes": [0, 1], "names": list[str]},
    )
    graph = (
        'g (float[2] x) => (float[2] y) { y = acme.test.Op <count = 4, names = ["a", "b"]> (x) }'
    )
    session_of(graph).run(None, {"x": np.zeros(2, np.float32)})
    assert seen == [{"gain": 1.5, "mode": "up", "count": 4, "axes": [0, 1], "names": ["a", "b"]}]


def test_optional_and_variadic_inputs() -> None:
    seen: list[int] = []

    def compute(x: Any, scale: Any, *rest: Any) -> Any:
        seen.append(len(rest))
        return sum(rest, x if scale is None else x * scale)

    registered(compute, inputs={"x": "T", "scale": "T?", "rest": "T*"})
    graph = (
        "g (float[1] x) => (float[1] y, float[1] z) { y = acme.test.Op(x, , x, x) z ="
        " acme.test.Op(x, x) }"
    )
    session = session_of(graph)
    assert [each.tolist() for each in session.run(None, {"x": np.array([2], np.float32)})] == [
        [6],
        [4],
    ]
    assert seen == [2, 0]


def test_several_outputs_of_other_types() -> None:
    registered(
        lambda x: (np.asarray(x.size, np.int64), np.array(["many", "few"], object)),
        outputs={"count": "int64", "words": "string"},
    )
    session = session_of("g (float[N] x) => (int64 n, string[2] w) { n, w = acme.test.Op(x) }")
    count, words = session.run(None, {"x": np.zeros(3, np.float32)})
    assert (count.tolist(), words.tolist()) == (3, ["many", "few"])


def test_inputs_cannot_be_written_to() -> None:
    def compute(x: Any) -> Any:
        x[:] = 0
        return x

    registered(compute)
    session = session_of("g (float[1] x) => (float[1] y) { y = acme.test.Op(x) }")
    with pytest.raises(RunError, match="read-only"):
        session.run(None, {"x": np.ones(1, np.float32)})


def test_an_output_that_is_an_input_is_copied() -> None:
    registered(lambda x: x)
    feed = np.ones(2, np.float32)
    (y,) = session_of("g (float[2] x) => (float[2] y) { y = acme.test.Op(x) }").run(
        None, {"x": feed}
    )
    assert not np.shares_memory(y, feed)
    assert y.flags.writeable


def test_versions_stand_beside_each_other() -> None:
    ortpkg.register_custom_ops([op(lambda x: x + 1), op(lambda x: x + 3, version=3)])
    graph = "g (float[1] x) => (float[1] y) { y = acme.test.Op(x) }"
    newer = session_of(graph).run(None, {"x": np.zeros(1, np.float32)})[0]
    text = f'<ir_version: 10, opset_import: ["" : 21, "{_DOMAIN}" : 2]>\n{graph}'
    older = ortpkg.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    assert (newer.tolist(), older.run(None, {"x": np.zeros(1, np.float32)})[0].tolist()) == (
        [3],
        [1],
    )


def test_unregistered_operators_go_on_in_sessions_that_have_them() -> None:
    registered(lambda x: x + 1)
    graph = "g (float[1] x) => (float[1] y) { y = acme.test.Op(x) }"
    session = session_of(graph)
    ortpkg.unregister_custom_ops(_DOMAIN)
    assert session.run(None, {"x": np.zeros(1, np.float32)})[0].tolist() == [1]
    with pytest.raises(KernelNotFoundError, match=r"'Op' of domain 'acme\.test'"):
        session_of(graph)


# --- types and shapes -----------------------------------------------------------------------------


def test_shapes_take_part_in_inference() -> None:
    registered(
        lambda x, k: np.repeat(x, k, axis=0),
        attributes={"k": 2},
        output_shapes=lambda x, k: [(x[0] * k, x[1])],
    )
    session = session_of(
        "g (float[3,4] x) => (float[A,B] y) { a = acme.test.Op <k = 5> (x) b = Transpose(a) y ="
        " Exp(b) }"
    )
    planned = {value.name: value for value in session.get_plan().graph.values}
    assert planned["b"].nbytes == 15 * 4 * 4


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("y = acme.test.Op(i)", r"takes 'i', a tensor\(int64\)"),
        ("y = acme.test.Op(x, x)", "has 2 inputs; Op of version 1 has 1"),
        ("y = acme.test.Op <gain = 1> (x)", "'gain' of type INT; FLOAT was expected"),
    ],
)
def test_nodes_are_held_against_the_definition(node: str, message: str) -> None:
    registered(lambda x, gain: x, attributes={"gain": 1.0})
    with pytest.raises(InvalidGraphError, match=message):
        session_of(f"g (float[2] x, int64[2] i) => (float[2] y) {{ {node} }}")


def test_a_missing_attribute_is_found_when_the_model_is_read() -> None:
    registered(lambda x, gain: x, attributes={"gain": float})
    with pytest.raises(InvalidGraphError, match="lacks the attribute 'gain'"):
        session_of("g (float[2] x) => (float[2] y) { y = acme.test.Op(x) }")


def test_what_output_shapes_raises_is_an_invalid_graph() -> None:
    def shapes(x: Any) -> Any:
        raise ValueError("only matrices, please")

    registered(lambda x: x, output_shapes=shapes)
    with pytest.raises(
        InvalidGraphError, match=r"'acme\.test\.Op' refuses the shapes .* only matrices, please"
    ):
        session_of("g (float[2] x) => (float[2] y) { y = acme.test.Op(x) }")


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (
            lambda x: x.astype(np.float64),
            "output 0 is of 'float64'; the definition says tensor\\(float\\)",
        ),
        (lambda x: x[:1], r"output 0 has the shape \(1,\); \(2,\) was inferred"),
        (lambda x: [1.0, 2.0], "output 0 is a list"),
        (lambda x: (), "the kernel returned 0 outputs; the node has 1"),
        (lambda x: 1 // 0, "division"),
    ],
)
def test_what_a_kernel_makes_is_checked(compute: Callable[..., Any], message: str) -> None:
    registered(compute, output_shapes=lambda x: [x])
    session = session_of("g (float[2] x) => (float[2] y) { y = acme.test.Op(x) }")
    with pytest.raises(RunError, match=f"Op_0.*{message}"):
        session.run(None, {"x": np.zeros(2, np.float32)})


# --- registering ----------------------------------------------------------------------------------


def test_registering_the_same_operator_again_is_no_error() -> None:
    operator = op(lambda x: x)
    ortpkg.register_custom_ops([operator])
    ortpkg.register_custom_ops([operator])
    with pytest.raises(UsageError, match="of version 1 is registered already"):
        registered(lambda x: x)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            {"inputs": {"x": "flaot"}, "outputs": {"y": "float"}},
            "there is no type or constraint 'flaot'",
        ),
        ({"inputs": {"x": "T*", "z": "T"}}, "'x' may be many, so it must be the last"),
        (
            {"types": {"T": ("float",), "U": ("float",)}},
            "no input or output is of the constraint 'U'",
        ),
        ({"attributes": {"a": object()}}, "attribute 'a' cannot have the default"),
        ({"outputs": {}}, "at least one output"),
        ({"version": 0}, "its version is a number from 1 on"),
    ],
)
def test_a_declaration_that_makes_no_sense(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        registered(lambda x: x, **declared)
    assert not has_custom_op(_DOMAIN, "Op")


@pytest.mark.parametrize(
    "domain", ["", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"]
)
def test_domains_of_others_are_refused(domain: str) -> None:
    operator = ortpkg.custom_op(domain, "Mine", inputs={"x": "float"}, outputs={"y": "float"})(
        lambda x: x
    )
    with pytest.raises(UsageError):
        ortpkg.register_custom_ops([operator])
    assert not ortpkg.has_kernel(domain, "Mine")


def test_all_are_registered_or_none() -> None:
    good = op(lambda x: x)
    with pytest.raises(UsageError, match="registered already"):
        ortpkg.register_custom_ops([good, op(lambda x: x + 1)])
    assert not has_custom_op(_DOMAIN, "Op")
    ortpkg.register_custom_ops([good])


def test_only_operators_are_registered() -> None:
    with pytest.raises(UsageError, match="made by custom_op"):
        ortpkg.register_custom_ops([print])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="no operators of domain"):
        ortpkg.unregister_custom_ops("acme.nothing")


def test_has_kernel_knows_ours_the_reference_s_and_registered_ones() -> None:
    known = [
        ("", "Relu"),
        ("ai.onnx", "Det"),
        ("com.microsoft", "Gelu"),
        ("ai.onnx.ml", "Binarizer"),
    ]
    assert all(ortpkg.has_kernel(*each) for each in known)
    assert not ortpkg.has_kernel("", "NoSuchOperator")
    assert not ortpkg.has_kernel(_DOMAIN, "Op")
    registered(lambda x: x)
    assert ortpkg.has_kernel(_DOMAIN, "Op")


# --- the page, and operators of an installed distribution -----------------------------------------


def test_the_page_s_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(_PAGE), "exec"), names)


_OPERATORS = """
import ortpkg
@ortpkg.custom_op("acme.site", "Twice", inputs={"x": "float"}, outputs={"y": "float"})
def twice(x):
    return x + x
OPERATORS = [twice]
"""


def test_a_distribution_brings_operators_for_commands_too(tmp_path: Path) -> None:
    site, information = tmp_path / "site", tmp_path / "site" / "acme_site-1.0.dist-info"
    information.mkdir(parents=True)
    (site / "acme_site.py").write_text(_OPERATORS, encoding="utf-8")
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-site\nVersion: 1.0\n", encoding="utf-8"
    )
    points = "[ortpkg.custom_ops]\nacme.site = acme_site:OPERATORS\n"
    (information / "entry_points.txt").write_text(points, encoding="utf-8")
    graph = "g (float[2] x) => (float[2] y) { y = acme.site.Twice(x) }"
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21, "acme.site" : 1]>\n{graph}'
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    program = (
        f"import numpy as np, ortpkg; s = ortpkg.InferenceSession({str(path)!r});print(s.run(None,"
        " {'x': np.ones(2, np.float32)})[0].tolist(), ortpkg.has_kernel('acme.site', 'Twice'))"
    )
    variables = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert (done.stdout, done.stderr) == ("[2.0, 2.0] True\n", "")
