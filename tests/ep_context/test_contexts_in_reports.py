"""What a report says of native contexts: made here, or in need of trust, and for which versions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ortpkg.package.reader import open_package
from ortpkg.report.context_facts import ContextFact, ContextState, context_facts
from tests.ep_context.fake_plugin import FakeFactory


def _fact(package: Path, *, trust: bool = False) -> ContextFact:
    """Of its contexts, which differ in partition and place alone, the first."""
    facts = context_facts(open_package(package), trust=trust)
    assert len({(each.variant, each.state, each.trust) for each in facts}) == 1
    return facts[0]


def test_a_native_context_made_here_needs_no_trust(fake_package: Path) -> None:
    fact = _fact(fake_package)
    assert fact.state is ContextState.FRESH
    assert (fact.trust, fact.needs_trust) == ("compiled here, or by a trusted publisher", False)
    assert fact.location == "net_ctx_fake.bin"


def test_a_native_context_of_somebody_else_needs_it(fake_package: Path, machine: Path) -> None:
    shutil.rmtree(machine / "contexts")
    fact = _fact(fake_package)
    assert fact.needs_trust
    assert fact.trust.startswith("needs --trust")
    assert _fact(fake_package, trust=True).trust == "trusted by --trust"


def test_nothing_of_the_backend_is_loaded_for_it(
    fake_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeFactory, "create", lambda *_: pytest.fail("a provider was made"))
    assert _fact(fake_package).state is ContextState.FRESH
