"""``ortpkg verify``: exit codes, what is printed, repairing and recording."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

import ortpkg as api
from tests.cli.conftest import DIGITS, RunCommand

MODEL = "models/classifier/cpu-fp32/model.onnx"


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))


def flip(path: Path, index: int) -> None:
    content = bytearray(path.read_bytes())
    content[index] ^= 1
    path.write_bytes(content)


def test_the_sample_package_is_intact(ortpkg: RunCommand) -> None:
    done = ortpkg("verify", DIGITS)
    assert (done.code, done.out) == (0, "")
    assert "is intact: 12 files" in done.err


def test_a_flipped_byte_is_named_with_both_digests_and_repaired(
    ortpkg: RunCommand, digits: Path
) -> None:
    flip(digits / MODEL, 50_000)
    (digits / "README.md").unlink()

    done = ortpkg("verify", digits)

    assert done.code == 16 + 32
    assert "missing: README.md: recorded, but not there\n" in done.out
    assert f"changed: {MODEL}: its bytes are not those recorded\n    expected " in done.out

    done = ortpkg("verify", digits, "--repair-from", DIGITS)
    assert (done.code, done.out) == (0, f"repaired: README.md\nrepaired: {MODEL}\n")
    assert ortpkg("verify", digits).code == 0


def test_what_cannot_be_repaired_says_why(ortpkg: RunCommand, digits: Path, tmp_path: Path) -> None:
    flip(digits / MODEL, 50_000)

    done = ortpkg("verify", digits, "--repair-from", digits, "--json")

    assert done.code == 16
    assert done.json["not_repaired"] == [
        {"file": MODEL, "reason": f"it is not as recorded in {str(digits)!r} either"}
    ]
    assert [each["kind"] for each in done.json["differences"]] == ["changed"]


def test_recording_accepts_an_edit(ortpkg: RunCommand, digits: Path) -> None:
    (digits / "README.md").write_text("edited\n", encoding="utf-8")

    done = ortpkg("verify", digits, "--record")

    assert done.code == 0
    assert "changed: README.md" in done.out
    assert ortpkg("verify", digits).code == 0


def test_recording_and_repairing_at_once_is_a_usage_error(ortpkg: RunCommand, digits: Path) -> None:
    assert ortpkg("verify", digits, "--record", "--repair-from", DIGITS).code == 2


def test_a_package_without_digests_is_unverified(ortpkg: RunCommand, digits: Path) -> None:
    (digits / "digests.json").unlink()
    done = ortpkg("verify", digits)
    assert done.code == 128
    assert "warning: unverified: there is no digests.json" in done.err


@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems have no names that are not Unicode"
)
def test_a_name_that_is_no_text_is_printed_escaped(ortpkg: RunCommand, digits: Path) -> None:
    (digits / os.fsdecode(b"bad\xff")).write_bytes(b"")
    assert "extra: bad\\xff: there, but not recorded" in ortpkg("verify", digits).out
    assert ortpkg("verify", digits, "--json").json["differences"][0]["file"] == "bad\\xff"


def test_help_explains_the_bits(ortpkg: RunCommand) -> None:
    words = " ".join(ortpkg("verify", "--help").out.split())
    assert (
        "16 files changed, 32 files missing or extra, 64 files unreadable, 128 unverified" in words
    )


def test_python_has_the_same(digits: Path) -> None:
    flip(digits / MODEL, 0)
    report = api.verify(digits)
    assert [difference.file for difference in report.differences] == [MODEL]
    assert api.verify(digits, repair_from=DIGITS).is_intact
    assert api.record_digests(digits).is_intact
