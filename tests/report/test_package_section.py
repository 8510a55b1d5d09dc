"""The package's section: its variants in the words of ``ortpkg inspect``."""

from __future__ import annotations

import pytest

from tests.report.conftest import DIGITS
from tests.report.pages import Page


@pytest.mark.parametrize("precision", ["fp32", "qdq-int8", "fp16"])
def test_precision_is_one_word_and_the_data_types_are_in_its_title(
    precision: str, digits_page: Page
) -> None:
    assert precision in digits_page.texts_in("abbr") + digits_page.texts_in("span")
    titles = [each["title"] for each in digits_page.all("abbr")]
    assert "data types: float, int32, int8, uint8" in titles


def test_execution_providers_have_their_short_names(digits_page: Page) -> None:
    assert "openvino" in digits_page.texts_in("abbr")
    assert "OpenVINOExecutionProvider" in [each["title"] for each in digits_page.all("abbr")]


def test_versions_are_shown_only_where_variants_differ_in_them(digits_page: Page) -> None:
    assert "Version" in digits_page.texts_in("dt")
    assert "Version" not in digits_page.texts_in("th")


def test_the_page_names_the_folder_and_not_where_it_lies(
    digits_page: Page, digits_html: str
) -> None:
    assert "Folder: digits.ortpackage" in digits_page.words
    assert str(DIGITS.parent) not in digits_html
