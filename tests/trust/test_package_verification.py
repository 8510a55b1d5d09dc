"""Sessions compare what they load with digests.json: any flipped byte is noticed and named."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import ortpkg
from ortpkg.foundations.errors import (
    DigestMismatchError,
    LimitExceededError,
    ModelError,
    PackageError,
    PackageFormatError,
)
from ortpkg.package.formats.samples import read_samples
from ortpkg.package.integrity.digests import dump_digests, read_entries
from ortpkg.package.trust import package_verification
from ortpkg.package.trust.package_verification import PackageVerifier
from tests.cli.conftest import DIGITS

LOADED = (
    "manifest.json",
    "models/model/metadata.json",
    "models/model/big/big.onnx",
    "models/model/big/data/weights.bin",
)


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A package with a variant whose weights lie in a file of their own, and another variant."""
    folder = tmp_path / "big"
    weights = np.arange(16, dtype=np.float32).reshape(4, 4)
    tensor = numpy_helper.from_array(weights, "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (
        ("location", "data/weights.bin"),
        ("offset", "0"),
        ("length", str(weights.nbytes)),
    ):
        tensor.external_data.add(key=key, value=value)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    (folder / "data").mkdir(parents=True)
    (folder / "data/weights.bin").write_bytes(weights.tobytes())
    for name, op, initializers in (
        ("big", helper.make_node("MatMul", ["x", "w"], ["y"]), [tensor]),
        ("small", helper.make_node("Identity", ["x"], ["y"]), []),
    ):
        graph = helper.make_graph([op], "g", [x], [y], initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    root = tmp_path / "p.ortpackage"
    ortpkg.create(root, [ortpkg.NewVariant.for_cpu(folder / "big.onnx")])
    ortpkg.add_variant(root, folder / "small.onnx", ep="cpu")
    return root


def best(root: Path) -> ortpkg.ModelVariant:
    return ortpkg.ModelPackage(root).best_variant(variant="big")


@pytest.mark.parametrize("file", LOADED[2:])
def test_a_file_that_is_far_larger_than_its_record_is_not_read(root: Path, file: str) -> None:
    """Of terabytes, nearly all of them holes: hashing them would take hours."""
    recorded = (root / file).stat().st_size
    variant = best(root)
    os.truncate(root / file, 1 << 40)
    problem = f"'{file}' .* has {1 << 40} bytes, where digests.json records {recorded};"
    with pytest.raises(DigestMismatchError, match=problem) as caught:
        variant.create_session(backend="embedded")
    assert (caught.value.file, caught.value.actual) == (file, "")
    assert len(caught.value.expected) == 64


def record_a_terabyte(root: Path, file: str) -> None:
    """Of a file that has one, nearly all of it holes: so large it may be."""
    os.truncate(root / file, 1 << 40)
    document = json.loads((root / "digests.json").read_bytes())
    document["files"][file]["nbytes"] = 1 << 40
    (root / "digests.json").write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("file", LOADED[2:])
def test_comparing_a_recorded_terabyte_ends_when_the_time_is_up(root: Path, file: str) -> None:
    variant = best(root)
    record_a_terabyte(root, file)

    with pytest.raises(LimitExceededError, match=r"with digests\.json passed the time limit of"):
        variant.create_session(backend="embedded", limits=limited(0.2))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("canary", [False, True])
def test_run_ends_while_it_compares_a_terabyte_when_its_time_is_up(
    root: Path, capsys: pytest.CaptureFixture[str], canary: bool
) -> None:
    from ortpkg.cli.app import main

    record_a_terabyte(root, LOADED[-1])

    with pytest.raises(SystemExit) as exit_:
        main(["run", str(root), "--random", "--timeout", "0.2", *(["--canary"] if canary else [])])

    assert exit_.value.code == 5
    assert "with digests.json passed the time limit of 0.2 s" in capsys.readouterr().err


@pytest.mark.timeout(120)
def test_comparing_samples_ends_when_the_time_is_up(tmp_path: Path) -> None:
    digits = Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))
    package = ortpkg.ModelPackage(digits)
    (samples,) = read_samples(package.info)
    record_a_terabyte(digits, samples.inputs.relative_to(digits).as_posix())

    with pytest.raises(LimitExceededError, match=r"with digests\.json passed the time limit of"):
        package.verify_samples([samples], timeout_s=0.2)


def limited(timeout_s: float) -> ortpkg.RunOptions:
    options = ortpkg.RunOptions()
    options.timeout_s = timeout_s
    return options


def test_a_session_says_what_was_compared(root: Path) -> None:
    variant = best(root)

    session = variant.create_session(backend="embedded")

    (y,) = session.run(None, {"x": np.eye(4, dtype=np.float32)})
    assert y[3, 3] == 15
    assert variant.verification is not None
    assert variant.verification.is_verified
    assert variant.verification.files == LOADED


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_flipped_byte_of_whatever_a_session_loads_is_noticed_and_named(
    root: Path, data: st.DataObject
) -> None:
    variant = best(root)
    name = data.draw(st.sampled_from(LOADED))
    content = (root / name).read_bytes()
    damaged = bytearray(content)
    damaged[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        (root / name).write_bytes(damaged)
        with pytest.raises(DigestMismatchError) as caught:
            variant.create_session(backend="embedded")
    finally:
        (root / name).write_bytes(content)

    assert caught.value.file == name
    assert repr(name) in str(caught.value)
    assert caught.value.expected in str(caught.value)
    assert caught.value.actual in str(caught.value)
    assert caught.value.expected != caught.value.actual


def test_damage_to_what_is_not_loaded_does_not_matter(root: Path) -> None:
    (root / "models/model/small/small.onnx").write_bytes(b"x")

    variant = best(root)
    (y,) = variant.create_session(backend="embedded").run(None, {"x": np.eye(4, dtype=np.float32)})

    assert y.tolist() == np.arange(16).reshape(4, 4).tolist()
    assert variant.verification is not None
    assert variant.verification.is_verified


def test_verification_can_be_turned_off(root: Path) -> None:
    data = root / "models/model/big/data/weights.bin"
    data.write_bytes(bytes(data.stat().st_size))

    variant = best(root)
    (y,) = variant.create_session(backend="embedded", verify=False).run(
        None, {"x": np.eye(4, dtype=np.float32)}
    )

    assert not y.any()
    assert variant.verification is None


def test_a_file_that_is_loaded_but_not_recorded_is_refused(root: Path) -> None:
    document = (root / "digests.json").read_text()
    (root / "digests.json").write_text(document.replace("data/weights.bin", "data/weights.old"))
    recorded = read_entries(root)
    assert recorded is not None
    (root / "digests.json").write_bytes(dump_digests(recorded))  # with its right sum

    with pytest.raises(
        DigestMismatchError, match=r"weights.bin' of .* is not recorded in digests.json"
    ):
        best(root).create_session(backend="embedded")


@pytest.mark.parametrize("file", LOADED)
def test_a_size_that_the_record_contradicts_is_damage(root: Path, file: str) -> None:
    document = json.loads((root / "digests.json").read_text())
    document["files"][file]["nbytes"] += 1
    (root / "digests.json").write_text(json.dumps(document))

    with pytest.raises(DigestMismatchError, match=r"a size that digests.json contradicts"):
        best(root).create_session(backend="embedded")


def test_a_link_to_another_recorded_file_is_no_stand_in(root: Path) -> None:
    """The other variant's model is as recorded, and not what was recorded here."""
    model = root / "models/model/big/big.onnx"
    model.unlink()
    model.symlink_to("../small/small.onnx")

    with pytest.raises(
        DigestMismatchError, match=r"big/big.onnx' of .* cannot be read: 'a symbolic link"
    ):
        best(root).create_session(backend="embedded")


def test_documents_newer_than_the_digests_that_were_read_are_no_damage(root: Path) -> None:
    package = ortpkg.ModelPackage(root)
    verifier = PackageVerifier(package.info)
    ortpkg.remove_variant(root, "small")

    verification = verifier.verify_variant(package.best_variant(variant="big").info)

    assert verification.is_verified


def test_a_variant_that_was_removed_meanwhile_is_no_damage(root: Path) -> None:
    package = ortpkg.ModelPackage(root)
    variant = package.best_variant(variant="small").info
    verifier = PackageVerifier(package.info)
    ortpkg.remove_variant(root, "small")

    with pytest.raises(PackageError, match="was removed after the package was opened") as caught:
        verifier.verify_variant(variant)
    assert not isinstance(caught.value, DigestMismatchError)


@pytest.mark.parametrize("verify", [True, False])
def test_a_session_on_a_variant_that_was_removed_says_so(root: Path, verify: bool) -> None:
    """Another process has deleted the files, and not yet their records."""
    variant = ortpkg.ModelPackage(root).best_variant(variant="small")
    before = read_entries(root)
    ortpkg.remove_variant(root, "small")
    after = read_entries(root)
    assert before is not None
    assert after is not None
    entries = replace(after, files={**before.files, **after.files})
    (root / "digests.json").write_bytes(dump_digests(entries))

    expected = r"variant 'small' of .* was removed after the package was opened; open it again"
    with pytest.raises(PackageError, match=expected) as caught:
        variant.create_session(backend="embedded", verify=verify)
    assert not isinstance(caught.value, DigestMismatchError)


def test_a_recorded_file_that_is_missing_is_named(root: Path) -> None:
    variant = best(root)
    (root / "models/model/big/big.onnx").unlink()

    with pytest.raises(
        DigestMismatchError, match=r"big.onnx' of .* cannot be read: 'No such file or directory'"
    ):
        variant.create_session(backend="embedded")


def test_without_digests_a_session_is_made_and_said_to_be_unverified(root: Path) -> None:
    (root / "digests.json").unlink()

    variant = best(root)
    variant.create_session(backend="embedded")

    assert variant.verification is not None
    assert not variant.verification.is_verified
    assert (
        "unverified: the package has no digests.json, so damage would go unnoticed"
        in variant.selection.warnings
    )
    assert not ortpkg.ModelPackage(root).is_recorded


def test_a_package_with_digests_has_no_such_warning(root: Path) -> None:
    assert not [warning for warning in best(root).selection.warnings if "unverified" in warning]


def test_a_broken_digests_json_is_an_error(root: Path) -> None:
    (root / "digests.json").write_bytes(b"{")

    with pytest.raises(PackageFormatError, match=r"digests.json: is not valid JSON"):
        best(root).create_session(backend="embedded")


def test_all_files_of_a_genai_variant_are_compared(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "genai"
    folder.mkdir()
    (folder / "genai_config.json").write_text('{"model": {}}')
    (folder / "tokenizer.bin").write_bytes(b"words")
    ortpkg.add_variant(root, folder, component="chat", ep="cpu")
    variant = ortpkg.ModelPackage(root).best_variant("chat")
    assert variant.verify().is_verified

    (root / "models/chat/genai/tokenizer.bin").write_bytes(b"birds")
    with pytest.raises(DigestMismatchError, match=r"tokenizer.bin"):
        variant.verify()
    with pytest.raises(ModelError, match="GenAI variant"):
        variant.create_session()


def test_a_variant_can_be_pickled_after_it_was_verified(root: Path) -> None:
    variant = best(root)
    variant.verify()
    assert pickle.loads(pickle.dumps(variant)).verification == variant.verification


# --- the second time ------------------------------------------------------------------------------


def make_old(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets an hour pass, so that no file is too young to be remembered."""
    monkeypatch.setattr(package_verification, "now_ns", lambda: time.time_ns() + 3_600_000_000_000)


def test_the_second_time_nothing_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(root, monkeypatch)
    first = best(root).verify()
    monkeypatch.setattr(package_verification, "_may_name_files", pytest.fail)

    second = best(root).verify()

    assert first.hashed_nbytes == sum((root / name).stat().st_size for name in LOADED)
    assert second.hashed_nbytes == 0
    assert second.files == first.files


def test_files_under_two_seconds_old_are_read_again(root: Path) -> None:
    first = best(root).verify()
    assert best(root).verify().hashed_nbytes == first.hashed_nbytes > 0


def test_a_change_that_keeps_size_and_time_is_noticed_the_second_time(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(root, monkeypatch)
    best(root).verify()
    path = root / "models/model/big/data/weights.bin"
    status = path.stat()
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    if os.name == "nt":
        pytest.skip("Windows has no time of change that programs cannot set")

    with pytest.raises(DigestMismatchError, match=r"weights.bin"):
        best(root).verify()


def test_verify_asks_no_cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(root, monkeypatch)
    best(root).verify()
    (fact,) = Path(os.environ["ORTPKG_CACHE_DIR"], "facts").glob("digests-*")
    wrong = (root / "models/model/big/data/weights.bin").read_bytes()[::-1]
    (root / "models/model/big/data/weights.bin").write_bytes(wrong)
    fact.chmod(0o000)

    assert [each.file for each in ortpkg.verify(root).differences] == [
        "models/model/big/data/weights.bin"
    ]


def test_an_update_while_the_session_is_made_is_noticed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = best(root)
    make_session = ortpkg.ModelVariant._session

    def exchange(self: ortpkg.ModelVariant, *arguments: Any, **options: Any) -> object:
        path = root / "models/model/big/data/weights.bin"
        other = path.with_name("other")
        other.write_bytes(bytes(path.stat().st_size))
        other.replace(path)
        return make_session(self, *arguments, **options)

    monkeypatch.setattr(ortpkg.ModelVariant, "_session", exchange)

    with pytest.raises(DigestMismatchError, match=r"weights.bin"):
        variant.create_session(backend="embedded")


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["samples.json", "held_out_inputs.npz", "held_out_outputs.npz", "held_out_labels.npz"]
)
def test_a_flipped_byte_in_the_samples_is_noticed_by_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    from ortpkg.cli.app import main

    digits = Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))
    content = bytearray((digits / "samples" / name).read_bytes())
    content[-2] = ord(" ") if name == "samples.json" else content[-2] ^ 1
    content[-1] = ord("}") if name == "samples.json" else content[-1]
    (digits / "samples" / name).write_bytes(content)

    with pytest.raises(SystemExit) as exit_:
        main(["run", str(digits)])

    assert exit_.value.code == 4
    assert f"'samples/{name}' of" in capsys.readouterr().err


def test_models_of_other_files_are_searched_in_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_verification, "_CHUNK_NBYTES", 4)
    for content, expected in (
        (b"xxlocationxx", True),
        (b"xEPContextxx", True),
        (b"locatioxnEPContex", False),
    ):
        (tmp_path / "m").write_bytes(content)
        assert package_verification._may_name_files(tmp_path / "m") is expected


def test_onnx_writes_the_trace_that_is_searched_for(root: Path) -> None:
    assert package_verification._may_name_files(root / "models/model/big/big.onnx")
    assert not package_verification._may_name_files(root / "models/model/small/small.onnx")
    assert onnx.load(root / "models/model/small/small.onnx").graph.node[0].op_type == "Identity"
