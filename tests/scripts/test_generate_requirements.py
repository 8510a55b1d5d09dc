"""The table of requirements is generated, current, and knows all ids on tests."""

from pathlib import Path

from scripts.generate_requirements import DOCUMENT, document, marked_tests, statements


def test_committed_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make docs`"


def test_every_mark_names_a_known_requirement() -> None:
    known = {
        identifier for _, _, requirements in statements().values() for identifier in requirements
    }
    assert set(marked_tests()) <= known


def test_all_five_documents_are_covered() -> None:
    assert {key: len(requirements) for key, (_, _, requirements) in statements().items()} == {
        "E": 55,
        "P": 18,
        "M": 24,
        "D": 12,
        "K": 24,
    }


def test_tests_are_named_as_pytest_takes_them(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        """
import pytest
class TestOuter:
    class TestInner:
        @pytest.mark.requirement("X01")
        def test_method(self): ...
@pytest.mark.requirement("X01")
def test_function():
    @pytest.mark.requirement("X01")
    def test_nobody_runs(): ...
"""
    )

    assert marked_tests(tmp_path, root=tmp_path) == {
        "X01": ["test_a.py::TestOuter::TestInner::test_method", "test_a.py::test_function"]
    }
