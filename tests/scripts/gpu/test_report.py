"""The table of ``make gpu``: its form, and that it is complete whenever the try is cut off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.gpu.report import Outcome, Report, Row

_RUN = Row(
    step="run conv", on="CUDA", outcome=Outcome.YES, details="nodes 40 | error 0", duration_s=2.34
)


def test_the_table_names_the_card_and_escapes_what_would_break_it(tmp_path: Path) -> None:
    report = Report(folder=tmp_path, facts={"card": "NVIDIA H100", "driver": "580.1", "cuDNN": ""})
    report.add(_RUN)

    assert report.markdown() == (
        "Seen with card NVIDIA H100, driver 580.1.\n\n"
        "| step | on | outcome | details | s |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| run conv | CUDA | yes | nodes 40 \\| error 0 | 2.3 |\n"
    )


def test_each_row_is_written_and_printed_as_it_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report(folder=tmp_path / "new")
    report.add(_RUN)

    rows = json.loads((tmp_path / "new/gpu_report.json").read_text())["rows"]
    assert [(row["step"], row["outcome"]) for row in rows] == [("run conv", "yes")]
    assert "run conv" in (tmp_path / "new/gpu_report.md").read_text()
    assert "yes       run conv [CUDA]: nodes 40 | error 0 (2.3 s)" in capsys.readouterr().out


def test_a_long_reason_is_one_line_with_an_end(tmp_path: Path) -> None:
    report = Report(folder=tmp_path)
    report.add(Row(step="doctor", outcome=Outcome.NO, details="a\n b" + "c" * 400))

    (row,) = report.rows
    assert row.details.startswith("a bcc")
    assert (len(row.details), row.details[-1]) == (300, "…")


def test_the_log_keeps_the_end_of_what_was_written(tmp_path: Path) -> None:
    report = Report(folder=tmp_path)
    report.log("one", {"stdout": "\n".join(map(str, range(100))), "stderr": "bad"})
    report.log("two", {"stdout": ""})

    text = (tmp_path / "gpu_log.txt").read_text()
    assert "(60 lines before these)\n60\n" in text
    assert "\n59\n" not in text
    assert text.index("===== one") < text.index("bad") < text.index("===== two")
