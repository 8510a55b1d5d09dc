"""The table of the protocol is generated and current."""

from scripts.generate_protocol_table import DOCUMENT, document


def test_committed_table_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make docs`"
