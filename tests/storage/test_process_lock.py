"""Files that one holds at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.foundations.storage.process_lock import hold_lock, is_unlocked


def test_one_holds_it_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    waits: list[float] = []
    with hold_lock(path):
        assert not is_unlocked(path)
        with (
            pytest.raises(TimeoutError),
            hold_lock(path, timeout_s=0.06, while_waiting=waits.append),
        ):
            pass
    assert waits[0] == 0
    assert sorted(waits) == waits
    assert is_unlocked(path)


def test_who_waits_may_give_up(tmp_path: Path) -> None:
    def give_up(_waited_s: float) -> None:
        raise KeyError("enough")

    with (
        hold_lock(tmp_path / "lock"),
        pytest.raises(KeyError, match="enough"),
        hold_lock(tmp_path / "lock", timeout_s=60, while_waiting=give_up),
    ):
        pass


def test_where_no_lock_can_be_it_is_an_error_of_the_system(tmp_path: Path) -> None:
    path = tmp_path / "no folder" / "lock"
    path.parent.write_text("")
    with pytest.raises((NotADirectoryError, FileExistsError)), hold_lock(path):
        pass
    assert not is_unlocked(path)
