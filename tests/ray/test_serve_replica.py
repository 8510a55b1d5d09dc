"""A replica's first look at its node."""

from __future__ import annotations

import logging

import pytest

from ortpkg.scale.ray.serve_replica import warn_without_token


@pytest.mark.parametrize(("mode", "count"), [(None, 1), ("disabled", 1), ("token", 0)])
def test_a_cluster_that_asks_for_no_token_is_warned_of(
    mode: str | None, count: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with caplog.at_level(logging.WARNING):
        warn_without_token()
    assert [record.getMessage() for record in caplog.records] == ["no_token"] * count
