"""The selection's section: what the matrices say is what the selections say."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortpkg import ModelPackage, ReportWishes
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.package.package_info import ComponentInfo
from ortpkg.report.report_subject import MachineSelections
from ortpkg.report.sections.verdict_matrix import Standing, device_matrix, machine_matrix
from ortpkg.selection.matching.reasons import main_verdict
from tests.report.conftest import DIGITS
from tests.report.pages import Page, page_of

MANY_CELLS = 100_000


def _component(variants: Any) -> ComponentInfo:
    return ComponentInfo(name="model", directory=Path(), variants=tuple(variants))


def test_each_cell_is_the_verdict_on_its_variant_and_ep_device(
    machines: Any, variants: Any, select: Any
) -> None:
    component = _component(variants.values())
    selection = select(machines["workstation"], component.variants)
    matrix = device_matrix(selection, component, MANY_CELLS)

    rows = dict(matrix.rows)
    assert list(rows) == [each.name for each in component.variants]
    for verdict in selection.verdicts:
        row = rows[verdict.variant.name]
        if verdict.ep_device is None:
            assert {cell.standing for cell in row} == {Standing.NOT_TRIED}
            assert {cell.code for cell in row} == {verdict.code.value}
            continue
        place = next(
            place for place, each in enumerate(selection.ep_devices) if each is verdict.ep_device
        )
        cell = row[place]
        assert cell.code == verdict.code.value
        assert cell.reason.startswith(short_ep_names(verdict.reason))
        can_run = cell.standing in {Standing.SELECTED, Standing.ELIGIBLE}
        assert can_run == verdict.is_eligible
    chosen = [cell for row in rows.values() for cell in row if cell.standing is Standing.SELECTED]
    assert len(chosen) == 1


def test_the_table_of_reasons_has_every_cell_once(
    machines: Any, variants: Any, select: Any
) -> None:
    component = _component(variants.values())
    matrix = device_matrix(
        select(machines["core-ultra"], component.variants), component, MANY_CELLS
    )

    cells = sum(len(row) for _, row in matrix.rows)
    told = [
        len(matrix.columns) if each.places == ("all",) else len(each.places)
        for each in matrix.judged
    ]
    assert sum(told) == cells
    assert any(each.places == ("all",) for each in matrix.judged)
    assert any(each.places != ("all",) for each in matrix.judged)
    names = [each.variant for each in matrix.judged]
    assert list(dict.fromkeys(names)) == [name for name, _ in matrix.rows]


def test_of_other_machines_the_verdict_that_says_most_is_shown(
    machines: Any, variants: Any, select: Any
) -> None:
    component = _component(variants.values())
    selected = [
        MachineSelections(
            name=name,
            is_here=name == "bare",
            selections={"model": select(machines[name], component.variants)},
        )
        for name in ("bare", "rtx", "snapdragon")
    ]
    matrix = machine_matrix(selected, component, MANY_CELLS)

    assert [column.label for column in matrix.columns] == ["bare", "rtx", "snapdragon"]
    for name, cells in matrix.rows:
        for machine, cell in zip(selected, cells, strict=True):
            verdicts = [
                each for each in machine.selections["model"].verdicts if each.variant.name == name
            ]
            assert cell.code == main_verdict(verdicts).code.value


def test_many_ep_devices_and_variants_are_counted(
    machines: Any, make_variant: Any, select: Any
) -> None:
    few = machines["core-ultra"]
    many = replace(few, ep_devices=tuple(replace(each) for each in few.ep_devices * 12))
    component = _component(make_variant(f"v{number}") for number in range(300))
    selection = select(many, component.variants)

    matrix = device_matrix(selection, component, MANY_CELLS)
    assert (len(matrix.columns), len(matrix.rows)) == (40, 200)
    assert matrix.left_out == (
        "100 more variants are not shown here; ortpkg select --explain has all.",
        "8 more EP devices are not shown here; ortpkg select --explain has all.",
    )
    assert len(device_matrix(selection, component, 400).rows) == 10


def test_a_machine_without_ep_devices_has_one_column(
    machines: Any, variants: Any, select: Any
) -> None:
    nothing = replace(machines["bare"], ep_devices=())
    component = _component([variants["cuda"]])
    matrix = device_matrix(select(nothing, component.variants), component, MANY_CELLS)

    assert [column.label for column in matrix.columns] == ["no EP device"]
    assert [cell.standing for _, row in matrix.rows for cell in row] == [Standing.NOT_TRIED]


def test_a_long_reason_is_shortened(machines: Any, variants: Any, select: Any) -> None:
    component = _component([variants["cpu"]])
    selection = select(machines["bare"], component.variants)
    (verdict,) = selection.verdicts
    longer = replace(selection, verdicts=(replace(verdict, reason="x" * 500),))
    matrix = device_matrix(longer, component, MANY_CELLS)
    assert [len(cell.reason) for _, row in matrix.rows for cell in row] == [300]


def test_the_page_has_a_button_for_each_cell_and_its_reason(digits_page: Page) -> None:
    selection = ModelPackage(DIGITS).select("classifier")
    buttons = [
        each for each in digits_page.all("button") if "verdict" in (each["class"] or "").split()
    ]
    variants = {each.variant.name for each in selection.verdicts}
    assert len(buttons) == len(variants) * len(selection.ep_devices)
    assert all(each["type"] == "button" for each in buttons)
    reasons = {each["title"] for each in buttons}
    assert reasons >= {short_ep_names(each.reason) for each in selection.verdicts if not each.notes}
    for standing in Standing:
        assert standing.words in digits_page.words


def test_the_page_says_who_won_and_what_was_asked(digits_page: Page) -> None:
    best = ModelPackage(DIGITS).select("classifier").best
    assert best is not None
    assert best.ep_device is not None
    assert f"{best.variant.name} on CPU ({best.ep_device.backend})" in digits_page.words
    assert "(asked for: policy default)" in digits_page.words
    assert "The winner's path" in digits_page.words


def test_other_machines_have_a_matrix_and_their_warnings() -> None:
    page = page_of(
        ModelPackage(DIGITS).report(ReportWishes(profiles=("plain-server", "snapdragon-x-laptop")))
    )
    assert "Best verdict on each variant of classifier on each machine" in page.words
    assert (
        "Warnings of other machines plain-server : the machine profile 'plain-server' is constructed: nobody probed such a"
        " machine"
    ) in page.words


def test_where_nothing_fits_the_headline_and_the_section_say_so(tmp_path: Path) -> None:
    page = page_of(_only_cuda(tmp_path / "cuda.ortpackage"))
    assert "Nothing fits this machine" in page.words
    assert "Why nothing fits" in page.words


def _only_cuda(root: Path) -> str:
    shutil.copytree(DIGITS / "models" / "classifier" / "cuda", root / "cuda")
    model = next((root / "cuda").glob("*.onnx")).name
    variant = {
        "ep": "CUDAExecutionProvider",
        "variant_directory": "cuda",
        "executor_info": {"ort": {"model_file": model}},
    }
    manifest = {
        "schema_version": "1.0",
        "package_name": "p",
        "components": {"c": {"component_name": "c", "variants": {"cuda": variant}}},
    }
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return ModelPackage(root).report()
