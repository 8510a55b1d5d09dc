"""inspect --tree: a package from its pipeline down to its files."""

from __future__ import annotations

import shutil
from pathlib import Path

from ortpkg.cli.package_tree import package_tree
from ortpkg.cli.tree_drawing import TreeNode, drawn
from ortpkg.foundations.errors import ExitCode
from ortpkg.package.package_info import (
    ComponentInfo,
    Constraints,
    PackageFormat,
    PackageInfo,
    VariantInfo,
)
from tests.cli.conftest import DIGITS, RunCommand

TINYCHAR = DIGITS.with_name("tinychar.ortpackage")


def _package(root: Path, *variants: VariantInfo) -> PackageInfo:
    component = ComponentInfo(name="c", directory=root, variants=variants)
    return PackageInfo(
        root=root, name="p", version=None, format=PackageFormat.COMPONENT, components=(component,)
    )


def _variant(folder: Path, name: str = "v", constraints: Constraints | None = None) -> VariantInfo:
    return VariantInfo(
        name=name,
        component_name="c",
        directory=folder,
        model_path=None,
        constraints=constraints or Constraints(),
    )


def _texts(node: TreeNode) -> list[str]:
    return [text for text, _, _ in drawn(node, is_unicode=False)]


def test_branches_are_drawn_with_lines_or_with_ascii() -> None:
    tree = TreeNode("a", (TreeNode("b", (TreeNode("c"),)), TreeNode("d")))
    assert [text for text, _, _ in drawn(tree)] == ["a", "├─ b", "│  └─ c", "└─ d"]
    assert _texts(tree) == ["a", "|- b", "|  `- c", "`- d"]


def test_what_wraps_stays_within_its_branch() -> None:
    tree = TreeNode("a", (TreeNode("b", (TreeNode("c"),)), TreeNode("d")))
    assert [hang for _, _, hang in drawn(tree)] == ["│  ", "│  │  ", "│        ", "      "]


def test_shows_a_pipeline_its_components_and_what_they_share(ortpkg: RunCommand) -> None:
    done = ortpkg("inspect", TINYCHAR, "--tree")
    assert done.code == ExitCode.DONE
    assert done.out.splitlines() == [
        "tinychar 1.0.0: component format, 1.5 MB of models",
        "|- pipeline: tokens to text",
        "|  |- prefill: tokens to first, cache",
        "|  `- up to 120 times",
        "|     `- decode: first, cache to next, longer, text",
        "|- component model prefill",
        (
            "|  `- cpu-fp32: cpu; float, int64; 17.6 kB of its own, 1.5 MB shared; in"
            " models/tinychar/cpu-fp32"
        ),
        "|     |- prefill.onnx  17.6 kB",
        "|     `- tinychar.onnx.data  1.5 MB, shared",
        "|- component model decode",
        (
            "|  `- cpu-fp32: cpu; float, int64; 18.2 kB of its own, 1.5 MB shared; in"
            " models/tinychar/cpu-fp32"
        ),
        "|     |- decode.onnx  18.2 kB",
        "|     `- tinychar.onnx.data  1.5 MB, shared",
        "`- what several variants use lies once: 1.5 MB",
        (
            "   `- models/tinychar/cpu-fp32/tinychar.onnx.data  1.5 MB: prefill/cpu-fp32,"
            " decode/cpu-fp32"
        ),
    ]


def test_shows_what_each_variant_needs_and_how_exact_it_is(ortpkg: RunCommand) -> None:
    lines = ortpkg("inspect", DIGITS, "--tree").out.splitlines()
    assert lines[0] == "digits 1.0.0: universal format, 283.5 kB of models"
    assert (
        "   |- openvino-npu: openvino on npu; float, int32, int8, uint8, qdq-int8; 34.0 kB;"
        " in models/classifier/openvino-npu"
    ) in lines
    assert lines.count("   |  `- model.onnx  34.0 kB") == 2


def test_a_bare_model_is_its_file(ortpkg: RunCommand, tmp_path: Path) -> None:
    shutil.copy(DIGITS / "models" / "classifier" / "cpu-fp32" / "model.onnx", tmp_path / "m.onnx")
    lines = ortpkg("inspect", tmp_path / "m.onnx", "--tree").out.splitlines()
    assert lines[0] == "m: bare model, 107.6 kB of models"
    assert lines[-1].endswith("`- m.onnx  107.6 kB")


def test_a_pipeline_that_is_wrong_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pipeline.json").write_text("{}", encoding="utf-8")
    info = PackageInfo(
        root=tmp_path,
        name="p",
        version=None,
        format=PackageFormat.COMPONENT,
        components=(),
        has_pipeline=True,
    )
    assert _texts(package_tree(info)) == [
        "p: component format, 0 B of models",
        "`- pipeline: it is not valid; ortpkg validate says why",
    ]


def test_what_is_not_here_is_shown_with_what_it_would_take(tmp_path: Path) -> None:
    variant = VariantInfo(
        name="v",
        component_name="c",
        directory=tmp_path / "v",
        model_path=None,
        constraints=Constraints(ep="QNNExecutionProvider", architecture="arm64"),
        is_absent=True,
    )
    info = PackageInfo(
        root=tmp_path,
        name="p",
        version=None,
        format=PackageFormat.COMPONENT,
        components=(ComponentInfo(name="c", directory=tmp_path, variants=(variant,)),),
        absent_files={"v/model.onnx": 5_000_000, "other/model.onnx": 7},
    )
    assert _texts(package_tree(info))[2:] == [
        "   `- v: qnn for arm64; not here; in v",
        "      `- model.onnx  5.0 MB, not here",
    ]


def test_of_a_set_of_very_many_files_the_first_are_shown(tmp_path: Path) -> None:
    for number in range(45):
        (tmp_path / f"{number:02}.bin").write_bytes(b"1234")
    lines = _texts(package_tree(_package(tmp_path, _variant(tmp_path))))
    assert lines[2] == "   `- v: any execution provider; 180 B; in ."
    assert lines[3:] == [
        *(f"      |- {number:02}.bin  4 B" for number in range(20)),
        "      `- 25 more files",
    ]


def test_names_of_strangers_stay_on_their_line(ortpkg: RunCommand, tmp_path: Path) -> None:
    evil = "a\nb\x1b]0;\u202e"
    (tmp_path / evil).write_bytes(b"1")
    constraints = Constraints(ep=evil, device=evil, architecture=evil)
    tree = package_tree(_package(tmp_path, _variant(tmp_path, evil + "x" * 500, constraints)))
    lines = _texts(tree)
    assert len(lines) == 4
    assert not {"\n", "\x1b", "\u202e"} & set("".join(lines))
    assert "a\\nb\\x1b]0;\\u202e" in lines[3]
    assert max(map(len, lines)) < 400


def test_a_tree_is_for_people_and_json_for_programs(ortpkg: RunCommand) -> None:
    done = ortpkg("inspect", DIGITS, "--tree", "--json")
    assert done.code == ExitCode.USAGE
    assert "give --tree or --json, not both: JSON is for programs" in done.out + done.err
