"""docs/selection.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from ortpkg.machine.policies import POLICIES, RELEASE_POLICIES
from ortpkg.selection.matching.compiled_speed import LEAST_SHARE
from ortpkg.selection.matching.fit import MEMORY_HEADROOM
from ortpkg.selection.matching.ranking import CRITERIA, MEASURED_CRITERIA
from ortpkg.selection.matching.verdict import ReasonCode

_TEXT = (Path(__file__).parents[2] / "docs" / "selection.md").read_text(encoding="utf-8")


def _section(heading: str) -> str:
    return _TEXT.split(f"\n{heading}\n")[1].split("\n## ")[0].split("\n### ")[0]


def test_every_code_has_its_meaning_and_no_other_is_there() -> None:
    documented = re.findall(
        r"^\| `([A-Z_]+)` \| (\S.*\S) \|$", _section("### The codes"), re.MULTILINE
    )

    assert sorted(code for code, _ in documented) == sorted(code.value for code in ReasonCode)


def test_every_code_stands_beside_the_rule_that_gives_it() -> None:
    rules = _TEXT.replace(_section("### The codes"), "")

    assert [code for code in ReasonCode if f"`{code}`" not in rules] == []


def test_the_order_is_that_of_the_code() -> None:
    documented = re.findall(
        r"^[0-9]+\. .*?\*\*(.+?)\*\*", _section("## Which one is best: the order"), re.MULTILINE
    )

    assert (*documented[:1], "latency", *documented[1:]) == MEASURED_CRITERIA
    assert tuple(documented[1:]) == CRITERIA


def test_every_policy_is_documented_with_its_order() -> None:
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \| (.+) \|$", _TEXT, re.MULTILINE)
    documented = {
        name: order for names, order in rows for name in re.findall(r"`([a-z-]+)`", names)
    }

    assert documented == {
        policy.name: ", ".join(kind.value for kind in policy.device_order)
        for policy in POLICIES.values()
    }
    assert all(f"`{name}`" in _TEXT for name in RELEASE_POLICIES)


def test_the_least_share_of_compiled_code_is_that_of_the_code() -> None:
    order = _section("## Which one is best: the order")

    assert f"less than **{LEAST_SHARE:.0%}** of the work" in order


def test_the_headroom_is_that_of_the_code() -> None:
    assert f"**{MEMORY_HEADROOM:.0%}**" in _section("## Fit")
