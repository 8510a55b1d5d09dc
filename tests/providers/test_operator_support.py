"""Which operators beyond ONNX's own each backend has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from ortpkg.foundations.errors import ExecutionProviderError
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer
from ortpkg.graph.needed_operators import ModelOperators, OnnxOperator, Operator
from ortpkg.runtime.kernels.cpu_kernels import cpu_kernel_registry
from ortpkg.runtime.providers import operator_support
from ortpkg.runtime.providers.cpu_factory import CpuEpFactory
from ortpkg.runtime.providers.ep_factory import EpFactory
from ortpkg.runtime.providers.llvm.llvm_factory import LlvmEpFactory
from ortpkg.runtime.providers.onnxruntime_factory import OnnxRuntimeEpFactory
from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory
from ortpkg.runtime.providers.operator_support import (
    OperatorSupport,
    is_public_operator,
    native_support,
    plugin_support,
    read_operators,
    support_of_absent,
    who_has,
)
from ortpkg.runtime.providers.operator_tables import (
    EMBEDDED_CONTRIB_OPERATORS,
    ONNXRUNTIME_CONTRIB_OPERATORS,
)

pytestmark = pytest.mark.usefixtures("warm_processes")

CUSTOM = ("com.acme", "Frobnicate")
NO_SUCH = ("com.microsoft", "NoSuchOperator")
GELU = ("com.microsoft", "Gelu")
#: onnxruntime's CPU provider has it; neither the embedded engine nor OpenVINO does.
QUANTIZED_ATTENTION = ("com.microsoft", "QAttention")
#: OpenVINO has it; onnxruntime defines it, for other devices than the CPU.
GROUP_NORM = ("com.microsoft", "GroupNorm")
#: OpenVINO's own domain.
SWISH = ("org.openvinotoolkit", "Swish")
ALL = ModelOperators(operators=(CUSTOM, NO_SUCH, GELU, QUANTIZED_ATTENTION, GROUP_NORM, SWISH))


def test_the_table_of_the_embedded_engine_is_its_registry() -> None:
    kernels = cpu_kernel_registry().definitions()
    assert {
        each.op_type for each in kernels if each.domain == "com.microsoft"
    } == EMBEDDED_CONTRIB_OPERATORS
    assert {each.domain for each in kernels} == {
        "",
        "ai.onnx.ml",
        "ai.onnx.preview",
        "com.microsoft",
    }


def test_the_table_of_onnxruntime_is_what_it_defines() -> None:
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    defined = {
        each.name for each in state.get_all_operator_schema() if each.domain == "com.microsoft"
    }
    if onnxruntime.__version__.startswith("1.31."):
        assert defined <= ONNXRUNTIME_CONTRIB_OPERATORS
    assert EMBEDDED_CONTRIB_OPERATORS | {"EPContext"} <= ONNXRUNTIME_CONTRIB_OPERATORS
    assert [is_public_operator(each) for each in (CUSTOM, NO_SUCH, GELU, SWISH)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("factory", "missing"),
    [
        (CpuEpFactory(), (CUSTOM, NO_SUCH, QUANTIZED_ATTENTION, GROUP_NORM, SWISH)),
        (LlvmEpFactory(), (CUSTOM, NO_SUCH, QUANTIZED_ATTENTION, GROUP_NORM, SWISH)),
        (OpenVinoEpFactory(), (CUSTOM, NO_SUCH, QUANTIZED_ATTENTION)),
        (OnnxRuntimeEpFactory("CPUExecutionProvider"), (CUSTOM, NO_SUCH, GROUP_NORM, SWISH)),
        (OnnxRuntimeEpFactory("AzureExecutionProvider"), (CUSTOM, NO_SUCH, GROUP_NORM, SWISH)),
        # Compiles what it takes, so that a definition is all that can be asked for.
        (OnnxRuntimeEpFactory("OpenVINOExecutionProvider"), (CUSTOM, NO_SUCH, SWISH)),
    ],
    ids=lambda each: f"{each.ep_name}-{each.backend}" if isinstance(each, EpFactory) else "",
)
@pytest.mark.requirement("K12")
def test_each_backend_lacks_what_neither_it_nor_the_embedded_engine_has(
    factory: EpFactory, missing: tuple[Operator, ...]
) -> None:
    assert factory.operator_support(ALL) == OperatorSupport(
        missing=ModelOperators(operators=missing)
    )


@pytest.mark.requirement("E10", "E35")
def test_contexts_are_for_the_provider_that_their_source_names() -> None:
    needed = ModelOperators(
        context_sources=("", "OpenVINO", "OpenVINOExecutionProvider", "LLVMExecutionProvider")
    )

    def missing(factory: EpFactory) -> tuple[str, ...]:
        return factory.operator_support(needed).missing.context_sources

    assert missing(CpuEpFactory()) == needed.context_sources
    assert missing(LlvmEpFactory()) == ("", "OpenVINO", "OpenVINOExecutionProvider")
    assert missing(OpenVinoEpFactory()) == ("OpenVINO", "LLVMExecutionProvider")
    assert OpenVinoEpFactory().operator_support(needed).unknown.context_sources == ("",)


def test_a_library_that_crashes_over_one_operator_is_asked_for_each() -> None:
    def ask(operators: Sequence[Operator]) -> Iterable[Operator]:
        if GROUP_NORM in operators:
            raise ExecutionProviderError("it crashed", ep_name="Acme")
        return [each for each in operators if each == CUSTOM]

    needed = ModelOperators(operators=(CUSTOM, GROUP_NORM, SWISH))
    assert native_support(needed, ep_name="Acme", ask=ask) == OperatorSupport(
        missing=ModelOperators(operators=(CUSTOM,)), unknown=ModelOperators(operators=(GROUP_NORM,))
    )


def test_nothing_is_asked_about_operators_that_the_embedded_engine_has() -> None:
    def ask(_operators: Sequence[Operator]) -> Iterable[Operator]:
        raise AssertionError("asked")

    assert (
        native_support(ModelOperators(operators=(GELU,)), ep_name="Acme", ask=ask)
        == OperatorSupport()
    )


IRREGULAR = tuple(
    OnnxOperator("", *each) for each in (("Affine", 9), ("Gelu", 17), ("LayerNormalization", 13))
)


@pytest.mark.parametrize(
    ("factory", "missing"),
    [
        (CpuEpFactory(), IRREGULAR[:2]),
        (LlvmEpFactory(), IRREGULAR[:2]),
        (OnnxRuntimeEpFactory("CPUExecutionProvider"), IRREGULAR[1:2]),
        (OpenVinoEpFactory(), ()),
    ],
    ids=["cpu", "llvm", "onnxruntime", "openvino"],
)
def test_operators_that_onnx_does_not_define_there_are_in_some_backends(
    factory: EpFactory, missing: tuple[OnnxOperator, ...]
) -> None:
    needed = ModelOperators(undefined=IRREGULAR)
    assert factory.operator_support(needed) == OperatorSupport(
        missing=ModelOperators(undefined=missing)
    )


def test_of_a_library_that_is_not_here_only_what_it_cannot_have_is_missing() -> None:
    needed = ModelOperators(operators=(CUSTOM,), undefined=IRREGULAR)
    assert support_of_absent(needed, backend="onnxruntime") == OperatorSupport(
        missing=ModelOperators(undefined=IRREGULAR[1:2]),
        unknown=ModelOperators(operators=(CUSTOM,)),
    )
    assert support_of_absent(needed, backend="acme") == OperatorSupport(unknown=needed)


def test_an_answer_that_is_none_is_not_believed() -> None:
    factory = OpenVinoEpFactory(
        ask_operators=lambda _arguments, _fingerprint: ProbeAnswer(value={"no": "list"})
    )
    assert factory.operator_support(ALL) == OperatorSupport()
    assert list(read_operators([["com.acme", "F"], ["x"], [1, 2], "no"])) == [("com.acme", "F")]


def test_the_hint_says_who_would_have_it() -> None:
    assert "onnxruntime-extensions" in who_has(("ai.onnx.contrib", "BertTokenizer"))
    assert "plug-in EP" in who_has(CUSTOM)


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_hint_asks_for_onnxruntime_only_where_that_would_help(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    monkeypatch.setattr(
        operator_support, "find_spec", lambda _name: object() if is_installed else None
    )
    assert ("pip install" in who_has(QUANTIZED_ATTENTION)) is not is_installed
    assert "onnxruntime" in who_has(QUANTIZED_ATTENTION)
    assert "pip install" not in who_has(NO_SUCH)
    assert "no known onnxruntime defines it" in who_has(NO_SUCH)


def test_a_plugin_has_its_own_contexts_and_what_the_embedded_engine_has() -> None:
    needed = ModelOperators(
        operators=(("com.acme", "Frobnicate"), ("com.microsoft", "Gelu")),
        context_sources=("Acme", "Other"),
    )
    support = plugin_support(needed, ep_name="Acme")
    assert not support.missing
    assert support.unknown == ModelOperators(
        operators=(("com.acme", "Frobnicate"),), context_sources=("Other",)
    )
    assert (
        plugin_support(ModelOperators(undefined=IRREGULAR), ep_name="Acme").unknown.undefined
        == IRREGULAR[:2]
    )
