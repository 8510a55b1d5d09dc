"""``ortpkg edit`` and ``ortpkg samples``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import RunCommand

MakeModel = Callable[..., Path]


@pytest.fixture
def package(ortpkg: RunCommand, model: MakeModel, tmp_path: Path) -> Path:
    assert (
        ortpkg("create", tmp_path / "p", "--cpu", model(), "--cpu", model("other.onnx")).code == 0
    )
    return tmp_path / "p"


def test_edit_changes_what_is_named(ortpkg: RunCommand, package: Path) -> None:
    words = ("--name", "n", "--model-version", "3", "--license", "MIT", "--order", "other,double")
    assert ortpkg("edit", package, *words).code == 0
    shown = ortpkg("inspect", package).out
    assert "n 3: universal format" in shown
    assert "license: MIT" in shown
    assert shown.index("other") < shown.index("double")
    assert ortpkg("inspect", package, "--json").json["license"] == "MIT"


def test_inspect_shows_what_variants_have_instead_of_the_packages_version(
    ortpkg: RunCommand, package: Path, model: MakeModel, tmp_path: Path
) -> None:
    assert ortpkg("edit", package, "--model-version", "1.0").code == 0
    assert ortpkg("inspect", package).out.count("1.0") == 1
    for name, words in (("new", ("--model-version", "1.1")), ("old", ())):
        create = ("create", tmp_path / name, "--name", "p", "--cpu", model(f"{name}.onnx"), *words)
        assert ortpkg(*create).code == 0
        assert ortpkg("merge", tmp_path / name, "--into", package).code == 0
    rows = [line.split()[:2] for line in ortpkg("inspect", package).out.splitlines()]
    assert [
        row
        for row in rows
        if len(row) > 1 and row[0] in ("variant", "double", "other", "new", "old")
    ] == [
        ["variant", "version"],
        ["double", "1.0"],
        ["other", "1.0"],
        ["new", "1.1"],
        ["old", "none"],
    ]


def test_edit_replaces_a_model(ortpkg: RunCommand, package: Path, model: MakeModel) -> None:
    assert (
        ortpkg(
            "edit", package, "--variant", "double", "--model", model("new.onnx", factor=3.0)
        ).code
        == 0
    )
    done = ortpkg(
        "run", package, "--variant", "double", "--random", "--dim", "N=1", "--backend", "embedded"
    )
    assert done.code == 0


def test_edit_needs_something_to_do(ortpkg: RunCommand, package: Path) -> None:
    done = ortpkg("edit", package)
    assert (done.code, done.err) == (2, "error: nothing to change was named\n")


def test_recorded_samples_are_run(ortpkg: RunCommand, package: Path) -> None:
    words = ("--name", "made", "--random", "--dim", "N=4", "--batched", "--backend", "embedded")
    assert ortpkg("samples", "record", package, *words, "--tolerance", "1e-3,1e-2").code == 0
    done = ortpkg("run", package, "--backend", "embedded")
    assert done.code == 0
    assert "samples made" in done.out
    assert "allowed 0.001 + 0.01 of it" in done.out


def test_given_samples_are_run(ortpkg: RunCommand, package: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((1, 3), np.float32))
    np.save(tmp_path / "y.npy", np.full((1, 3), 5, np.float32))
    words = ("--name", "wrong", "-i", tmp_path / "x.npz", "--expected", f"y={tmp_path / 'y.npy'}")
    assert ortpkg("samples", "add", package, *words).code == 0
    assert ortpkg("run", package, "--backend", "embedded").code == 1
    assert (
        ortpkg("samples", "record", package, "--name", "wrong", "--backend", "embedded").code == 0
    )
    assert ortpkg("run", package, "--backend", "embedded").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add", "--name", "s"), "give the inputs, with --input or --random"),
        (("record", "--name", "s", "--random", "--expected", "y.npy"), "--expected is for add"),
        (
            ("record", "--name", "s", "--random", "--tolerance", "y"),
            "write ABS, ABS,REL or OUTPUT=ABS,REL",
        ),
        (
            ("record", "--name", "s", "--random", "--tolerance", "nan"),
            "write ABS, ABS,REL or OUTPUT=ABS,REL",
        ),
        (
            ("record", "--name", "s", "--random", "--tolerance", "u=1"),
            "the model has no output 'u'",
        ),
    ],
)
def test_wrong_usage_of_samples_says_what_would_be_right(
    ortpkg: RunCommand,
    package: Path,
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("y.npy", np.zeros((1, 3), np.float32))
    done = ortpkg("samples", words[0], package, *words[1:])
    assert done.code == 2
    assert message in done.err
