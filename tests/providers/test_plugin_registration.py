"""Plug-ins that a program registers itself, by "module:object"."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ortpkg.foundations.errors import ExecutionProviderError
from ortpkg.runtime.providers.plugins import (
    installed_plugins,
    load_plugin,
    register_plugin,
    unregister_plugin,
)

pytestmark = pytest.mark.usefixtures("warm_processes")

_EXAMPLE = Path(__file__).resolve().parents[1] / "data" / "example_plugin"
_EP = "AcmeExecutionProvider"
_VALUE = "acme_ep.factory:AcmeEpFactory"


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example of docs/plugins.md can be imported by child processes.

    What a test registers is forgotten.
    """
    monkeypatch.setenv("PYTHONPATH", str(_EXAMPLE))
    yield
    unregister_plugin(_EP)


def test_a_registered_plug_in_is_one_of_the_installed_until_it_is_unregistered() -> None:
    before = installed_plugins()
    plugin = register_plugin(_VALUE)

    assert (plugin.name, plugin.value) == (_EP, _VALUE)
    assert installed_plugins() == {**before, _EP: plugin}
    assert load_plugin(plugin).ep_name == _EP

    unregister_plugin(_EP)
    assert installed_plugins() == before


def test_a_name_is_registered_once() -> None:
    register_plugin(_VALUE)

    with pytest.raises(
        ExecutionProviderError,
        match=r"is there already; 'acme_ep\.factory:AcmeEpFactory' brings the",
    ):
        register_plugin(_VALUE)
    assert _EP in installed_plugins()


def test_what_cannot_be_imported_is_not_registered() -> None:
    with pytest.raises(
        ExecutionProviderError, match=r"'acme_ep\.nothing:Factory' cannot be loaded"
    ):
        register_plugin("acme_ep.nothing:Factory")
    assert _EP not in installed_plugins()
