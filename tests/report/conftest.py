"""Pages of packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg import ModelPackage
from tests.report.pages import Page, page_of
from tests.selection import conftest as constructed

DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"


@pytest.fixture(scope="session")
def digits_html() -> str:
    return ModelPackage(DIGITS).report()


@pytest.fixture
def digits_page(digits_html: str) -> Page:
    return page_of(digits_html)


#: The fixtures of constructed machines and variants, whose selections are drawn here.
machines, variants = constructed.machines, constructed.variants
select, make_variant = constructed.select, constructed.make_variant
