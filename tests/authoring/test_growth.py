"""Work grows no faster than packages: twice the variants take about twice the steps."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import onnx.parser
import pytest

from ortpkg.authoring import edited_documents, migration, variant_files, variant_layout
from ortpkg.authoring.edited_documents import EditedDocuments
from ortpkg.authoring.merge import plan_merge
from ortpkg.authoring.migration import migrate_check
from ortpkg.authoring.model_facts import ModelFacts, read_model_facts
from ortpkg.authoring.sharing import component_folders, sharing_group, sharing_plan
from ortpkg.authoring.sharing.asset_plan import plan_assets
from ortpkg.authoring.sharing.component_folders import UsedPaths
from ortpkg.authoring.sharing.dedup import dedup
from ortpkg.authoring.sharing.layouts import SharedLayout, SharingOptions
from ortpkg.authoring.sharing.sharing_plan import plan_component
from ortpkg.authoring.variant_layout import lay_out_variants
from ortpkg.authoring.variant_places import ComponentDocument
from ortpkg.authoring.variant_sizes import variant_sizes
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.package.package_info import PackageFormat
from ortpkg.package.reader import open_package
from tests.authoring.weight_models import make_model, weight
from tests.lines_run import instructions_run


def steps_in(module: ModuleType, action: Callable[[], object]) -> int:
    """How many instructions of the interpreter ``action`` takes in the functions of ``module``."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if event == "call" and frame.f_code.co_filename != module.__file__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def plan_sharing(root: Path) -> None:
    package = open_package(root)
    component = package.components[0]
    document = ComponentDocument(EditedDocuments(package), component)
    plan_component(package, component, document, UsedPaths(package), SharingOptions())


@pytest.mark.parametrize(
    ("module", "action"),
    [
        (
            variant_layout,
            lambda root: lay_out_variants(open_package(root), PackageFormat.COMPONENT),
        ),
        (migration, migrate_check),
        (sharing_plan, plan_sharing),
        (component_folders, plan_sharing),
        (sharing_group, plan_sharing),
    ],
    ids=["convert", "migrate-check", "dedup", "dedup-folders", "dedup-groups"],
)
def test_twice_the_variants_take_about_twice_the_work(
    tmp_path: Path, module: ModuleType, action: Callable[[Path], object]
) -> None:
    steps, constraints = [], {"ep": "CPUExecutionProvider"}
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { y = Relu(x) }'
    model = onnx.parser.parse_model(text).SerializeToString()
    for count in (50, 100):
        root = tmp_path / f"{count}.ortpackage"
        variants = {
            f"v{number}": {"model_file": "m.onnx", "constraints": constraints}
            for number in range(count)
        }
        for name in variants:
            (root / "models/m" / name).mkdir(parents=True)
            (root / "models/m" / name / "m.onnx").write_bytes(model)
        (root / "manifest.json").write_text('{"model_name": "p", "component_models": ["m"]}')
        metadata = {"component_model_name": "m", "model_variants": variants}
        (root / "models/m/metadata.json").write_text(json.dumps(metadata))
        steps.append(steps_in(module, partial(action, root)))
    assert steps[1] < 2.5 * steps[0], steps


def write_inline(root: Path, components: list[str], variants: list[str]) -> Path:
    """A package whose manifest declares all of it; every variant has the same model."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { y = Relu(x) }'
    (root / "c").mkdir(parents=True)
    (root / "c/m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    variant = {
        "variant_directory": "c",
        "ep": "CPUExecutionProvider",
        "executor_info": {"ort": {"model_file": "m.onnx"}},
    }
    body = {"variants": dict.fromkeys(variants, variant)}
    manifest = {"schema_version": "1.0", "components": dict.fromkeys(components, body)}
    (root / "manifest.json").write_text(json.dumps(manifest))
    return root


@pytest.mark.parametrize("what", ["components", "variants"])
def test_merging_takes_as_much_for_each_more(tmp_path: Path, what: str) -> None:
    steps = []
    for count in (10, 20, 30):
        first, second = (
            write_inline(
                tmp_path / f"{count}-{start}.ortpackage",
                [f"{start}{i}" for i in range(count)] if what == "components" else ["c"],
                [f"{start}{i}" for i in range(count)] if what == "variants" else ["v"],
            )
            for start in "ab"
        )
        packages = open_package(first), open_package(second)
        steps.append(instructions_run(lambda: plan_merge(*packages, notify=print)))  # noqa: B023  # called at once
    few, more, most = steps
    assert most - more < 1.02 * (more - few), steps


def test_each_more_variant_takes_as_much_to_plan_assets(tmp_path: Path) -> None:
    steps = []
    for count in (10, 20, 30):
        root = tmp_path / f"{count}.ortpackage"
        body = {"ep": "CPUExecutionProvider", "executor_info": {"ort": {"model_file": "m.onnx"}}}
        for number in range(count):
            make_model(root / f"c/v{number}", {"w": weight(number)}, name="m.onnx")
        variants = {f"v{number}": body for number in range(count)}
        (root / "c/component.json").write_text(json.dumps({"variants": variants}))
        (root / "manifest.json").write_text('{"schema_version": "1.0", "components": {"c": "c"}}')
        package = open_package(root)
        steps.append(instructions_run(lambda: plan_assets(package)))  # noqa: B023  # called at once
    few, more, most = steps
    assert most - more < 1.05 * (more - few), steps


def test_twice_the_variants_that_join_one_folder_take_about_twice_the_work(tmp_path: Path) -> None:
    steps = []
    for count in (20, 40):
        root = tmp_path / f"{count}.ortpackage"
        weights = {
            f"v{number}": {"s": weight(0), "w": weight(number + 1)} for number in range(count)
        }
        for name, each in weights.items():
            make_model(root / "models/m" / name, each)
        variants = {name: {"constraints": {"ep": "CPUExecutionProvider"}} for name in weights}
        (root / "manifest.json").write_text('{"model_name": "p", "component_models": ["m"]}')
        metadata = {"component_model_name": "m", "model_variants": variants}
        (root / "models/m/metadata.json").write_text(json.dumps(metadata))

        joining = steps_in(sharing_group, partial(dedup, root))
        joined = steps_in(sharing_group, partial(dedup, root, dry_run=True))
        assert len(list((root / "models/m").iterdir())) == 2  # the document, and the one folder
        steps.append((joining, joined))
    assert all(more < 2.5 * few for few, more in zip(*steps, strict=True)), steps


def test_a_model_that_many_variants_have_is_read_once_for_their_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "p" / "c" / "v"
    folder.mkdir(parents=True)
    model = folder / "m.onnx"
    text = '<ir_version: 9, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { y = Relu(x) }'
    model.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    variant = {
        "ep": "CPUExecutionProvider",
        "variant_directory": "v",
        "executor_info": {"ort": {"model_file": "m.onnx"}},
    }
    component = {"variants": {f"v{number}": variant for number in range(3)}}
    (tmp_path / "p" / "c" / "component.json").write_text(json.dumps(component))
    manifest = {"schema_version": "1.0", "components": {f"a{number}": "c" for number in range(3)}}
    (tmp_path / "p" / "manifest.json").write_text(json.dumps(manifest))
    read: list[Path] = []

    def counted(path: Path) -> ModelFacts:
        read.append(path)
        return read_model_facts(path)

    monkeypatch.setattr(variant_files, "read_model_facts", counted)
    sizes = variant_sizes(open_package(tmp_path / "p"))

    assert len(read) == 1
    assert {size.shared_nbytes for size in sizes.values()} == {model.stat().st_size}
    assert len(sizes) == 9


def test_dedup_takes_as_much_for_each_more_component(tmp_path: Path) -> None:
    steps = []
    for count in (10, 20, 30):
        root = tmp_path / f"{count}.ortpackage"
        for number in range(count):
            make_model(root / f"models/c{number}/v", {"w": weight(number)})
            document = root / f"models/c{number}/metadata.json"
            document.write_text(
                json.dumps({"component_model_name": f"c{number}", "model_variants": {"v": {}}})
            )
        names = [f"c{number}" for number in range(count)]
        manifest = {"model_name": "p", "component_models": names}
        (root / "manifest.json").write_text(json.dumps(manifest))
        steps.append(instructions_run(lambda: dedup(root, dry_run=True)))  # noqa: B023  # called at once
    few, more, most = steps
    assert most - more < 1.05 * (more - few), steps


@pytest.mark.parametrize("layout", SharedLayout)
def test_dedup_reads_a_document_once_however_many_components_it_declares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: SharedLayout
) -> None:
    root = write_inline(tmp_path / "p", ["a", "b", "c"], ["v"])
    read: list[str] = []

    def counted(data: bytes, *, document: str) -> Any:
        read.append(document)
        return parse_document(data, document=document)

    monkeypatch.setattr(edited_documents, "parse_document", counted)
    dedup(root, layout=layout, dry_run=True)

    assert read == ["manifest.json"]
