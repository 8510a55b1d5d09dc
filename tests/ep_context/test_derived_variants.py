"""Compiled variants whose source has another model by now: named, not chosen, made anew."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import ortpkg
from ortpkg.authoring.compile_wishes import CompileWishes
from ortpkg.authoring.compiling import compile_package
from ortpkg.cli.app import run as run_command_line
from ortpkg.distribution.package_signing import sign_package
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.foundations.errors import (
    AuthoringError,
    DigestMismatchError,
    ExitCode,
    OrtpkgError,
    StalePackageError,
    StaleVariantError,
    UsageError,
)
from ortpkg.package.derived_variants import derivation_of
from ortpkg.package.references.package_references import LayoutReference, parse_reference
from ortpkg.package.trust.signing.signing_keys import new_private_key
from ortpkg.selection.matching.verdict import ReasonCode
from tests.ep_context.compiling import compiled, tree, two_models
from tests.ep_context.conftest import EXPECTED, TEXT, X
from tests.ep_context.fake_compiler import NAME as FAKE

Done = tuple[int, str, str]
Command = Callable[..., Done]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: object) -> Done:
        capsys.readouterr()
        code = run_command_line([str(word) for word in words])
        captured = capsys.readouterr()
        return code, " ".join(captured.out.split()), " ".join(captured.err.split())

    return run


@pytest.fixture
def other_model(tmp_path: Path) -> Path:
    """The same net with another offset."""
    return _saved(tmp_path / "v2" / "net.onnx", TEXT.replace("{0.5, -0.5, 0.25}", "{0, 0, 0}"))


def _saved(path: Path, text: str, *, is_external: bool = False) -> Path:
    path.parent.mkdir(exist_ok=True)
    proto = onnx.parser.parse_model(text)
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(
        proto, path, save_as_external_data=is_external, location="weights.bin", size_threshold=0
    )
    return path


def _run(root: Path, variant: str | None = None) -> Any:
    package = ortpkg.ModelPackage(root)
    chosen = package.variant(variant) if variant else package.best_variant()
    return chosen.create_session().run(None, {"x": X})[0]


def _is_left_out(root: Path) -> bool:
    """Whether the compiled variant falls, since its source has changed, wherever it could run."""
    verdicts = ortpkg.ModelPackage(root).select().verdicts
    codes = {each.code for each in verdicts if each.variant.name == "plain-llvm"}
    return codes - {ReasonCode.EP_MISMATCH} == {ReasonCode.SOURCE_CHANGED}


def _exchange(root: Path, model: Path) -> None:
    """Put another model in the place of the source, as somebody does who knows no ``edit``."""
    source = ortpkg.ModelPackage(root).variant("plain").model_path
    assert source is not None
    time.sleep(0.02)  # clocks of file systems tick every few milliseconds
    shutil.copy(model, source)


def test_a_compiled_variant_records_its_source_and_how_it_was_made(
    package: Path, machine: Path
) -> None:
    del machine
    compiled(package, is_embedded=True)
    plain, made = ortpkg.ModelPackage(package).component().variants
    record = derivation_of(made)
    assert record is not None
    assert plain.model_path is not None
    assert (record.variant, record.model) == ("plain", tree(package)["models/model/plain/net.onnx"])
    assert dict(record.made_by) == {
        "command": "compile",
        "ep": "LLVMExecutionProvider",
        "embedded": True,
    }
    assert derivation_of(plain) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["metadata", "component", "universal"])
def test_a_replaced_model_leaves_its_compiled_variant_out_until_it_is_renewed(
    package: Path, machine: Path, other_model: Path, command: Command, form: str
) -> None:
    del machine
    if form != "universal":
        ortpkg.convert(package, form)
    compiled(package)
    assert ortpkg.ModelPackage(package).best_variant().name == "plain-llvm"
    code, _, told = command("edit", package, "--variant", "plain", "--model", other_model)
    assert code == 0
    assert (
        "variant 'plain-llvm' is stale and not chosen any more: it was made of another model"
        in told
    )
    assert "ortpkg compile --renew makes it anew" in told
    code, out, err = command("validate", package)
    assert code == 4
    assert "ORT123" in out + err
    assert ortpkg.verify(package).is_intact
    assert "variant 'plain-llvm' is stale: it was made of" in command("inspect", package)[2]
    assert _is_left_out(package)
    _, out, err = command("select", package)
    assert "model: plain on" in out
    assert "'plain-llvm' is passed over" in err
    assert "SOURCE_CHANGED: it was made of another model than the one of variant 'plain'" in err
    new = _run(package)
    assert not np.allclose(new, EXPECTED, rtol=1e-3)
    assert command("run", package, "--variant", "plain-llvm")[0] == 3

    code, out, _ = command("compile", package, "--renew")
    assert code == 0
    assert "model/plain-llvm, made anew: 1 compiled partition, from plain" in out
    assert ortpkg.verify(package).is_intact
    assert [each.rule for each in ortpkg.validate(package) if each.severity == "error"] == []
    assert ortpkg.ModelPackage(package).best_variant().name == "plain-llvm"
    np.testing.assert_allclose(_run(package), new, rtol=1e-5)
    assert "nothing to renew" in command("compile", package, "--renew")[1]


def test_a_session_on_a_stale_variant_is_a_typed_error_whoever_selected_it(
    package: Path, machine: Path, other_model: Path
) -> None:
    del machine
    compiled(package)
    ortpkg.edit(package, ortpkg.PackageEdits(variant="plain", model=other_model))
    opened = ortpkg.ModelPackage(package)
    by_release = opened.best_variant(policy="onnxruntime-1.31", ep="LLVMExecutionProvider")
    assert by_release.name == "plain-llvm"
    for variant in (by_release, opened.variant("plain-llvm")):
        with pytest.raises(StaleVariantError, match="is stale: it was made of another") as caught:
            variant.create_session()
        assert (caught.value.variant, caught.value.source) == ("plain-llvm", "plain")
    ortpkg.edit(package, ortpkg.PackageEdits(variant="plain", model=_saved(other_model, TEXT)))
    np.testing.assert_allclose(_run(package, "plain-llvm"), EXPECTED, rtol=1e-5)


def test_other_external_data_makes_a_compiled_variant_stale(
    tmp_path: Path, machine: Path, command: Command
) -> None:
    del machine
    root = tmp_path / "p.ortpackage"
    model = _saved(tmp_path / "v1" / "net.onnx", TEXT, is_external=True)
    other = tmp_path / "v2" / "net.onnx"
    shutil.copytree(model.parent, other.parent)
    weights = bytearray((other.parent / "weights.bin").read_bytes())
    weights[3] ^= 1
    (other.parent / "weights.bin").write_bytes(weights)
    ortpkg.create(root, [ortpkg.NewVariant(model=model, name="plain", ep="cpu")])
    compiled(root)
    told = command("edit", root, "--variant", "plain", "--model", other)[2]
    assert "the data file 'weights.bin' has changed" in told
    assert _is_left_out(root)


def test_a_renewed_variant_keeps_what_was_said_of_it(
    package: Path, machine: Path, other_model: Path
) -> None:
    del machine
    ortpkg.edit(package, ortpkg.PackageEdits(version="1.0"))
    compiled(package)
    ortpkg.edit(
        package,
        ortpkg.PackageEdits(
            order=["plain-llvm"],
            variant="plain-llvm",
            session_options={"session.intra_op_num_threads": "1"},
        ),
    )
    edits = ortpkg.PackageEdits(variant="plain", model=other_model, variant_version="2.0")
    ortpkg.edit(package, edits)
    (made,) = compile_package(package, CompileWishes(ep="", renews=True))
    assert made.is_renewed
    opened = ortpkg.ModelPackage(package)
    first = opened.component().variants[0]
    assert first.name == "plain-llvm"
    assert dict(first.session_options) == {"session.intra_op_num_threads": "1"}
    assert first.metadata["version"] == "2.0"
    before = first.directory
    ortpkg.edit(package, ortpkg.PackageEdits(variant="plain", model=_saved(other_model, TEXT)))
    compile_package(package, CompileWishes(ep="", renews=True))
    assert not before.exists()
    np.testing.assert_allclose(_run(package), EXPECTED, rtol=1e-5)


def test_a_group_that_shares_weights_is_renewed_as_one(tmp_path: Path, machine: Path) -> None:
    del machine
    root = tmp_path / "group.ortpackage"
    prefill, decode = two_models(tmp_path)
    variants = [
        ortpkg.NewVariant(model=prefill, name="prefill", ep="cpu"),
        ortpkg.NewVariant(model=decode, name="decode", ep="cpu"),
    ]
    ortpkg.create(root, variants)
    compiled(root, variants=("prefill", "decode"), shares_weights=True)
    other = prefill.read_bytes().replace(b"prefill", b"prefilm")
    prefill.write_bytes(other)
    ortpkg.edit(root, ortpkg.PackageEdits(variant="prefill", model=prefill))
    made = compile_package(root, CompileWishes(ep="", renews=True))
    assert {each.name for each in made} == {"prefill-llvm", "decode-llvm"}
    folders = {each.directory for each in ortpkg.ModelPackage(root).component().variants[2:]}
    assert len(folders) == 1
    assert ortpkg.verify(root).is_intact
    assert len([path for path in tree(root) if path.endswith("_llvm.bin")]) == 1


def test_overwrite_replaces_a_compiled_variant_and_no_other(
    package: Path, machine: Path, command: Command
) -> None:
    del machine
    compiled(package)
    words = ("compile", package, "--ep", "llvm")
    code, _, err = command(*words)
    assert code == 2 or "there is a variant 'plain-llvm' already" in err
    assert code != 0
    assert command(*words, "--overwrite", "--embed")[0] == 0
    made = ortpkg.ModelPackage(package).component().variant("plain-llvm")
    assert made is not None
    assert [path.name for path in made.directory.iterdir()] == ["net_ctx.onnx"]
    code, _, err = command(*words, "--overwrite", "--name", "plain")
    assert code != 0
    assert "variant 'plain' is no compiled one, and is not replaced" in err


def test_a_taken_name_is_said_with_the_ways_to_replace_it(
    package: Path, machine: Path, command: Command
) -> None:
    del machine
    words = ("compile", package, "--ep", "llvm")
    assert command(*words)[0] == 0
    before = tree(package)
    code, _, error = command(*words)
    assert code == 4
    assert (
        "there is a variant 'plain-llvm' already: --overwrite replaces it, --renew --variant"
        " plain-llvm makes it anew as it was made, and --name NAME makes another one beside it"
    ) in error
    assert tree(package) == before
    code, _, error = command(*words, "--name", "plain")
    assert code == 4
    assert "there is a variant 'plain' already: choose another name, or remove that one" in error
    assert command("compile", package, "--renew", "--variant", "plain-llvm")[0] == 0
    assert command(*words, "--overwrite")[0] == 0
    assert command(*words, "--name", "beside")[0] == 0


def test_renewing_takes_names_and_refuses_what_says_otherwise(
    package: Path, machine: Path, command: Command
) -> None:
    del machine
    compiled(package)
    before = tree(package)
    code = command("compile", package, "--renew", "--variant", "plain-llvm", "--dry-run")[0]
    assert code == 0
    assert tree(package) == before
    assert command("compile", package, "--renew", "--variant", "plain-llvm")[0] == 0
    code, _, err = command("compile", package, "--renew", "--embed")
    assert code == 2
    assert "--renew makes variants as they were made" in err
    code, _, err = command("compile", package)
    assert code == 2
    assert "no execution provider is named" in err
    with pytest.raises(AuthoringError, match="does not record that ortpkg compile made it"):
        compiled(package, ep="", renews=True, variants=("plain",))
    with pytest.raises(UsageError):
        compiled(package, ep="", renews=False)


def test_a_variant_whose_source_is_gone_or_unrecorded_is_not_refused(
    package: Path, machine: Path
) -> None:
    del machine
    compiled(package)
    metadata = package / "models/model/metadata.json"
    document = json.loads(metadata.read_text())
    facts = document["model_variants"]["plain-llvm"]["metadata"]
    old = facts.pop("derived_from")
    metadata.write_text(json.dumps(document))
    ortpkg.record_digests(package)
    verdict = ortpkg.ModelPackage(package).select().best
    assert verdict is not None
    assert verdict.variant.name == "plain-llvm"
    assert any("no record of the model that it was compiled of" in each for each in verdict.notes)
    facts["derived_from"] = old
    metadata.write_text(json.dumps(document))
    ortpkg.record_digests(package)
    ortpkg.remove_variant(package, "plain")
    np.testing.assert_allclose(_run(package), EXPECTED, rtol=1e-5)
    with pytest.raises(AuthoringError, match="made of variant 'plain', which is not in the pack"):
        compiled(package, ep="", renews=True, variants=("plain-llvm",))


def test_adding_and_merging_and_converting_name_what_has_become_stale(
    package: Path, tmp_path: Path, machine: Path, other_model: Path, command: Command
) -> None:
    del machine
    compiled(package)
    vendor = tmp_path / "vendor.ortpackage"
    shutil.copytree(package, vendor)
    ortpkg.remove_variant(vendor, "plain")
    ours = tmp_path / "ours.ortpackage"
    ortpkg.create(ours, [ortpkg.NewVariant(model=other_model, name="plain", ep="cpu")])
    ortpkg.edit(ours, ortpkg.PackageEdits(name="net"))
    merged = tmp_path / "merged.ortpackage"
    stale = "variant 'plain-llvm' is stale and not chosen any more"
    code, _, err = command("merge", ours, vendor, "-o", merged)
    assert code == 0
    assert stale in err
    assert stale in command("convert", merged, "--to", "metadata", "--in-place")[2]
    words = ("add-variant", vendor, other_model, "--variant", "plain", "--ep", "cpu")
    code, _, err = command(*words, "--dry-run")
    assert code == 0
    assert stale in err


def test_a_source_that_is_absent_is_judged_by_its_recorded_digest(
    package: Path, machine: Path, other_model: Path
) -> None:
    del machine
    compiled(package)
    ortpkg.edit(package, ortpkg.PackageEdits(variant="plain", model=other_model))
    plain = ortpkg.ModelPackage(package).component().variant("plain")
    assert plain is not None
    shutil.rmtree(plain.directory)
    assert _is_left_out(package)


@pytest.mark.parametrize("form", ["metadata", "component", "universal"])
def test_sharing_the_weights_of_a_source_leaves_what_was_made_of_it_as_new_as_it_was(
    tmp_path: Path, machine: Path, command: Command, form: str
) -> None:
    del machine
    root = tmp_path / "shared.ortpackage"
    prefill, decode = two_models(tmp_path)
    variants = [
        ortpkg.NewVariant(model=prefill, name="prefill", ep="cpu"),
        ortpkg.NewVariant(model=decode, name="plain", ep="cpu"),
    ]
    ortpkg.create(root, variants)
    if form != "universal":
        ortpkg.convert(root, form)
    compiled(root, variants=("plain",))
    before = ortpkg.ModelPackage(root).component().variant("plain")
    code, _, err = command("dedup", root, "--externalize", "1024")
    assert code == 0, err
    after = ortpkg.ModelPackage(root).component().variant("plain")
    assert before is not None
    assert after is not None
    assert before.model_path != after.model_path
    assert not _is_left_out(root)
    assert "ORT123" not in {each.rule for each in ortpkg.validate(root)}


def test_compile_records_what_its_code_covers_and_says_why_and_what_helps(
    package: Path, machine: Path, command: Command
) -> None:
    """The fake compiler leaves Neg and Add to the CPU."""
    del machine
    code, out, err = command("compile", package, "--ep", FAKE)
    assert code == 0
    made = ortpkg.ModelPackage(package).component().variant("plain-fake")
    assert made is not None
    share = made.metadata["compiled_share"]
    assert share["nodes"] == 0.6
    assert 0.6 < share["work"] < 0.9
    assert share["calls"] > 1
    assert "2 compiled partitions with 60% of the nodes and" in out
    assert f"model/plain-fake covers {share['work']:.0%} of the work" in err
    assert "where a library runs 'plain' whole, that is chosen" in err
    assert "a model of another exporter or with fixed sizes may leave less" in err
    command("compile", package, "--ep", "llvm", "--variant", "plain")
    whole = ortpkg.ModelPackage(package).component().variant("plain-llvm")
    assert whole is not None
    assert dict(whole.metadata["compiled_share"]) == {"nodes": 1.0, "work": 1.0, "calls": 0.0}


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_source_exchanged_by_hand_leaves_the_compiled_variant_out_at_once(
    package: Path, machine: Path, other_model: Path, command: Command, *, is_recorded: bool
) -> None:
    del machine
    compiled(package)
    if not is_recorded:
        (package / "digests.json").unlink()
    before = ortpkg.ModelPackage(package).variant("plain-llvm")
    _exchange(package, other_model)
    assert _is_left_out(package)
    assert "variant 'plain-llvm' is stale" in command("inspect", package)[2]
    with pytest.raises(StaleVariantError, match="make it anew with ortpkg compile --renew"):
        before.create_session()
    _exchange(package, _saved(other_model, TEXT))
    np.testing.assert_allclose(_run(package, "plain-llvm"), EXPECTED, rtol=1e-5)


def test_a_source_of_the_same_size_and_time_does_not_pass_for_the_recorded_one(
    package: Path, machine: Path, tmp_path: Path
) -> None:
    del machine
    compiled(package)
    source = ortpkg.ModelPackage(package).variant("plain").model_path
    assert source is not None
    content = source.read_bytes()
    other = tmp_path / "other.onnx"
    other.write_bytes(content[:-1] + bytes([content[-1] - 1]))  # the opset before
    status = source.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    time.sleep(0.02)
    other.replace(source)
    assert _is_left_out(package)


def test_a_source_that_did_not_change_since_it_was_recorded_is_not_read(
    package: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del machine
    time.sleep(0.02)
    compiled(package)

    def refused(path: Path) -> str:
        pytest.fail(f"{path} was hashed")

    monkeypatch.setattr("ortpkg.foundations.storage.digest_cache.file_sha256", refused)
    assert ortpkg.ModelPackage(package).best_variant().name == "plain-llvm"


def _ship(kind: str, root: Path, folder: Path) -> None:
    if kind == "pack":
        ortpkg.pack(root, folder / "p.ortpkg")
    elif kind == "push":
        reference = parse_reference(f"oci-layout:{folder / 'layout'}:1")
        assert isinstance(reference, LayoutReference)
        publish(root, repository_of(reference))
    else:
        sign_package(root, new_private_key())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["pack", "push", "sign"])
@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_package_with_a_stale_variant_is_not_shipped(
    package: Path, tmp_path: Path, machine: Path, other_model: Path, kind: str, *, is_recorded: bool
) -> None:
    del machine
    compiled(package)
    _exchange(package, other_model)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises((DigestMismatchError, StalePackageError)):  # which the record tells
        _ship(kind if kind != "sign" else "pack", package, out)
    if is_recorded or kind == "sign":
        ortpkg.record_digests(package)
    else:
        (package / "digests.json").unlink()
    before = tree(package)
    with pytest.raises(StalePackageError) as caught:
        _ship(kind, package, out)
    assert caught.value.variants == ("plain-llvm",)
    assert "'plain-llvm' is stale: it was made of another model than the" in str(caught.value)
    assert "ortpkg compile --renew, or take them out with ortpkg remove-variant" in str(
        caught.value
    )
    assert tree(package) == before
    assert [path for path in out.rglob("*") if path.name == "p.ortpkg"] == []
    compile_package(package, CompileWishes(ep="", renews=True))
    _ship(kind, package, out)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words",
    [
        ("remove-variant", "{package}", "plain"),
        ("slim", "{package}", "--variant", "plain-llvm", "--in-place"),
        ("slim", "{package}", "--ep", "llvm", "--output", "{out}"),
    ],
    ids=["removed", "slimmed in place", "slimmed elsewhere"],
)
@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "by hand"])
def test_the_source_of_a_stale_variant_does_not_leave_alone(
    package: Path,
    tmp_path: Path,
    machine: Path,
    other_model: Path,
    command: Command,
    words: tuple[str, ...],
    *,
    is_recorded: bool,
) -> None:
    del machine
    compiled(package)
    _exchange(package, other_model)
    if is_recorded or words[0] == "slim":  # slim compares every file with its record first
        ortpkg.record_digests(package)
    before = tree(package)
    out = tmp_path / "slim.ortpackage"
    line = [word.format(package=package, out=out) for word in words]
    code, _, error = command(*line)
    assert code == ExitCode.PACKAGE
    assert "variant 'plain-llvm': it was made of another model than the one of" in error
    assert "ortpkg compile --renew, or take them out too; nothing was changed" in error
    assert tree(package) == before
    assert not out.exists()
    ortpkg.record_digests(package)
    compile_package(package, CompileWishes(ep="", renews=True))
    expected = _run(package, "plain")
    assert not np.allclose(expected, EXPECTED)
    assert command(*line)[0] == 0
    left = ortpkg.ModelPackage(out if out.exists() else package)
    np.testing.assert_allclose(_run(left.root), expected, rtol=1e-5, atol=1e-6)


def test_a_stale_variant_leaves_with_its_source_or_before_it(
    package: Path, tmp_path: Path, machine: Path, other_model: Path
) -> None:
    del machine
    compiled(package)
    _exchange(package, other_model)
    ortpkg.record_digests(package)
    ortpkg.add_variant(package, other_model, variant="third")
    ortpkg.slim(package, variants=["third"], output=tmp_path / "slim")
    ortpkg.remove_variant(package, "plain-llvm")
    ortpkg.remove_variant(package, "plain")
    names = [variant.name for variant in ortpkg.ModelPackage(package).component().variants]
    assert names == ["third"]


def test_a_package_that_cannot_be_read_is_packed_as_it_is(package: Path, tmp_path: Path) -> None:
    (package / "models/model/metadata.json").write_text("{}")
    (package / "digests.json").unlink()
    with pytest.raises(OrtpkgError):
        ortpkg.ModelPackage(package)
    ortpkg.pack(package, tmp_path / "p.ortpkg")


def test_verifying_recording_and_merging_name_what_is_stale(
    package: Path, tmp_path: Path, machine: Path, other_model: Path, command: Command
) -> None:
    del machine
    compiled(package)
    stale = "variant 'plain-llvm' is stale and not chosen any more"
    assert stale not in command("verify", package)[2]
    _exchange(package, other_model)
    code, _, err = command("verify", package, "--record")
    assert code == 0
    assert stale in err
    assert stale in command("verify", package)[2]
    other = tmp_path / "other.ortpackage"
    ortpkg.create(other, [ortpkg.NewVariant(model=other_model, name="plain")], component="second")
    assert stale in command("merge", package, other, "-o", tmp_path / "m.ortpackage")[2]
