"""``ortpkg serve`` where KServe is not installed, and what is wrong before anything is loaded."""

from __future__ import annotations

import importlib.util

import pytest

from tests.cli.conftest import DIGITS, RunCommand


@pytest.mark.skipif(
    importlib.util.find_spec("kserve") is not None, reason="tests/scale has what KServe does"
)
def test_without_kserve_one_sentence_names_the_extra(ortpkg: RunCommand) -> None:
    done = ortpkg("serve", DIGITS, "--port", "0", "--grpc-port", "0")
    assert done.code == 2
    assert "needs KServe" in done.err
    assert done.err.count("\n") == 1


def test_several_packages_cannot_have_one_name(ortpkg: RunCommand) -> None:
    done = ortpkg("serve", DIGITS, DIGITS, "--name", "one")
    assert done.code == 2
    assert "--name 'one'" in done.err
