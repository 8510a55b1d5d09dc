"""``ortpkg push``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS, RunCommand


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_result_is_a_reference_to_what_was_published(ortpkg: RunCommand) -> None:
    done = ortpkg("push", DIGITS, "oci-layout:shared:2", "--tag", "latest")

    assert done.code == 0
    first, second = done.out.splitlines()
    assert first.startswith("oci-layout:shared:2@sha256:")
    assert second == first.replace(":2@", ":latest@")
    assert "sent" in done.err


def test_a_rehearsal_says_what_would_be_sent(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("push", DIGITS, "oci-layout:shared", "--dry-run", "--json").json

    assert (done["kind"], done["dry_run"]) == ("push", True)
    assert done["sent_nbytes"] == done["nbytes"] > 0
    assert not (tmp_path / "shared").exists()


def test_a_tag_that_moves_is_told(ortpkg: RunCommand) -> None:
    ortpkg("push", DIGITS, "oci-layout:shared:latest")

    done = ortpkg("push", DIGITS.with_name("tinychar.ortpackage"), "oci-layout:shared:latest")

    assert "warning: tag 'latest' no longer names sha256:" in done.err


@pytest.mark.parametrize(
    ("reference", "what"),
    [
        ("digits", "no place to publish"),
        ("oci://h", "names no repository"),
        ("oci-layout:a@sha256:" + "0" * 64, "by its digest"),
    ],
)
def test_a_place_that_is_none_is_wrong_usage(ortpkg: RunCommand, reference: str, what: str) -> None:
    done = ortpkg("push", DIGITS, reference)

    assert done.code == 2
    assert what in done.err
