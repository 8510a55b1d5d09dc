"""``ortpkg serve``: what is wrong before anything is loaded."""

from __future__ import annotations

from tests.cli.conftest import DIGITS, RunCommand


def test_several_packages_cannot_have_one_name(ortpkg: RunCommand) -> None:
    done = ortpkg("serve", DIGITS, DIGITS, "--name", "one")
    assert done.code == 2
    assert "--name 'one'" in done.err
