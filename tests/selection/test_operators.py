"""What is said of a variant whose model needs operators beyond its imported opsets."""

from __future__ import annotations

import pytest

from ortpkg.graph.needed_operators import ModelOperators, OnnxOperator
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers.operator_support import OperatorSupport, who_has
from ortpkg.selection.matching import operators
from ortpkg.selection.matching.candidate import Judgement
from ortpkg.selection.matching.operators import OperatorEvidence, judge_operators
from ortpkg.selection.matching.verdict import ReasonCode

DEVICE = EpDevice(ep_name="AcmeExecutionProvider", backend="acme", device=None)
PLACE = "AcmeExecutionProvider (acme)"


def custom(count: int) -> ModelOperators:
    return ModelOperators(operators=tuple(("acme.ops", f"Op{number}") for number in range(count)))


def judged(needed: ModelOperators, support: OperatorSupport | Exception) -> Judgement:
    def answer(ep_device: EpDevice, asked: ModelOperators) -> OperatorSupport:
        assert (ep_device, asked) == (DEVICE, needed)
        if isinstance(support, Exception):
            raise support
        return support

    return judge_operators(
        needed, DEVICE, OperatorEvidence(needs=lambda _variant: needed, support=answer)
    )


def rejection_of(needed: ModelOperators) -> str:
    outcome = judged(needed, OperatorSupport(missing=needed))
    assert (outcome.code, outcome.unchecked) == (ReasonCode.OPERATOR_NOT_AVAILABLE, ())
    return outcome.reason


def kept(told: str) -> Judgement:
    return Judgement(notes=(told,), unchecked=(told,))


def test_nothing_is_said_of_what_is_there() -> None:
    assert judged(custom(2), OperatorSupport()) == Judgement()


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (1, "operator 'acme.ops:Op0'"),
        (3, "operators 'acme.ops:Op0', 'acme.ops:Op1', 'acme.ops:Op2'"),
        (4, "operators 'acme.ops:Op0', 'acme.ops:Op1', 'acme.ops:Op2' and 1 more"),
        (9, "operators 'acme.ops:Op0', 'acme.ops:Op1', 'acme.ops:Op2' and 6 more"),
    ],
)
def test_three_missing_operators_are_named_and_the_others_counted(count: int, named: str) -> None:
    assert rejection_of(custom(count)).startswith(
        f"its model needs {named}, which {PLACE} does not have; a kernel"
    )


def test_the_hint_is_that_of_the_first_missing_operator() -> None:
    needed = ModelOperators(
        operators=(("com.microsoft", "QAttention"), ("org.openvinotoolkit", "Swish"))
    )
    assert f"does not have; {who_has(needed.operators[0])}" in rejection_of(needed)


@pytest.mark.parametrize(
    ("sources", "maker"),
    [
        (("QNN", "Acme"), "by 'QNNExecutionProvider'"),
        (("Acme", "QNN"), "by 'Acme'"),
        (("",), "by an execution provider that it does not name"),
    ],
)
def test_of_contexts_that_are_not_loaded_the_first_ones_maker_is_named(
    sources: tuple[str, ...], maker: str
) -> None:
    reason = rejection_of(ModelOperators(context_sources=sources))
    assert (
        reason
        == f"its model holds a context (EPContext) compiled {maker}, which {PLACE} does not load"
    )


def test_what_cannot_be_told_keeps_the_variant() -> None:
    outcome = judged(custom(2), OperatorSupport(unknown=custom(1)))
    assert outcome == kept(f"it cannot be told here whether {PLACE} has operator 'acme.ops:Op0'")
    context = ModelOperators(context_sources=("QNN",))
    outcome = judged(context, OperatorSupport(unknown=context))
    assert outcome.unchecked == (
        f"it cannot be told here whether {PLACE} has its compiled context",
    )


def test_what_is_missing_counts_before_what_cannot_be_told() -> None:
    needed = custom(2)
    assert judged(needed, OperatorSupport(missing=custom(1), unknown=needed)).code is not None


def test_a_backend_that_fails_to_tell_keeps_the_variant_and_says_why() -> None:
    outcome = judged(custom(1), ValueError("boom"))
    assert outcome == kept(f"{PLACE} failed to tell whether it has operator 'acme.ops:Op0': 'boom'")


GELU = OnnxOperator("", "Gelu", 17)


def test_an_operator_that_the_opset_lacks_is_told_with_the_one_that_has_it() -> None:
    needed = ModelOperators(undefined=(GELU, OnnxOperator("", "NoSuch", 17)))
    assert (
        rejection_of(needed)
        == "its model needs operators 'ai.onnx:Gelu' of opset 17, 'ai.onnx:NoSuch' of opset 17,"
        f" which {PLACE} does not have; ONNX has Gelu from opset 20 on"
    )


def test_what_an_ep_has_beyond_the_opset_keeps_the_variant_and_is_told() -> None:
    needed = ModelOperators(undefined=(GELU,))
    told = f"its model needs operator 'ai.onnx:Gelu' of opset 17, which {PLACE} has all the same; "
    told += "ONNX has Gelu from opset 20 on"
    assert judged(needed, OperatorSupport()) == kept(told)
    unknown = f"it cannot be told here whether {PLACE} has operator 'ai.onnx:Gelu' of opset 17"
    assert judged(needed, OperatorSupport(unknown=needed)) == kept(unknown)


@pytest.mark.parametrize("opset", [0, 25, 1000])
def test_a_model_of_an_opset_that_is_not_known_is_not_read(
    opset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "newest_opset_here", lambda: 25)
    outcome = judged(ModelOperators(opset=opset), OperatorSupport())
    reason = f"its model imports opset {opset} of ai.onnx; opsets 1 to 25 are known here"
    expected = Judgement(code=ReasonCode.OPERATOR_NOT_AVAILABLE, reason=reason)
    assert outcome == (Judgement() if opset == 25 else expected)
