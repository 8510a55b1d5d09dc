"""The page: one file that asks for nothing, whatever the package calls its parts."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from benchmarks.report_models import bert_like_model
from ortpkg import InferenceSession, ModelPackage, ReportWishes
from ortpkg.api import reporting
from ortpkg.foundations.errors import ProfileError, UsageError
from ortpkg.report.page import report_html
from ortpkg.report.report_subject import MachineSelections, PlannedModel, ReportSubject
from ortpkg.report.report_wishes import DrawnGraphs
from ortpkg.selection.matching.verdict import Verdict
from tests.report.conftest import DIGITS
from tests.report.models import package_called
from tests.report.pages import Page, page_of
from tests.report.subjects import subject_of

HOSTILE = "<img src=x onerror=alert(1)>\"'&</script><b>"


def test_the_page_asks_nothing_of_any_network(digits_page: Page) -> None:
    for tag, attributes in digits_page.elements:
        assert not attributes.keys() & {
            "src",
            "srcset",
            "data",
            "poster",
            "background",
            "action",
        }, tag
        link = attributes.get("href") or attributes.get("xlink:href") or "#"
        assert link.startswith("#"), (tag, link)
    assert not re.search(
        r"url\((?!#)|@import|https?://(?!www\.w3\.org/)", digits_page_text(digits_page)
    )


def digits_page_text(page: Page) -> str:
    return "\n".join(text for tag, text in page.texts if tag in {"style", "script"})


def test_its_policy_allows_its_own_styles_and_scripts_alone(digits_page: Page) -> None:
    (policy,) = (
        each["content"] or ""
        for each in digits_page.all("meta")
        if each.get("http-equiv") == "Content-Security-Policy"
    )
    rules = {words[0]: words[1:] for words in (each.split() for each in policy.split("; "))}
    assert rules["default-src"] == ["'none'"]
    assert "'unsafe-inline'" not in policy
    assert "'unsafe-eval'" not in policy
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        texts = digits_page.texts_in(tag)
        executed = [each for each in digits_page.all(tag) if "type" not in each]
        allowed = [_source_of(text) for text in texts]
        assert len(rules[rule]) == len(executed)
        assert set(rules[rule]) <= set(allowed)


def _source_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_nothing_in_it_needs_what_the_policy_forbids(digits_page: Page) -> None:
    for tag, attributes in digits_page.elements:
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag


def test_readers_of_screens_find_their_way(digits_page: Page) -> None:
    ids = [each["id"] for _, each in digits_page.elements if "id" in each]
    assert len(ids) == len(set(ids))
    for _, attributes in digits_page.elements:
        for name in ("aria-labelledby", "aria-describedby", "aria-controls", "for"):
            assert set((attributes.get(name) or "").split()) <= set(ids), attributes
        link = attributes.get("href")
        assert link is None or link.removeprefix("#") in ids
    levels = [int(tag[1]) for tag, _ in digits_page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    for landmark in ("header", "nav", "main", "footer"):
        assert len(digits_page.all(landmark)) >= 1
    assert all(each.get("aria-labelledby") for each in digits_page.all("section"))
    assert all(each.get("scope") for each in digits_page.all("th"))


def test_each_section_says_in_a_line_what_it_found(digits_page: Page) -> None:
    headlines = digits_page.texts_in("span")
    assert "1 component model, 5 variants" in headlines
    assert "1 warning" in headlines


def test_names_of_a_stranger_stay_names(tmp_path: Path) -> None:
    root = package_called(tmp_path, HOSTILE)
    html = ModelPackage(root, compat="onnxruntime-1.31").report()  # which allows any name
    page = page_of(html)
    assert not page.all("img")
    assert not page.all("b")
    assert "\u202e" not in html
    assert "\x07" not in html
    assert page.words.count(HOSTILE) >= 3
    assert f"{HOSTILE}</script>\\u202e\\x07" in page.words


@pytest.mark.slow
def test_ten_thousand_variants_are_counted_and_not_all_shown(tmp_path: Path) -> None:
    root = package_called(tmp_path, "many", variants=10_000)
    html = ModelPackage(root).report()
    assert len(html) < 3_000_000
    words = page_of(html).words
    assert "10000 variants" in words
    assert "9800 more variants are not shown here; ortpkg inspect --json has all." in words


def test_long_names_of_hundreds_of_variants_and_components_keep_the_page_small(
    tmp_path: Path,
) -> None:
    root = package_called(tmp_path, "x", variants=20)
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    (component,) = manifest["components"].values()
    end = '<&"' * 700
    variants = {f"{name}{end}": value for name, value in component["variants"].items()}
    manifest["components"] = {
        f"{number}{end}": {"component_name": f"{number}{end}", "variants": variants}
        for number in range(20)
    }
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    wishes = ReportWishes(graphs=DrawnGraphs.NONE)
    html = ModelPackage(root, compat="onnxruntime-1.31").report(wishes)
    assert len(html) < 10_000_000


def test_on_other_machines_no_more_variants_are_judged_than_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = package_called(tmp_path, "many", variants=500)
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    manifest["components"]["many"]["variants"]["many499"]["ep"] = "CPUExecutionProvider"
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    subjects: list[ReportSubject] = []

    def kept(subject: ReportSubject) -> str:
        subjects.append(subject)
        return ""

    monkeypatch.setattr(reporting, "report_html", kept)
    package = ModelPackage(root, compat="onnxruntime-1.31")
    package.report(ReportWishes(profiles=["plain-server"], graphs=DrawnGraphs.NONE))

    selection = subjects[0].machines[1].selections["many"]
    whole = package.select(profile="plain-server")
    names = {each.variant.name for each in selection.verdicts}
    assert whole.best is not None
    assert whole.best.variant.name == "many499"
    assert selection.verdicts[0].variant.name == "many499"
    assert names == {*(f"many{number or ''}" for number in range(200)), "many499"}
    assert set(map(_said, selection.verdicts)) <= set(map(_said, whole.verdicts))


def _said(verdict: Verdict) -> tuple[str, str, str]:
    backend = "" if verdict.ep_device is None else verdict.ep_device.backend
    return verdict.variant.name, backend, verdict.reason


def test_the_page_of_twenty_variants_of_real_size_stays_small(tmp_path: Path) -> None:
    """Every graph, order and memory of a BERT, twenty times: each costs what another model would."""
    onnx.save(bert_like_model(), tmp_path / "bert.onnx")
    with InferenceSession(tmp_path / "bert.onnx") as session:
        model = PlannedModel(
            component_name="model",
            variant_name="variant",
            planned_for="a test",
            session=session,
            plan=session.get_plan({"batch": 1, "sequence": 128}),
            model_path=tmp_path / "bert.onnx",
        )
        subject = subject_of(DIGITS, *[model] * 20)
        here = MachineSelections(
            name="this machine",
            is_here=True,
            selections={"classifier": ModelPackage(DIGITS).select()},
        )
        html = report_html(replace(subject, machines=(here,)))
    assert len(html.encode()) <= 3_000_000
    page = page_of(html)
    assert len([each for each in page.all("svg") if each.get("role") == "img"]) >= 40
    views = [each for each in page.all("div") if each.get("class") == "graph-view"]
    assert len(views) == 20


def test_a_model_that_cannot_be_planned_is_no_error(tmp_path: Path) -> None:
    root = package_called(tmp_path, "broken")
    next(root.rglob("*.onnx")).write_bytes(b"no model")
    assert "Findings" in page_of(ModelPackage(root).report()).words


def test_wishes_that_nothing_can_have_are_refused() -> None:
    package = ModelPackage(DIGITS)
    with pytest.raises(ProfileError, match="nowhere"):
        package.report(ReportWishes(profiles=("nowhere",)))
    with pytest.raises(UsageError, match="at most 32 other machines, not 33"):
        package.report(ReportWishes(profiles=("plain-server",) * 33))
