"""The page of a model's way through the compiler is generated and current."""

from scripts.generate_machine_code_stages import DOCUMENT, PICTURE, document, picture


def test_committed_page_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make docs`"


def test_committed_picture_is_current() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `make docs`"
