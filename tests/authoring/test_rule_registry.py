"""Rules by id: what --select, --ignore and --target take, and what every rule says."""

from __future__ import annotations

import re

import pytest

from ortpkg.authoring.rule_registry import RULES, check_targets, find_rule, rule_filter
from ortpkg.authoring.rules import AUTHORING_RULES
from ortpkg.authoring.rules.targets import TARGETS
from ortpkg.foundations.errors import UsageError
from ortpkg.package.package_info import PackageFormat
from ortpkg.package.rules import PACKAGE_RULES


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ORT1", r"no rule 'ORT1'; these begin with ORT1: ORT101, ORT102, .*, ORT1\d\d$"),
        (" ort70", r"these begin with ORT70: ORT701, ORT702, .*, ORT70\d$"),
        ("ORT1O1", "these begin with ORT1: ORT101, "),
        ("ORT1011", "these begin with ORT101: ORT101$"),
        ("ORT9", "no rule 'ORT9'; ortpkg explain lists all$"),
        ("ORT", "no rule 'ORT'; ortpkg explain lists all$"),
        ("nonsense", "no rule 'nonsense'; ortpkg explain lists all$"),
        ("", "no rule ''; ortpkg explain lists all$"),
    ],
)
def test_the_beginning_of_an_id_lists_the_rules_that_it_stands_for(
    written: str, meant: str
) -> None:
    with pytest.raises(UsageError, match=meant):
        find_rule(written)


@pytest.mark.parametrize(
    ("select", "ignore", "wanted"),
    [
        ((), (), {"ORT001", "ORT101", "ORT105", "ORT203"}),
        (("ORT1",), (), {"ORT101", "ORT105"}),
        (("ort101,ORT203",), (), {"ORT101", "ORT203"}),
        (("ORT101", "ORT203"), (), {"ORT101", "ORT203"}),
        ((), ("ORT1",), {"ORT001", "ORT203"}),
        (("ORT1",), ("ORT101",), {"ORT105"}),
        (("ORT101",), ("ORT1",), {"ORT101"}),
        (("ORT101",), ("ORT101",), set()),
        ((" ORT1 , ",), (), {"ORT101", "ORT105"}),
    ],
)
def test_the_longest_prefix_decides(
    select: tuple[str, ...], ignore: tuple[str, ...], wanted: set[str]
) -> None:
    chosen = rule_filter(select, ignore)
    assert {
        rule for rule in ("ORT001", "ORT101", "ORT105", "ORT203") if chosen.wants(rule)
    } == wanted


def test_an_unknown_rule_is_refused_with_a_suggestion() -> None:
    with pytest.raises(
        UsageError, match=r"there is no rule 'ORT1010'; these begin with ORT101: ORT101$"
    ):
        rule_filter(["ORT101,ORT1010"])
    with pytest.raises(UsageError, match=r"there is no rule 'OTR101' \(did you mean 'ORT101'\?\)"):
        find_rule("OTR101")


def test_a_rule_is_found_in_any_case() -> None:
    assert find_rule("ort101").title == "External data stays in the model's folder"


def test_an_unknown_target_is_refused_with_a_suggestion() -> None:
    with pytest.raises(
        UsageError,
        match=r"'onnxruntime-1.30' \(did you mean 'onnxruntime-1.32'\?\); known are: onnx",
    ):
        check_targets(["genai", "onnxruntime-1.30"])


def test_ids_are_unique_and_in_order() -> None:
    identifiers = [rule.id for rule in (*PACKAGE_RULES, *AUTHORING_RULES)]
    assert identifiers == sorted(set(identifiers)) == list(RULES)


def test_every_rule_explains_itself() -> None:
    for rule in RULES.values():
        assert re.fullmatch(r"ORT[0-7]\d\d", rule.id)
        assert rule.example, rule.id
        assert rule.explanation.endswith("."), rule.id
        assert not rule.remedy.endswith("."), rule.id
        assert not rule.title.endswith("."), rule.id
        assert {*rule.formats} <= {*PackageFormat}, rule.id
        assert {*rule.targets} <= {*TARGETS}, rule.id
