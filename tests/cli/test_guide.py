"""docs/guide.md and README.md as somebody follows them: every block, in order, in one folder."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from ortpkg.cli.app import run
from ortpkg.distribution import used_packages
from tests.cli.conftest import DIGITS
from tests.scale.guide_pages import PAGES, comparable

pytestmark = pytest.mark.usefixtures("warm_processes")

ROOT = Path(__file__).resolve().parents[2]
GUIDE, README = ROOT / "docs" / "guide.md", ROOT / "README.md"
_ANY_BLOCK = re.compile(r"^```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPTS = re.compile(r"^(\w+)\$ ortpkg (.*)\n((?:(?!\w+\$ ).*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What may end otherwise than with 0: where something differs, nothing fits, or this machine lacks
#: something.
_OTHER_CODES = {"diff": {1}, "select": {3}, "doctor": {1}}
#: What needs an extra; docs/batches.md and docs/serving.md have them, which tests/scale follows.
_OF_EXTRAS = {"serve", "batch"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the guide's reader has: models, a scan of a digit, a package that shares weights."""
    variants = DIGITS / "models" / "classifier"
    for name in ("digits.onnx", "npu.onnx", "other.onnx", "model.onnx"):
        shutil.copy(variants / "cpu-fp32" / "model.onnx", tmp_path / name)
    shutil.copy(variants / "cuda" / "model.onnx", tmp_path / "digits_fp16.onnx")
    shutil.copy(variants / "cpu-int8" / "model.onnx", tmp_path / "digits_int8.onnx")
    shutil.copytree(DIGITS.with_name("tinychar.ortpackage"), tmp_path / "llm.ortpackage")
    np.save(tmp_path / "scan.npy", np.zeros((1, 1, 8, 8), np.float32))
    from PIL import Image

    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "scan.png")
    for name in ("STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"ORTPKG_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(block: str) -> list[list[str]]:
    """Each command's words, without comments and redirections, patterns filled in."""
    lines = [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]
    found = []
    for words in filter(None, lines):
        own = words[: words.index(">")] if ">" in words else words
        patterns = [sorted(map(str, Path().glob(word))) if "*" in word else [word] for word in own]
        found.append([word for words in patterns for word in words])
    return found


@pytest.mark.timeout(900)
def test_every_block_of_the_guide_runs_in_order(
    folder: Path, few_digits: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    authoring, rest = text.split("\n## Choose\n")
    names: dict[str, Any] = {
        "image": np.zeros((1, 1, 8, 8), np.float32),
        "onnxruntime": onnxruntime,
        "Path": Path,
    }
    ran = 0
    for part in (authoring, rest):
        for language, block in _BLOCK.findall(part):
            if language == "python":
                exec(block, names)
            elif language == "sh":
                for words in commands(block):
                    assert words[0] == "ortpkg", words
                    code = run(words[1:])
                    assert code in {0} | _OTHER_CODES.get(words[1], set()), (
                        words,
                        capfd.readouterr(),
                    )
                    ran += 1
        shutil.rmtree(folder / "digits.ortpackage")
        shutil.copytree(few_digits, folder / "digits.ortpackage")
    assert ran > 40


def test_the_first_commands_of_the_readme_run_in_order(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_STORE", str(folder / "store"))
    _, part = README.read_text(encoding="utf-8").split("\n## From three files to a package ")
    blocks = _BLOCK.findall(part)
    shell = "".join(block for language, block in blocks if language == "sh")
    (python,) = (block for language, block in blocks if language == "python")
    lines = [words for words in commands(shell) if words[1] not in _OF_EXTRAS]
    assert {"create", "select", "run", "install", "compile"} <= {words[1] for words in lines}
    for words in lines:
        code = run(words[1:])
        assert code in {0} | _OTHER_CODES.get(words[1], set()), (words, capfd.readouterr())
    exec(python, {"image": np.zeros((1, 1, 8, 8), np.float32)})


def test_the_guides_to_batches_and_serving_do_what_needs_no_extra(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/scale runs the rest of them."""
    for name in ("fp32", "int8"):
        shutil.copy(DIGITS / f"models/classifier/cpu-{name}/model.onnx", tmp_path / f"{name}.onnx")
    monkeypatch.chdir(tmp_path)
    ran = 0
    story = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for language, block in _ANY_BLOCK.findall(story):
        if language == "python ann":
            exec(block, {})
        for machine, words, printed in _PROMPTS.findall(block):
            if words.split()[0] in _OF_EXTRAS and "--in-process" not in words:
                continue
            monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / machine))
            used_packages._used.clear()  # as if each command were a process of its own
            assert run(shlex.split(words)) == 0
            said = capfd.readouterr()
            told = f"{said.err}{said.out}".replace(str(tmp_path), "/srv")
            assert sorted(comparable(told)) == sorted(comparable(printed)), words
            ran += 1
    assert ran >= 11


def test_the_readme_names_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/\w+\.md)\)", README.read_text(encoding="utf-8")))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} - linked == set()
