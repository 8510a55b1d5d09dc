"""The table of requirements is generated, current, and knows all ids on tests."""

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
