"""Variants compiled for a device that is not here: marked, renewed alike, tried at first use."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import ortpkg
from ortpkg.api import model_package, model_variant
from ortpkg.authoring.compile_variants import compile_variants
from ortpkg.authoring.compile_wishes import CompileWishes, check_wishes, default_name
from ortpkg.foundations.errors import ExecutionProviderError, NoSuitableVariantError, UsageError
from ortpkg.foundations.isolation.child import ChildOutcome, ChildResult
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.package.derived_variants import compiled_unseen, derivation_of
from ortpkg.package.reader import open_package
from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory
from ortpkg.runtime.session import compile_models
from ortpkg.selection.matching.verdict import Selection, Verdict
from ortpkg.selection.measuring import canary as measuring_canary

_ACME = "AcmeExecutionProvider"
_DEVICE = EpDevice(
    ep_name=_ACME,
    device=HardwareDevice(
        type=DeviceType.NPU, vendor_id=0x1234, device_id=0x0B02, metadata={"is_virtual": "1"}
    ),
    backend="onnxruntime",
    ep_metadata={"platform": "4"},
)
_TEXT = '<ir_version: 8, opset_import: ["" : 17]> m (float[N] x) => (float[N] y) { y = Neg(x) }'


class _Compiler:
    """Makes what onnxruntime's compiler makes: a model with a context and a string."""

    def __init__(self, ep_device: EpDevice, options: Mapping[str, str]) -> None:
        assert ep_device is _DEVICE
        assert options == {"effort": "high"}

    def compile(self, source: Path, output: Path, **_: Any) -> None:
        model = onnx.load(source)
        del model.graph.node[:]
        model.graph.node.append(
            onnx.helper.make_node(
                "EPContext",
                ["x"],
                ["y"],
                domain="com.microsoft",
                embed_mode=1,
                main_context=1,
                ep_cache_context="compiled",
                source=_ACME,
                partition_name="all",
            )
        )
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        onnx.helper.set_model_props(model, {f"ep_compatibility_info.{_ACME}": "for platform 4"})
        onnx.save(model, output)


def _in_this_process(_function: str, arguments: Mapping[str, Any], **_: Any) -> ChildResult:
    value = compile_models.compile_for_parent(**arguments)
    return ChildResult(outcome=ChildOutcome.DONE, value=value)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from ortpkg.runtime.providers import onnxruntime_compiler

    monkeypatch.setattr(onnxruntime_compiler, "OnnxRuntimeCompiler", _Compiler)
    monkeypatch.setattr(compile_models, "call_in_child", _in_this_process)
    monkeypatch.setattr(compile_models, "find_absent_device", lambda _ep, _wanted: _DEVICE)
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(_TEXT), path)
    root = tmp_path / "p.ortpackage"
    ortpkg.create(root, [ortpkg.NewVariant(model=path, name="plain", ep="cpu")])
    return root


_WISHES = CompileWishes(ep=_ACME, for_device="npu", provider_options={"effort": "high"})


def test_the_variant_says_what_it_was_compiled_for_and_carries_the_eps_string(
    package: Path,
) -> None:
    (compiled,) = compile_variants(package, _WISHES, notify=lambda _note: None)

    variant = open_package(package).components[0].variant(compiled.name)
    assert variant is not None
    assert compiled.name == "plain-acme-npu"
    constraints = variant.constraints
    assert (constraints.ep, constraints.device) == (_ACME, "npu")
    assert constraints.ep_compatibility_info == "for platform 4"
    assert compiled_unseen(variant) == "npu,platform=4,device_id=1234:0b02"
    derivation = derivation_of(variant)
    assert derivation is not None
    assert derivation.made_by["reader"] == "onnxruntime"
    plain = open_package(package).components[0].variant("plain")
    assert plain is not None
    assert compiled_unseen(plain) == ""


def test_renewing_compiles_for_the_same_device(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_variants(package, _WISHES, notify=lambda _note: None)
    asked: list[str] = []

    def find(_ep: str, wanted: str) -> EpDevice:
        asked.append(wanted)
        return _DEVICE

    monkeypatch.setattr(compile_models, "find_absent_device", find)
    renewal = CompileWishes(ep=_ACME, renews=True, variants=("plain-acme-npu",))
    compile_variants(package, renewal, notify=lambda _note: None)

    assert asked == ["npu,platform=4,device_id=1234:0b02"]


def test_without_an_ep_those_that_compile_here_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenVinoEpFactory, "is_available", lambda _self: False)
    said = r"take --ep EP, as --ep llvm; ortpkg ep list shows"
    with pytest.raises(UsageError, match=said):
        check_wishes(replace(_WISHES, ep="", for_device=""))


@pytest.mark.parametrize("also", [{"device": "npu"}, {"targets": ("linux-x86_64_v3",)}])
def test_the_device_is_named_once(also: Mapping[str, Any]) -> None:
    with pytest.raises(UsageError, match="--for-device names the device itself"):
        check_wishes(replace(_WISHES, **also))


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("npu,platform=4000", "plain-acme-npu-platform-4000"),
        ("/private/folder/Target-1.json", "plain-acme-target-1"),
    ],
)
def test_the_name_says_the_device_and_no_folder(wanted: str, name: str) -> None:
    from ortpkg.authoring.compile_wishes import suffixes_and_options

    wishes = replace(_WISHES, for_device=wanted)
    ((short, _),) = suffixes_and_options(wishes)
    assert default_name("plain", short, wishes) == name


def test_a_device_that_is_not_offered_is_the_error_of_the_command(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_ep: str, _wanted: str) -> EpDevice:
        raise NoSuitableVariantError("it compiles for no 'npu'")

    monkeypatch.setattr(compile_models, "find_absent_device", refuse)
    with pytest.raises(NoSuitableVariantError, match="it compiles for no 'npu'"):
        compile_variants(package, _WISHES, notify=lambda _note: None)


@pytest.mark.parametrize("is_unseen", [False, True])
def test_its_first_use_is_a_try_in_a_child_process(
    is_unseen: bool, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Any] = []

    def by_canary(
        self: ortpkg.ModelPackage, component: object, canary: object, *_: object
    ) -> Selection:
        tried.append(canary)
        return self.select()

    monkeypatch.setattr(ortpkg.ModelPackage, "_select_by_canary", by_canary)
    monkeypatch.setattr(model_package, "compiled_unseen", lambda _variant: "npu" * is_unseen)

    ortpkg.ModelPackage(package).best_variant()

    assert tried == [True] * is_unseen


@pytest.mark.parametrize("way", ["variant", "best_variant", "unpickled", "component"])
@pytest.mark.parametrize("problem", ["", "it was ended by SIGSEGV"])
def test_every_way_to_a_session_tries_it_once_in_a_child_process(
    way: str, problem: str, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def try_it(_package: object, verdict: Verdict, *_: object, **__: object) -> str:
        tried.append(verdict.variant.name)
        return problem

    monkeypatch.setattr(measuring_canary, "_try", try_it)
    for module in (model_package, model_variant):
        monkeypatch.setattr(module, "compiled_unseen", lambda _variant: "npu")
    opened = ortpkg.ModelPackage(package)
    if way == "best_variant" and problem:
        with pytest.raises(NoSuitableVariantError, match="failed its first try"):
            opened.best_variant()
        return
    ways: dict[str, Callable[[], ortpkg.ModelVariant]] = {
        "variant": lambda: opened.variant("plain"),
        "best_variant": opened.best_variant,
        "unpickled": lambda: pickle.loads(pickle.dumps(opened.variant("plain"))),
        "component": lambda: opened.component_models[0].variant("plain"),
    }
    variant = ways[way]()

    if problem:
        with pytest.raises(ExecutionProviderError, match="first try in a child process failed: it"):
            variant.create_session()
    else:
        variant.create_session()
        variant.create_session(verify=False)

    assert tried == ["plain"]


def test_arguments_for_onnxruntime_are_given_after_a_try(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(measuring_canary, "_try", lambda *_, **__: "it crashed")
    monkeypatch.setattr(model_variant, "compiled_unseen", lambda _variant: "npu")

    with pytest.raises(ExecutionProviderError, match="'plain' was compiled for a device"):
        ortpkg.ModelPackage(package).variant("plain").onnxruntime_args()
