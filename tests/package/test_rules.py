"""The registry of rules."""

from __future__ import annotations

import re

from ortpkg.foundations.documents import document_rules
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.package import rules
from ortpkg.package.rules import PACKAGE_RULES


def test_every_rule_is_registered_once_in_the_order_of_ids() -> None:
    defined = [
        value
        for module in (document_rules, rules)
        for value in vars(module).values()
        if isinstance(value, Rule)
    ]
    assert sorted(defined, key=lambda rule: rule.id) == list(PACKAGE_RULES)
    assert len({rule.id for rule in PACKAGE_RULES}) == len(PACKAGE_RULES)


def test_the_package_layer_keeps_to_its_range_of_ids() -> None:
    assert all(re.fullmatch(r"ORT0\d\d", rule.id) for rule in PACKAGE_RULES)
