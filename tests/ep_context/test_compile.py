"""``ortpkg compile`` and ``compile-models``: what they make, what failures leave."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ortpkg
from ortpkg.authoring.compile_wishes import CompileWishes
from ortpkg.authoring.compiling import compile_package
from ortpkg.cli.app import run as run_command_line
from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.errors import (
    AuthoringError,
    CompileError,
    DigestMismatchError,
    NoSuitableVariantError,
    TrustRequiredError,
    UnknownComponentError,
    UsageError,
)
from ortpkg.runtime.ep_context.ep_context_file import open_context_file
from ortpkg.runtime.providers import plugins
from ortpkg.runtime.providers.llvm.llvm_compatibility import compatibility_info, host_extras
from tests.ep_context.at_work import AtWork
from tests.ep_context.compiling import WIDTH, compiled, tree, two_models
from tests.ep_context.conftest import EXPECTED, X
from tests.ep_context.fake_compiler import NAME as FAKE


def test_a_compiled_variant_has_constraints_of_the_ep_and_is_chosen_and_runs(
    package: Path, machine: Path
) -> None:
    assert compiled(package) == ["model/plain-llvm"]
    opened = ortpkg.ModelPackage(package)
    constraints = opened.component().variant("plain-llvm").constraints  # type: ignore[union-attr]
    assert (constraints.ep, constraints.device) == ("LLVMExecutionProvider", "cpu")
    target = host_target()
    assert target is not None
    assert constraints.architecture == target.architecture
    assert constraints.ep_compatibility_info == compatibility_info(target, host_extras(target))
    assert ortpkg.verify(package).is_intact
    best = opened.best_variant()
    assert best.name == "plain-llvm"
    np.testing.assert_allclose(best.create_session().run(None, {"x": X})[0], EXPECTED, rtol=1e-5)
    assert len(list((machine / "contexts").iterdir())) == 1


def test_the_name_of_an_ep_that_compiled_a_model_is_no_unknown_name(
    package: Path, machine: Path
) -> None:
    """ONNX Runtime knows neither EP, but both are installed and have just compiled."""
    del machine
    for ep in ("llvm", FAKE):
        told: list[str] = []
        compile_package(package, CompileWishes(ep=ep), notify=told.append)
        assert told == []
    assert "ORT032" not in {each.rule for each in ortpkg.validate(package)}


def test_facts_of_the_source_are_kept_and_sizes_are_its_own(package: Path, machine: Path) -> None:
    del machine
    compiled(package)
    plain, made = ortpkg.ModelPackage(package).component().variants
    assert made.metadata["data_types"] == plain.metadata["data_types"]
    assert made.metadata["opset"] == plain.metadata["opset"]
    assert made.metadata["nodes"] == 1
    assert made.metadata["nbytes"] == sum(path.stat().st_size for path in made.directory.iterdir())


def test_embedded_contexts_need_no_second_file(package: Path, machine: Path) -> None:
    del machine
    compiled(package, is_embedded=True, name="single")
    made = ortpkg.ModelPackage(package).component().variant("single")
    assert made is not None
    assert [path.name for path in made.directory.iterdir()] == ["net_ctx.onnx"]


@pytest.mark.requirement("K10", "K11")
@pytest.mark.parametrize(
    ("version", "chosen"), [("1.0", "plain-fake"), ("1.1", "plain"), ("2.0", "plain")]
)
def test_an_update_of_the_compiler_changes_the_choice_visibly(
    fake_package: Path, machine: Path, monkeypatch: pytest.MonkeyPatch, version: str, chosen: str
) -> None:
    metadata = machine.parent / "plugin" / "fake-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", f"Version: {version}"))
    plugins.installed_plugins.cache_clear()
    monkeypatch.setenv("FAKE_ENVIRONMENT", json.dumps({"sdk_version": version}))
    selection = ortpkg.ModelPackage(fake_package).select()
    assert selection.best is not None
    assert selection.best.variant.name == chosen
    verdict = next(
        each
        for each in selection.verdicts
        if each.variant.name == "plain-fake" and each.ep_device and each.ep_device.ep_name == FAKE
    )
    expected = {"1.0": "OPTIMAL", "1.1": "PREFER_RECOMPILATION", "2.0": "UNSUPPORTED"}[version]
    assert expected in f"{verdict.compatibility} {verdict.reason}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("abort", "it was ended by SIGABRT"),
        ("hang", "no answer within 4 s"),
        ("exit", "it ended with status|licence expired"),
        ("raise", "no such instruction"),
        ("nothing", "took no node of 'net.onnx'"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="Windows tells ends of processes in other words")
def test_a_failed_compile_leaves_the_package_as_it_was(
    package: Path, machine: Path, fault: str, said: str
) -> None:
    del machine
    before = tree(package)
    timeout_s = 4.0 if fault == "hang" else 240.0
    with pytest.raises(CompileError, match=said):
        compiled(package, FAKE, provider_options={"fault": fault}, timeout_s=timeout_s)
    assert tree(package) == before


@pytest.mark.parametrize(
    ("wishes", "error", "said"),
    [
        ({"ep": "NoSuchExecutionProvider"}, UsageError, "there is no execution provider 'NoSuch"),
        (
            {"ep": "llvm", "device": "npu"},
            NoSuitableVariantError,
            "has no npu on this machine; it has cpu",
        ),
        ({"ep": "llvm", "component": "modle"}, UnknownComponentError, "did you mean 'model'"),
        ({"ep": "llvm", "variants": ["plian"]}, UnknownComponentError, "did you mean 'plain'"),
        ({"ep": "llvm", "name": "plain"}, AuthoringError, "there is a variant 'plain' already"),
    ],
)
def test_what_cannot_be_compiled_is_told(
    package: Path, machine: Path, wishes: dict[str, Any], error: type[Exception], said: str
) -> None:
    del machine
    before = tree(package)
    with pytest.raises(error, match=said):
        compiled(package, **wishes)
    assert tree(package) == before


def test_a_compiled_variant_is_not_compiled_again(package: Path, machine: Path) -> None:
    del machine
    compiled(package)
    with pytest.raises(AuthoringError, match="it is compiled already, by 'LLVMExecutionProvider'"):
        compiled(package, variants=["plain-llvm"])


def test_a_damaged_package_is_not_compiled(package: Path, machine: Path) -> None:
    del machine
    path = package / "models" / "model" / "plain" / "net.onnx"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(DigestMismatchError):
        compiled(package)


def test_a_context_without_a_source_is_not_plain(fake_package: Path) -> None:
    path = fake_package / "models" / "model" / "plain-fake" / "net_ctx.onnx"
    proto = onnx.load(path)
    for node in proto.graph.node:
        kept = [each for each in node.attribute if each.name != "source"]
        del node.attribute[:]
        node.attribute.extend(kept)
    path.unlink()
    onnx.save(proto, path)
    ortpkg.record_digests(fake_package)
    with pytest.raises(AuthoringError, match="it is compiled already, by nobody that it names"):
        compiled(fake_package, FAKE, variants=["plain-fake"], name="again")


# --- sharing --------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path, machine: Path) -> Path:
    """A package with two components whose documents are inline, so that they can share folders."""
    del machine
    root = tmp_path / "pair.ortpackage"
    components = {}
    (root / "models" / "plain").mkdir(parents=True)
    for path in two_models(root / "models" / "plain"):
        variants = {
            "plain": {
                "variant_directory": "models/plain",
                "ep": "CPUExecutionProvider",
                "executor_info": {"ort": {"model_file": path.name}},
            }
        }
        components[path.stem] = {"variants": variants}
    manifest = {"schema_version": "1.0", "package_name": "pair", "components": components}
    (root / "manifest.json").write_text(json.dumps(manifest))
    ortpkg.record_digests(root)
    return root


@pytest.mark.requirement("E43", "E50")
def test_components_share_one_binary_with_one_set_of_weights(pair: Path) -> None:
    made = compiled(pair, shares_weights=True)
    assert made == ["prefill/plain-llvm", "decode/plain-llvm"]
    opened = ortpkg.ModelPackage(pair)
    variants = [component.variants[-1] for component in opened.component_models]
    assert variants[0].directory == variants[1].directory
    files = {path.name: path.stat().st_size for path in variants[0].directory.iterdir()}
    assert set(files) == {
        "prefill_plain_ctx.onnx",
        "decode_plain_ctx.onnx",
        "prefill_plain_ctx_llvm.bin",
    }
    assert sum(files.values()) < 1.5 * WIDTH * WIDTH * 4
    assert ortpkg.verify(pair).is_intact
    x = np.random.default_rng(4).random((1, WIDTH), np.float32)
    for name in ("prefill", "decode"):
        plain = opened.best_variant(name, variant="plain").create_session().run(None, {"x": x})[0]
        ours = (
            opened.best_variant(name, variant="plain-llvm").create_session().run(None, {"x": x})[0]
        )
        np.testing.assert_allclose(ours, plain, rtol=1e-5)


def test_variants_of_one_component_share_in_every_format(tmp_path: Path, machine: Path) -> None:
    del machine
    models = two_models(tmp_path)
    for form in ("universal", "metadata", "component"):
        root = tmp_path / f"{form}.ortpackage"
        ortpkg.create(root, [ortpkg.NewVariant(model=each, ep="cpu") for each in models], form=form)
        compiled(root, shares_weights=True, variants=["prefill", "decode"])
        variants = ortpkg.ModelPackage(root).component().variants[2:]
        assert len({each.directory for each in variants}) == 1
        assert len(list(variants[0].directory.glob("*.bin"))) == 1
        assert ortpkg.verify(root).is_intact
        assert [each for each in ortpkg.validate(root) if each.severity == "error"] == []


def test_components_that_cannot_share_a_folder_get_a_binary_each_and_it_is_said(
    tmp_path: Path, machine: Path
) -> None:
    del machine
    root = tmp_path / "two.ortpackage"
    models = two_models(tmp_path)
    ortpkg.create(
        root, [ortpkg.NewVariant(model=models[0], name="plain", ep="cpu")], component="prefill"
    )
    ortpkg.add_variant(root, models[1], component="decode", variant="plain", ep="cpu")
    said: list[str] = []
    made = compile_package(root, CompileWishes(ep="llvm", shares_weights=True), notify=said.append)
    assert [each.folder for each in made] == [
        "models/prefill/plain-llvm",
        "models/decode/plain-llvm",
    ]
    assert any("cannot share a folder" in text for text in said)


# --- compile-models -------------------------------------------------------------------------------


@pytest.mark.requirement("E50", "E51")
def test_compile_models_makes_n_plus_one_files(
    tmp_path: Path, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del machine
    first, second = two_models(tmp_path)
    out = tmp_path / "out"
    words = [
        "compile-models",
        "-e",
        FAKE,
        "-i",
        "mode|fast level|3",
        f"{first},{second}",
        "-o",
        str(out),
    ]
    assert run_command_line(words) == 0
    assert {path.name for path in out.iterdir()} == {
        "prefill_ctx.onnx",
        "decode_ctx.onnx",
        "prefill_fake.bin",
    }
    assert len(open_context_file(out / "prefill_fake.bin", ep_name=FAKE).names) == 2
    assert capsys.readouterr().out.splitlines()[-1].endswith("prefill_fake.bin")


@pytest.mark.requirement("E51")
def test_options_of_compile_models_reach_the_compiler(
    tmp_path: Path, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del machine
    first, _ = two_models(tmp_path)
    words = ["compile-models", "-e", FAKE, str(first), "-o", str(tmp_path / "out")]
    assert run_command_line([*words, "-i", "level|3 fault|raise"]) == 6
    assert "no such instruction" in capsys.readouterr().err
    assert run_command_line([*words, "-i", "level|3"]) == 0


@pytest.mark.requirement("E51")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-i", "fast"], 'write "KEY|VALUE KEY|VALUE"'),
        (["-i", "a|1 a|2"], "'a' is given twice"),
    ],
)
def test_compile_models_refuses_options_in_another_form(
    tmp_path: Path, machine: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    del machine
    first, _ = two_models(tmp_path)
    assert run_command_line(["compile-models", "-e", "llvm", *words, str(first)]) == 2
    assert said in capsys.readouterr().err


def test_compile_models_of_different_folders_asks_where_to(
    tmp_path: Path, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del machine
    first, second = two_models(tmp_path)
    (tmp_path / "other").mkdir()
    moved = second.rename(tmp_path / "other" / second.name)
    assert run_command_line(["compile-models", "-e", "llvm", f"{first},{moved}"]) == 2
    assert "say where it goes, with -o DIR" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_leaves_the_package_as_it_was_and_no_child_behind(
    package: Path, machine: Path, tmp_path: Path
) -> None:
    del machine
    before = tree(package)
    words = ["compile", str(package), "--ep", FAKE, "--provider-option", "fault=hang"]
    at_work = AtWork(tmp_path / "compiling")
    environment = {**os.environ, "FAKE_MARK": str(at_work.path)}
    command = subprocess.Popen(
        [sys.executable, "-m", "ortpkg", *words], env=environment, stderr=subprocess.PIPE, text=True
    )
    at_work.begins(command)
    command.send_signal(signal.SIGINT)
    _, said = command.communicate()
    assert (command.returncode, "cancelled" in said) == (130, True)
    assert tree(package) == before
    at_work.ends()


_INTERRUPTED = """
import os, signal, sys
import ortpkg.{module} as module
original = module.{function}
def interrupted(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    return original(*arguments, **options)
module.{function} = interrupted
sys.argv = ["ortpkg", "compile", sys.argv[1], "--ep", "llvm"]
from ortpkg.__main__ import main
main()
"""


@pytest.mark.sampled(2)
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(
    ("module", "function", "is_added"),
    [
        ("package.changes.transaction", "_stage", False),
        ("package.changes.transaction", "_publish_files", False),
        ("package.changes.transaction", "finish", True),
        ("authoring.compiling", "_remember", True),
    ],
)
def test_ctrl_c_either_cancels_or_comes_too_late(
    package: Path, machine: Path, module: str, function: str, is_added: bool
) -> None:
    del machine
    ortpkg.record_digests(package)
    before = tree(package)
    script = _INTERRUPTED.format(module=module, function=function)
    done = subprocess.run(
        [sys.executable, "-c", script, str(package)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    names = [each.name for each in ortpkg.ModelPackage(package).component().variants]
    if is_added:
        assert (done.returncode, names) == (0, ["plain", "plain-llvm"]), done.stderr
        assert "model/plain-llvm: 1 compiled partition" in done.stdout
        assert "cancelled" not in done.stderr
    else:
        assert (done.returncode, "cancelled" in done.stderr) == (130, True)
        assert {name: digest for name, digest in tree(package).items() if name in before} == before
        assert names == ["plain"]
    assert ortpkg.verify(package).is_intact


def test_a_compiled_variant_may_be_as_far_off_as_its_source(package: Path, machine: Path) -> None:
    del machine
    folder = package / "samples"
    folder.mkdir()
    np.savez(folder / "in.npz", x=X)
    np.savez(folder / "out.npz", y=EXPECTED + np.float32(0.1))
    rough = {"tolerances": {"y": {"absolute": 0.25}}}
    sample = {"name": "s", "component": "model", "inputs": "in.npz", "expected_outputs": "out.npz"}
    document = {
        "schema_version": "1.0",
        "samples": [{**sample, "variants": {"plain": rough, "other": {}}}],
    }
    (folder / "samples.json").write_text(json.dumps(document))
    ortpkg.record_digests(package)
    compiled(package)
    after = json.loads((folder / "samples.json").read_text())["samples"][0]["variants"]
    assert after == {"plain": rough, "other": {}, "plain-llvm": rough}
    assert ortpkg.verify(package).is_intact
    assert run_command_line(["run", str(package), "--variant", "plain-llvm"]) == 0


def test_a_package_with_compiled_variants_is_planned_by_the_embedded_engine_all_the_same(
    package: Path, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del machine
    compiled(package)
    assert ortpkg.ModelPackage(package).best_variant().name == "plain-llvm"
    assert run_command_line(["plan", str(package), "--json"]) == 0
    assert (
        json.loads(capsys.readouterr().out)["partitions"][0]["provider"] == "CPUExecutionProvider"
    )
    assert run_command_line(["plan", str(package), "--json", "--variant", "plain-llvm"]) == 0
    assert (
        json.loads(capsys.readouterr().out)["partitions"][0]["provider"] == "LLVMExecutionProvider"
    )
    assert (
        run_command_line(["plan", str(package), "--variant", "plain-llvm", "--backend", "embedded"])
        == 3
    )
    assert "it is for 'LLVMExecutionProvider'" in capsys.readouterr().err


def test_the_backend_says_whose_provider_compiles(
    package: Path, machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    source = package / "models" / "model" / "plain" / "net.onnx"
    for words in (
        ["compile", str(package), "--ep", "cpu"],
        ["compile-models", "-e", "cpu", str(source)],
    ):
        assert run_command_line(words) == 6
        assert (
            "take the llvm EP (--ep llvm), or the EP of that name in onnxruntime"
            in capsys.readouterr().err
        )
    assert (
        run_command_line(["compile", str(package), "--ep", "cpu", "--backend", "onnxruntim"]) == 3
    )
    assert "on backend 'onnxruntim'" in capsys.readouterr().err
    assert (
        run_command_line(["compile", str(package), "--ep", "cpu", "--backend", "onnxruntime"]) == 0
    )
    assert capsys.readouterr().out.startswith("model/plain-cpu-onnxruntime: 1 compiled partition")
    variant = ortpkg.ModelPackage(package).best_variant(variant="plain-cpu-onnxruntime")
    assert variant.verdict().ep_device.backend == "onnxruntime"  # type: ignore[union-attr]
    np.testing.assert_allclose(variant.create_session().run(None, {"x": X})[0], EXPECTED, rtol=1e-5)
    shutil.rmtree(machine / "contexts")
    with pytest.raises(TrustRequiredError):
        variant.create_session()
    words = [
        "compile-models",
        "-e",
        "cpu",
        "--backend",
        "onnxruntime",
        str(source),
        "-o",
        str(tmp_path / "out"),
    ]
    assert run_command_line(words) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"net_ctx.onnx", "net_cpu.bin"}


def test_embedding_and_sharing_contradict_each_other(package: Path, machine: Path) -> None:
    before = tree(package)

    with pytest.raises(UsageError, match="nothing to share"):
        compiled(package, is_embedded=True, shares_weights=True)
    assert tree(package) == before


def test_a_variant_for_onnxruntime_has_the_string_of_its_provider_and_runs_here(
    package: Path, machine: Path
) -> None:
    pytest.importorskip("openvino")
    del machine
    assert (
        run_command_line(
            ["compile", str(package), "--ep", "openvino", "--for", "onnxruntime", "--name", "ov"]
        )
        == 0
    )
    opened = ortpkg.ModelPackage(package)
    variant = opened.component().variant("ov")
    assert variant is not None
    assert json.loads(variant.constraints.ep_compatibility_info or "")["ovep_compat_ver"] == "1.0"
    exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    assert json.loads(variant.provider_options["load_config"]) == {"CPU": exact}
    assert opened.best_variant().name == "ov"
    np.testing.assert_allclose(
        opened.best_variant().create_session().run(None, {"x": X})[0], EXPECTED, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--ep", "llvm"),
            "how onnxruntime's LLVMExecutionProvider keeps contexts is not known here",
        ),
        (
            ("--ep", "cpu", "--backend", "onnxruntime"),
            "onnxruntime's CPUExecutionProvider makes no contexts",
        ),
        (
            ("--ep", "llvm", "--for", "tensorrt"),
            "'tensorrt' is not ortpkg or onnxruntime",
        ),
    ],
    ids=["llvm", "cpu", "reader"],
)
def test_what_onnxruntime_could_not_load_is_not_compiled_for_it(
    package: Path,
    machine: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    del machine
    before = tree(package)
    for_whom = () if "--for" in words else ("--for", "onnxruntime")
    assert run_command_line(["compile", str(package), *words, *for_whom]) != 0
    assert message in " ".join(capsys.readouterr().err.split())
    assert tree(package) == before
