"""The page of rules is generated and current."""

from scripts.generate_rules import DOCUMENT, document


def test_committed_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make docs`"
