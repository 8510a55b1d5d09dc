"""Contexts without weights: what they need comes along, is checked, installed and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.authoring.brought_sources import bring_sources
from ortpkg.authoring.create import add_variant, create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.authoring.removal import used_files
from ortpkg.authoring.variant_files import collect_variant_files
from ortpkg.distribution.variant_needs import needs_of_variants
from ortpkg.foundations.errors import DigestMismatchError, ModelFileError, ModelNotFoundError
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.reader import open_package
from ortpkg.package.trust.package_verification import PackageVerifier
from tests.authoring.checks.trees import (
    SIGNATURE,
    Tree,
    context_model,
    external,
    model,
    model_with_data,
    weightless_model,
    write_tree,
)
from tests.authoring.conftest import ModelMaker
from tests.providers.openvino_containers import container, cpu_blob

QNN = "QNNExecutionProvider"


def recorded(root: Path) -> Path:
    """The package, with digests of all its files."""
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))
    return root


def written(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / "net_ctx.onnx"


@pytest.mark.parametrize(
    ("mode", "needed"),
    [
        ("1", {"net.bin", "w.bin", "net.onnx"}),
        ("2", {"net.bin", "w.bin", "net.onnx"}),
        ("0", {"net.bin"}),
        ("7", {"net.bin"}),
    ],
    ids=["external-only", "all", "none", "of-a-later-release"],
)
def test_a_compiled_model_brings_along_what_its_mode_needs(
    tmp_path: Path, mode: str, needed: set[str]
) -> None:
    files = {
        "net_ctx.onnx": weightless_model(mode, "net.onnx"),
        "net.bin": b"compiled",
        "net.onnx": model_with_data(),
        "w.bin": bytes(16),
        "another.bin": b"not needed",
    }
    collected = collect_variant_files(written(tmp_path, files))

    assert set(collected.sources) == {"net_ctx.onnx", *needed}
    assert collected.is_complete


def test_a_source_in_a_folder_below_comes_with_its_data(tmp_path: Path) -> None:
    files = {
        "net_ctx.onnx": weightless_model("2", "src/net.onnx"),
        "net.bin": b"compiled",
        "src/net.onnx": model_with_data(),
        "src/w.bin": bytes(16),
    }
    collected = collect_variant_files(written(tmp_path, files))

    assert set(collected.sources) == set(files)


def test_an_option_says_where_the_source_lies(tmp_path: Path) -> None:
    files = {
        "net_ctx.onnx": weightless_model("2", "/build/net.onnx"),
        "net.bin": b"compiled",
        "other.onnx": model_with_data(),
        "w.bin": bytes(16),
    }
    collected = collect_variant_files(written(tmp_path, files), source_model="other.onnx")

    assert set(collected.sources) == set(files)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "net.onnx",
            "source model, from which its contexts take weights, 'net.onnx' does not exist",
        ),
        ("../net.onnx", "take all weights from the model that was compiled, '../net.onnx': put it"),
        ("", "take all weights from the model that was compiled, and do not name it: put it"),
    ],
)
def test_a_compiled_model_without_its_source_is_refused(
    tmp_path: Path, source: str, message: str
) -> None:
    files = {
        "a/net_ctx.onnx": weightless_model("2", source),
        "a/net.bin": b"compiled",
        "net.onnx": model() if source.startswith("..") else b"",
    }
    written(tmp_path, files)

    with pytest.raises(ModelNotFoundError, match=message):
        collect_variant_files(tmp_path / "a" / "net_ctx.onnx")


def test_data_that_cannot_be_told_is_said(tmp_path: Path, make_model: ModelMaker) -> None:
    compiled = written(
        tmp_path / "c",
        {
            "net_ctx.onnx": weightless_model("1", "net.onnx"),
            "net.bin": b"compiled",
            "w.bin": bytes(16),
        },
    )
    root = create(
        tmp_path / "p", [NewVariant.for_cpu(make_model(signature=SIGNATURE))], notify=lambda _: None
    ).root
    said: list[str] = []

    add_variant(root, compiled, variant="npu", ep="qnn", notify=said.append)

    assert [text for text in said if "take weights from data files" in text]


def test_containers_bring_along_the_files_that_their_index_names(tmp_path: Path) -> None:
    weights = {"w": {"location": "w.bin", "data_offset": 8, "size": 8}}
    data = container({"p": cpu_blob(b"a" * 100)}, weights_metadata_map=weights)
    openvino = {"source": "OpenVINOExecutionProvider"}
    beside = written(
        tmp_path / "beside",
        {"net_ctx.onnx": context_model(**openvino), "net.bin": data, "w.bin": bytes(16)},
    )
    embedded = written(
        tmp_path / "embedded",
        {
            "net_ctx.onnx": context_model(embed_mode=1, ep_cache_context=data, **openvino),
            "w.bin": bytes(16),
        },
    )

    assert set(collect_variant_files(beside).sources) == {"net_ctx.onnx", "net.bin", "w.bin"}
    assert set(collect_variant_files(embedded).sources) == {"net_ctx.onnx", "w.bin"}
    (embedded.parent / "w.bin").write_bytes(bytes(15))
    with pytest.raises(ModelFileError, match=r"'w\.bin' is too short: 15 bytes of 16 needed"):
        collect_variant_files(embedded)


def _package() -> Tree:
    """A compiled variant whose source is the CPU's variant, in another folder."""
    variants = {
        "cpu": {"ep": "CPUExecutionProvider"},
        "npu": {"ep": QNN, "device": "npu"},
    }
    for body in variants.values():
        body["executor_info"] = {"ort": {"model_file": "model.onnx"}}  # type: ignore[assignment]
    return {
        "manifest.json": {"schema_version": "1.0", "components": {"m": {"variants": variants}}},
        "cpu/model.onnx": model_with_data(external("w", "w.bin")),
        "cpu/w.bin": bytes(16),
        "npu/model.onnx": weightless_model("2", "../cpu/model.onnx"),
        "npu/net.bin": b"compiled",
    }


def test_a_machine_that_installs_the_compiled_variant_gets_its_source(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "p", _package())
    package = open_package(root)
    needs = needs_of_variants(package)

    assert needs["cpu/model.onnx"] == needs["cpu/w.bin"] == ("m/cpu", "m/npu")
    npu = package.components[0].variants[1]
    assert {path.relative_to(root).as_posix() for path in used_files(npu) or ()} == {
        "npu/model.onnx",
        "npu/net.bin",
        "cpu/model.onnx",
        "cpu/w.bin",
    }
    assert [str(each) for each in validate(root) if each.rule == "ORT124"] == []


@pytest.mark.parametrize("name", ["cpu/model.onnx", "cpu/w.bin", "npu/net.bin"])
def test_a_session_compares_the_files_that_contexts_take_weights_from(
    tmp_path: Path, name: str
) -> None:
    root = recorded(write_tree(tmp_path / "p", _package()))
    package = open_package(root)
    npu = package.components[0].variants[1]
    assert PackageVerifier(package).verify_variant(npu).is_verified

    content = (root / name).read_bytes()
    (root / name).unlink()
    (root / name).write_bytes(content[:-1] + b"!")

    with pytest.raises(DigestMismatchError, match=name):
        PackageVerifier(package).verify_variant(npu)


def test_a_source_that_leads_out_of_the_package_is_not_looked_at(tmp_path: Path) -> None:
    tree = _package() | {"npu/model.onnx": weightless_model("2", "../../../../net.onnx")}
    root = recorded(write_tree(tmp_path / "p", tree))
    package = open_package(root)

    npu = package.components[0].variants[1]
    assert set(PackageVerifier(package).verify_variant(npu).files) == {
        "manifest.json",
        "npu/model.onnx",
        "npu/net.bin",
    }
    (finding,) = [each for each in validate(root) if each.rule == "ORT124"]
    assert "outside of the package" in finding.message


@pytest.mark.parametrize(
    ("mode", "brought", "options"),
    [
        ("0", set[str](), {}),
        ("1", {"w.bin", "model.onnx"}, {"ep.context_source_model_path": "model.onnx"}),
        ("2", {"w.bin", "model.onnx"}, {"ep.context_source_model_path": "model.onnx"}),
    ],
)
def test_a_compiler_that_leaves_weights_out_gets_them_beside_what_it_made(
    tmp_path: Path, mode: str, brought: set[str], options: dict[str, str]
) -> None:
    root = write_tree(tmp_path / "p", _package())
    cpu = open_package(root).components[0].variants[0]
    compiled = written(
        tmp_path / "made",
        {"net_ctx.onnx": weightless_model(mode, "model.onnx"), "net.bin": b"compiled"},
    )

    assert bring_sources(compiled, cpu) == options
    assert {path.name for path in compiled.parent.iterdir()} == {
        "net_ctx.onnx",
        "net.bin",
        *brought,
    }
    source = options.get("ep.context_source_model_path")
    assert collect_variant_files(compiled, source_model=source).is_complete
