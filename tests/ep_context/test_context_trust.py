"""Which native contexts run without trust: those that were made on this machine, and no others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ortpkg
from ortpkg.cli.app import run as run_command_line
from ortpkg.distribution.package_signing import sign_package
from ortpkg.foundations.errors import EpContextError, TrustRequiredError
from ortpkg.package.trust.signing.signing_keys import new_private_key
from ortpkg.runtime.ep_context import judged_contexts
from ortpkg.runtime.ep_context.ep_context_reader import EpContextReader
from ortpkg.selection.contexts import context_trust
from ortpkg.selection.measuring.canary import canary
from tests.ep_context.compiling import compiled, two_models, without_share
from tests.ep_context.conftest import EXPECTED, X
from tests.ep_context.fake_compiler import NAME as FAKE


def test_native_contexts_run_without_trust_only_where_they_were_made(
    fake_package: Path, machine: Path
) -> None:
    opened = ortpkg.ModelPackage(fake_package)
    assert opened.best_variant().name == "plain-fake"
    np.testing.assert_allclose(opened.create_session().run(None, {"x": X})[0], EXPECTED, rtol=1e-5)
    shutil.rmtree(machine / "contexts")  # another machine remembers nothing
    with pytest.raises(
        TrustRequiredError, match=r"'net_ctx_fake\.bin', which native code .* pass --trust"
    ) as caught:
        opened.variant("plain-fake").create_session()
    assert (caught.value.exit_code, caught.value.what) == (7, "net_ctx_fake.bin")
    with pytest.raises(TrustRequiredError, match=r"'net_ctx_fake\.bin', which native code"):
        opened.create_session(variant="plain-fake")
    assert opened.best_variant().name == "plain"
    (passed,) = [each for each in opened.select().warnings if "NEEDS_TRUST" in each]
    assert passed.startswith("variant 'plain-fake' is passed over on FakeExecutionProvider")
    assert "needs --trust, or a publisher whom the trust policy lets ship such" in passed
    assert ortpkg.ModelPackage(fake_package, trust=True).best_variant().name == "plain-fake"
    session = ortpkg.ModelPackage(fake_package, trust=True).create_session()
    np.testing.assert_allclose(session.run(None, {"x": X})[0], EXPECTED, rtol=1e-5)


def test_an_embedded_native_context_needs_trust_too(package: Path, machine: Path) -> None:
    compiled(package, FAKE, is_embedded=True)
    ortpkg.ModelPackage(package).create_session()
    shutil.rmtree(machine / "contexts")
    with pytest.raises(TrustRequiredError, match="embedded in its model"):
        ortpkg.ModelPackage(package).create_session(variant="plain-fake")


def signed(package: Path, folder: Path, *, native: bool) -> None:
    """Signs the package, and writes a policy that accepts it."""
    key = new_private_key()
    sign_package(package, key)
    (folder / "publisher.pub").write_bytes(key.public.pem)
    (folder / "trust.toml").write_text(
        '[signers.publisher]\nkey = "publisher.pub"\n'
        '[[packages]]\nnames = ["*"]\nsigners = ["publisher"]\n'
        f"native_contexts = {str(native).lower()}\n"
    )


@pytest.mark.parametrize("is_embedded", [False, True])
def test_a_publisher_whom_the_policy_lets_ships_native_contexts(
    package: Path,
    machine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_embedded: bool,
) -> None:
    compiled(package, FAKE, is_embedded=is_embedded)
    without_share(package)
    shutil.rmtree(machine / "contexts")
    monkeypatch.setenv("ORTPKG_TRUST_POLICY", str(tmp_path / "trust.toml"))
    signed(package, tmp_path, native=False)
    with pytest.raises(TrustRequiredError, match="does not say native_contexts = true"):
        ortpkg.ModelPackage(package).create_session(variant="plain-fake")
    assert ortpkg.ModelPackage(package).best_variant().name == "plain"

    signed(package, tmp_path, native=True)
    assert ortpkg.ModelPackage(package).best_variant().name == "plain-fake"
    session = ortpkg.ModelPackage(package).create_session()
    np.testing.assert_allclose(session.run(None, {"x": X})[0], EXPECTED, rtol=1e-5)

    _forge_contexts(package)
    with pytest.raises(TrustRequiredError, match="not compiled on this machine"):
        ortpkg.ModelPackage(package).best_variant().create_session(verify=False)
    ortpkg.record_digests(package)
    with pytest.raises(TrustRequiredError, match="over other files than the package's"):
        ortpkg.ModelPackage(package).create_session(variant="plain-fake")


def test_a_signed_file_vouches_for_no_context_that_was_read_from_another(
    package: Path, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's model is read, and the signed one is back before anybody looks whose it was."""
    compiled(package, FAKE, is_embedded=True)
    shutil.rmtree(machine / "contexts")
    monkeypatch.setenv("ORTPKG_TRUST_POLICY", str(tmp_path / "trust.toml"))
    signed(package, tmp_path, native=True)
    variant = ortpkg.ModelPackage(package).variant("plain-fake")
    assert variant.info.model_path is not None
    model = variant.info.model_path
    own = model.read_bytes()
    forged = onnx.load_model_from_string(own)
    (context,) = [
        each for each in forged.graph.node[0].attribute if each.name == "ep_cache_context"
    ]
    context.s += b"another's"
    judge = context_trust._judge

    def swapped_and_judged(*arguments: Any, **named: Any) -> Any:
        _renamed_over(model, own)
        return judge(*arguments, **named)

    monkeypatch.setattr(context_trust, "_judge", swapped_and_judged)
    _renamed_over(model, forged.SerializeToString())
    with pytest.raises(TrustRequiredError, match="embedded in its model"):
        variant.create_session(verify=False)
    variant.create_session(verify=False)  # now it is the signed one that is read


def test_what_was_installed_from_a_trusted_publisher_runs_by_name(
    fake_package: Path,
    machine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    signed(fake_package, tmp_path, native=True)
    policy = tmp_path / "trust.toml"
    policy.write_text(policy.read_text().replace('"*"', f'"{fake_package}"'))
    ortpkg.install(fake_package, name="net", all_variants=True, trust_policy=policy)
    shutil.rmtree(machine / "contexts")  # another machine remembers nothing
    words = ["run", "net", "--variant", "plain-fake", "--random"]

    assert run_command_line(words) == 7
    assert run_command_line([*words, "--trust-policy", str(policy)]) == 0
    policy.unlink()
    capsys.readouterr()
    assert run_command_line([*words, "--trust", "--trust-policy", str(policy)]) == 2
    assert "trust.toml' does not exist" in capsys.readouterr().err


def _forge_contexts(package: Path) -> None:
    """Appends to what native code would read; an ONNX file stays one."""
    for path in (package / "models" / "model" / "plain-fake").iterdir():
        if path.suffix == ".bin":
            path.write_bytes(path.read_bytes() + b"another's")
        elif path.suffix == ".onnx":
            proto = onnx.load(path)
            proto.doc_string = "another's"
            onnx.save(proto, path)


def test_a_native_context_with_one_byte_changed_is_not_what_was_made_here(
    fake_package: Path, machine: Path
) -> None:
    del machine
    binary = fake_package / "models" / "model" / "plain-fake" / "net_ctx_fake.bin"
    data = bytearray(binary.read_bytes())
    data[-1] ^= 1
    binary.unlink()
    binary.write_bytes(data)
    with pytest.raises(TrustRequiredError):
        ortpkg.ModelPackage(fake_package).best_variant().create_session(verify=False)


def test_a_context_made_here_is_hashed_once_and_again_when_it_changed(
    fake_package: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del machine
    monkeypatch.setattr("ortpkg.foundations.storage.file_stamp._LEAST_AGE_NS", 0)
    monkeypatch.setattr("ortpkg.foundations.storage.digest_cache._LEAST_REMEMBERED_NBYTES", 0)
    variant = ortpkg.ModelPackage(fake_package).best_variant()
    variant.create_session(verify=False)
    with monkeypatch.context() as patched:
        patched.setattr(judged_contexts, "_sha256", lambda _data: pytest.fail("hashed again"))
        variant.create_session(verify=False)
    binary = variant.directory / "net_ctx_fake.bin"
    data = bytearray(binary.read_bytes())
    data[-1] ^= 1
    binary.unlink()
    binary.write_bytes(data)
    with pytest.raises(TrustRequiredError):
        variant.create_session(verify=False)


def _renamed_over(binary: Path, data: bytes) -> None:
    binary.with_name("new").write_bytes(data)
    binary.with_name("new").replace(binary)


def _written_into(binary: Path, data: bytes) -> None:
    binary.write_bytes(data)


def _linked_elsewhere(binary: Path, data: bytes) -> None:
    binary.with_name("other.bin").write_bytes(data)
    binary.unlink()
    binary.symlink_to("other.bin")


@pytest.mark.parametrize("swap", [_renamed_over, _written_into, _linked_elsewhere])
def test_a_file_that_comes_after_the_look_at_it_is_not_loaded(
    fake_package: Path,
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    swap: Callable[[Path, bytes], None],
) -> None:
    """Between judgement and load, another file takes the place of the one made here."""
    del machine
    variant = ortpkg.ModelPackage(fake_package).best_variant()
    binary = variant.directory / "net_ctx_fake.bin"
    other = binary.read_bytes() + b"another's"
    judge = context_trust._judge

    def judged_and_swapped(*arguments: Any, **named: Any) -> Any:
        found = judge(*arguments, **named)
        swap(binary, other)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(context_trust, "_judge", judged_and_swapped)
        with pytest.raises(
            EpContextError, match=r"\.bin' was replaced or changed after it had been looked at"
        ):
            variant.create_session(verify=False)
    with pytest.raises(TrustRequiredError):
        variant.create_session(verify=False)


@pytest.mark.parametrize("swap", [_renamed_over, _written_into])
def test_a_file_that_changes_while_it_is_loaded_is_not_run(
    fake_package: Path,
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    swap: Callable[[Path, bytes], None],
) -> None:
    """A write into the file shows in its mapping: what is loaded then was judged by nobody."""
    del machine
    variant = ortpkg.ModelPackage(fake_package).best_variant()
    binary = variant.directory / "net_ctx_fake.bin"
    look_again = EpContextReader._judged_at
    swapped: list[Path] = []

    def looked_and_swapped(self: EpContextReader, path: Path) -> Any:
        judged = look_again(self, path)
        if not swapped:
            swapped.append(binary)
            swap(binary, binary.read_bytes())  # the same bytes: no digest tells
        return judged

    with monkeypatch.context() as patched:
        patched.setattr(EpContextReader, "_judged_at", looked_and_swapped)
        with pytest.raises(
            EpContextError, match=r"\.bin' was replaced or changed after it had been looked at"
        ):
            variant.create_session(verify=False)


def test_a_child_that_measures_loads_what_its_parent_looked_at(
    fake_package: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del machine
    opened = ortpkg.ModelPackage(fake_package)
    variant = opened.best_variant()
    assert variant.selection.best is not None
    assert (
        "measured" in canary(opened.info, variant.selection.best).reason
    )  # and a part of it elsewhere
    binary = variant.directory / "net_ctx_fake.bin"
    check = context_trust.check_model_file

    def checked_and_swapped(*arguments: Any, **named: Any) -> Any:
        found = check(*arguments, **named)
        _renamed_over(binary, binary.read_bytes() + b"another's")
        return found

    monkeypatch.setattr(
        "ortpkg.selection.measuring.candidate_making.check_model_file", checked_and_swapped
    )
    found = canary(opened.info, variant.selection.best)
    assert "'net_ctx_fake.bin' of 'net_ctx.onnx' is not the one that was looked at" in found.reason


@pytest.mark.parametrize("main", [1, 0])
def test_a_decoy_where_the_package_says_that_contexts_lie_hides_nothing(
    fake_package: Path, machine: Path, main: int
) -> None:
    """What is judged is what is loaded: the file beside the model, whatever options say."""
    del machine
    folder = fake_package / "models" / "model" / "plain-fake"
    (folder / "decoy").mkdir()
    shutil.copy(folder / "net_ctx_fake.bin", folder / "decoy" / "net_ctx_fake.bin")
    other = (folder / "net_ctx_fake.bin").read_bytes() + b"another"
    (folder / "net_ctx_fake.bin").unlink()
    (folder / "net_ctx_fake.bin").write_bytes(other)
    proto = onnx.load(folder / "net_ctx.onnx")
    for node in proto.graph.node:
        for attribute in node.attribute:
            if attribute.name == "main_context" and attribute.i:
                attribute.i = main
    onnx.save(proto, folder / "net_ctx.onnx")
    for document in fake_package.rglob("*.json"):
        content = json.loads(document.read_text())
        variant = content.get("model_variants", content.get("variants", {}))
        if isinstance(variant, dict) and "plain-fake" in variant:
            variant["plain-fake"]["session_options"] = {"ep.context_file_path": "decoy/m.onnx"}
            document.unlink()
            document.write_text(json.dumps(content))
            break
    else:
        pytest.fail("no document has the variant")
    ortpkg.record_digests(fake_package)
    package = ortpkg.ModelPackage(fake_package)
    variant = package.component().variant("plain-fake")
    assert variant is not None
    assert variant.session_options == {"ep.context_file_path": "decoy/m.onnx"}
    with pytest.raises(TrustRequiredError, match=r"net_ctx_fake\.bin"):
        ortpkg.ModelPackage(fake_package).best_variant(variant="plain-fake").create_session()
    with pytest.raises(TrustRequiredError, match=r"net_ctx_fake\.bin"):
        context_trust.check_model_file(variant, package.info, trust=False)


def foreign_and_plain(folder: Path, machine: Path) -> Path:
    """A model with another machine's context, and with plain nodes as well."""
    folder.mkdir()
    first, _ = two_models(folder)
    assert run_command_line(["compile-models", "-e", FAKE, str(first)]) == 0
    shutil.rmtree(machine / "contexts")
    mixed = folder / "mixed.onnx"
    proto = onnx.load(folder / "prefill_ctx.onnx")
    proto.graph.node[-1].output[0] = "t"
    proto.graph.node.append(onnx.helper.make_node("Exp", ["t"], ["y"], name="plain"))
    onnx.save(proto, mixed)
    return mixed


def test_what_others_compiled_does_not_become_our_own_by_compiling_the_rest(
    tmp_path: Path, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = foreign_and_plain(tmp_path / "foreign", machine)
    assert run_command_line(["compile-models", "-e", FAKE, str(mixed)]) == 7
    assert "model 'mixed.onnx' has a context compiled for" in capsys.readouterr().err
    assert not (mixed.parent / "mixed_ctx.onnx").exists()
    assert run_command_line(["compile-models", "-e", FAKE, "--trust", str(mixed)]) == 0
    assert "needs --trust" in capsys.readouterr().err
    assert not (machine / "contexts").exists()


def test_a_model_that_comes_after_the_look_at_it_is_not_compiled(
    tmp_path: Path,
    machine: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model with another machine's context takes the place of the plain one that was judged."""
    mixed = foreign_and_plain(tmp_path / "foreign", machine)
    model = mixed.with_name("prefill.onnx")
    check = context_trust.check_source_model

    def checked_and_swapped(*arguments: Any) -> Any:
        found = check(*arguments)
        _renamed_over(model, mixed.read_bytes())
        return found

    monkeypatch.setattr("ortpkg.authoring.compiling.check_source_model", checked_and_swapped)
    words = ["compile-models", "-e", FAKE, "--overwrite", str(model)]
    assert run_command_line(words) != 0
    assert "of 'prefill.onnx' is not the one that was looked at" in capsys.readouterr().err
    assert not (machine / "contexts").exists()


def test_run_ends_with_exit_code_7_without_trust(
    fake_package: Path, machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(machine / "contexts")
    np.save(tmp_path / "x.npy", X)
    words = ["run", str(fake_package), "-i", f"x={tmp_path / 'x.npy'}"]
    assert run_command_line([*words, "--variant", "plain-fake"]) == 7
    assert "--trust" in capsys.readouterr().err
    assert run_command_line([*words, "--variant", "plain-fake", "--trust"]) == 0
    capsys.readouterr()
    assert run_command_line(words) == 0
    assert "NEEDS_TRUST" in capsys.readouterr().err
    for trust, code in (("--no-trust", 3), ("--trust", 0)):
        assert run_command_line(["select", str(fake_package), "--ep", FAKE, trust]) == code
    capsys.readouterr()


def test_a_package_of_nothing_but_native_code_is_refused_for_lack_of_trust(
    fake_package: Path, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ortpkg.remove_variant(fake_package, "plain")
    shutil.rmtree(machine / "contexts")
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    opened = ortpkg.ModelPackage(fake_package)
    with pytest.raises(TrustRequiredError, match="'plain-fake' of 'model' may not") as of_choice:
        opened.best_variant()
    with pytest.raises(TrustRequiredError, match="pass --trust") as of_session:
        opened.create_session(variant="plain-fake")
    with pytest.raises(TrustRequiredError, match="may not run here") as of_install:
        ortpkg.install(fake_package, name="net")
    for caught in (of_choice, of_session, of_install):
        assert "plain variant" not in str(caught.value)  # there is none


def test_a_plain_variant_is_offered_where_there_is_one(
    fake_package: Path, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    shutil.rmtree(machine / "contexts")
    with pytest.raises(TrustRequiredError, match=r", or run a plain variant$"):
        ortpkg.ModelPackage(fake_package).create_session(variant="plain-fake")
    ortpkg.install(fake_package, name="net", variants=["plain-fake"])
    with pytest.raises(TrustRequiredError, match=r"; or run a plain variant \(ortpkg install"):
        ortpkg.ModelPackage("net").best_variant()


def test_installing_leaves_native_code_behind_that_a_session_would_refuse(
    fake_package: Path,
    machine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    words = ["install", str(fake_package), "--name"]
    assert run_command_line([*words, "made-here"]) == 0
    assert "model/plain-fake for this machine" in capsys.readouterr().err
    shutil.rmtree(machine / "contexts")
    assert run_command_line([*words, "plain"]) == 0
    err = " ".join(capsys.readouterr().err.split())
    assert "model/plain for this machine" in err
    assert "variant 'plain-fake' of 'model' stays behind: its compiled context is native" in err
    assert run_command_line(["run", "plain", "--random"]) == 0
    assert run_command_line([*words, "by-name", "--variant", "plain-fake"]) == 0
    err = " ".join(capsys.readouterr().err.split())
    assert "variant 'plain-fake' is fetched, and will not run as it is: its compiled context" in err
    assert run_command_line([*words, "with-trust", "--variant", "plain-fake", "--trust"]) == 0
    assert "will not run" not in " ".join(capsys.readouterr().err.split())
    assert run_command_line([*words, "trusted", "--trust"]) == 0
    assert "model/plain-fake for this machine" in capsys.readouterr().err
    assert run_command_line(["run", "trusted", "--random", "--trust"]) == 0


def test_installing_chooses_native_code_of_a_publisher_whom_the_policy_lets_ship_it(
    fake_package: Path,
    machine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    shutil.rmtree(machine / "contexts")
    for is_native, chosen in ((True, "plain-fake"), (False, "plain")):
        signed(fake_package, tmp_path, native=is_native)
        policy = str(tmp_path / "trust.toml")
        words = ["install", str(fake_package), "--name", f"n{chosen}", "--trust-policy", policy]
        assert run_command_line(words) == 0
        assert f"model/{chosen} for this machine" in capsys.readouterr().err
