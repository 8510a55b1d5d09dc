"""The registry of rules."""

from __future__ import annotations

import re

from ortpkg.package import rules
from ortpkg.package.rules import PACKAGE_RULES, Rule


def test_every_rule_is_registered_once_in_the_order_of_ids() -> None:
    defined = [value for value in vars(rules).values() if isinstance(value, Rule)]
    assert sorted(defined, key=lambda rule: rule.id) == list(PACKAGE_RULES)
    assert len({rule.id for rule in PACKAGE_RULES}) == len(PACKAGE_RULES)


def test_the_package_layer_keeps_to_its_range_of_ids() -> None:
    assert all(re.fullmatch(r"ORT0\d\d", rule.id) for rule in PACKAGE_RULES)
