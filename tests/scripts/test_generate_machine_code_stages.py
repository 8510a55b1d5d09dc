"""The page of a model's way through the compiler is generated and current."""

from scripts.generate_machine_code_stages import DOCUMENT, document


def test_committed_page_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make docs`"
