"""``ortpkg report``: where the page is written, what is told of it, what is refused."""

from __future__ import annotations

import json
import shutil
import webbrowser
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand

DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_page_is_written_where_one_looks_for_it(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("report", str(DIGITS))
    assert done.code == 0
    assert done.out == ""
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert f"wrote report.html ({len(page.encode()) / 1000:.1f} kB)" in done.err


def test_json_says_where_it_is(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("report", str(DIGITS), "-o", "digits.html", "--graphs", "none", "--json")
    told = json.loads(done.out)
    path = tmp_path / "digits.html"
    assert (told["kind"], told["path"], told["nbytes"]) == (
        "report",
        str(path),
        path.stat().st_size,
    )


def test_a_file_is_replaced_only_where_asked_for_and_only_a_report(
    ortpkg: RunCommand, tmp_path: Path
) -> None:
    assert ortpkg("report", str(DIGITS), "--graphs", "none").code == 0
    again = ortpkg("report", str(DIGITS), "--graphs", "none")
    assert again.code == 2
    assert "-o 'report.html' exists already; --overwrite replaces it" in again.err
    assert ortpkg("report", str(DIGITS), "--graphs", "none", "--overwrite").code == 0
    (tmp_path / "report.html").write_text("<html>somebody's own</html>")
    other = ortpkg("report", str(DIGITS), "--overwrite")
    assert other.code == 2
    assert "exists already and is not a page" in other.err
    assert "whose name ends with .html" in ortpkg("report", str(DIGITS), "-o", "page.svg").err


def test_another_machine_that_is_none_writes_nothing(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("report", str(DIGITS), "--profile", "plane-server")
    assert done.code == 2
    assert "did you mean 'plain-server'" in done.err
    assert not list(tmp_path.iterdir())


def test_a_page_in_the_package_is_refused_since_its_digests_do_not_know_it(
    ortpkg: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "digits.ortpackage"
    shutil.copytree(DIGITS, root)
    monkeypatch.chdir(root / "models")
    done = ortpkg("report", "--graphs", "none")  # of the package that the folder lies in
    assert done.code == 2
    assert "-o 'report.html' would lie in the package" in done.err
    assert ortpkg("verify", str(root)).code == 0
    assert ortpkg("report", "--graphs", "none", "-o", "../../report.html").code == 0


@pytest.mark.parametrize(
    ("wish", "name", "said"),
    [
        ("--ep", "opnvino", "there is no execution provider 'opnvino'"),
        ("--backend", "onnxruntim", "there is no backend 'onnxruntim' (did you mean 'onnxruntime'"),
    ],
)
def test_a_planner_that_nobody_knows_writes_nothing(
    ortpkg: RunCommand, tmp_path: Path, wish: str, name: str, said: str
) -> None:
    done = ortpkg("report", str(DIGITS), wish, name)
    assert done.code == 2
    assert said in done.err
    assert not list(tmp_path.iterdir())


def test_graphs_are_planned_by_providers_or_by_a_backend(ortpkg: RunCommand) -> None:
    done = ortpkg("report", str(DIGITS), "--ep", "cpu", "--backend", "openvino")
    assert done.code == 2
    assert "execution providers and a backend" in done.err


@pytest.mark.parametrize("starts", [True, False])
def test_open_shows_it_in_the_browser(
    ortpkg: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    shown: list[str] = []

    def show(url: str) -> bool:
        shown.append(url)
        return starts

    monkeypatch.setattr(webbrowser, "open", show)
    done = ortpkg("report", str(DIGITS), "--graphs", "none", "--open")
    assert done.code == 0
    assert shown == [(tmp_path / "report.html").as_uri()]
    assert ("no browser could be started; open report.html in one" in done.err) is not starts


def test_a_package_with_findings_is_reported(ortpkg: RunCommand, tmp_path: Path) -> None:
    assert ortpkg("init", "p.ortpackage", "--name", "empty").code == 0
    done = ortpkg("report", "p.ortpackage")
    assert done.code == 0
    assert "0 component models, 0 variants" in (tmp_path / "report.html").read_text("utf-8")


def test_sizes_are_named_numbers(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("report", str(DIGITS), "--size", "batch=64")
    assert done.code == 0
    assert "Figures in bytes are for batch=64;" in (tmp_path / "report.html").read_text("utf-8")
    refused = ortpkg("report", str(DIGITS), "--size", "batch", "--overwrite")
    assert refused.code == 2
    assert "--size takes NAME=SIZE, such as batch=8, not 'batch'" in refused.err
