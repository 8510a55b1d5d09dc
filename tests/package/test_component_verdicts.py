"""What the component generation may say: our verdict and onnxruntime 1.31's on packages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortpkg.foundations.errors import Severity
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_31
from ortpkg.package.reader import check_package
from tests.package.component_cases import (
    ALL_CASES,
    ASSET,
    ASSET_FOLDER,
    FOLDER_OPTION,
    OPENS,
    OUTSIDE,
    Case,
    write_case,
)

pytestmark = pytest.mark.skipif(
    sys.platform == "win32",
    reason="the verdicts on names that Windows cannot hold are those of other systems",
)


def written(case: Case, folder: Path) -> Path:
    try:
        return write_case(case, folder)
    except OSError:
        pytest.skip("this machine does not let us make symbolic links")


def verdict(root: Path, compat: str | None, expected: str) -> str:
    """``expected`` where the package has that verdict, else what it has."""
    package, findings = check_package(root, compat=compat)
    if package is not None:
        return OPENS
    rules = [finding.rule for finding in findings if finding.severity is Severity.ERROR]
    return expected if set(rules) == set(expected.split()) else " ".join(map(str, findings))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in ALL_CASES])
def test_strict_verdict(case: Case, tmp_path: Path) -> None:
    assert verdict(written(case, tmp_path), None, case.strict) == case.strict


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in ALL_CASES])
def test_verdict_of_onnxruntime_1_31(case: Case, tmp_path: Path) -> None:
    assert verdict(written(case, tmp_path), ONNXRUNTIME_1_31, case.compat) == case.compat


NAMES = [
    "v",
    "w",
    ".",
    "v/",
    "./v",
    "m",
    "v/m",
    "..",
    "/v",
    "none",
    "",
    "in",
    "out",
    "a\\b",
    "v\0",
    f"{ASSET}/m",
]
TEXTS = st.sampled_from(NAMES)
ODD: st.SearchStrategy[Any] = st.sampled_from([None, 1, True, [], {}, ""])
ORT_PAYLOADS = st.fixed_dictionaries(
    {"model_file": TEXTS},
    optional={
        "session_options": st.dictionaries(
            st.sampled_from([FOLDER_OPTION, "session.enable_profiling"]), TEXTS
        )
    },
)
VARIANTS = st.fixed_dictionaries(
    {},
    optional={
        "variant_directory": TEXTS | ODD,
        "ep": TEXTS,
        "device": st.sampled_from(["CPU", "x"]) | ODD,
        "executor_info": st.dictionaries(
            st.sampled_from(["ort", "other"]), ORT_PAYLOADS | TEXTS | ODD
        )
        | ODD,
        "unknown": ODD,
    },
)
COMPONENTS = (
    st.fixed_dictionaries({"variants": st.dictionaries(TEXTS, VARIANTS, max_size=2) | ODD})
    | TEXTS
    | ODD
)
MANIFESTS = st.fixed_dictionaries(
    {
        "schema_version": st.sampled_from(["1.0", "1.1", 1]),
        "components": st.dictionaries(TEXTS, COMPONENTS, max_size=2),
    },
    optional={
        "layout": st.sampled_from(["installed", "portable"]) | ODD,
        "shared_assets": st.dictionaries(st.sampled_from([ASSET, f"{ASSET}/x"]), TEXTS) | ODD,
        "unknown": ODD,
    },
)


@given(manifest=MANIFESTS)
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_the_strict_rules_accept_onnxruntime_accepts_too(
    package_of: Path, manifest: dict[str, Any]
) -> None:
    (package_of / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    strict, _ = check_package(package_of)
    compatible, findings = check_package(package_of, compat=ONNXRUNTIME_1_31)
    assert strict is None or compatible is not None
    assert all(str(finding).isprintable() for finding in findings)


@pytest.fixture
def package_of(tmp_path: Path) -> Path:
    """A package with some files and links, and no manifest yet."""
    files = {f"{folder}/m": "{}" for folder in ("v", "w", "sub/deep", ASSET_FOLDER)}
    links = {"in": "v", "out": OUTSIDE, "v/in": "m", "v/out": OUTSIDE, "w/component.json": "m"}
    return written(Case(name="", strict="", compat="", files=files, links=links), tmp_path)
