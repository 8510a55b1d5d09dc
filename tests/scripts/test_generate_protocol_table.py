"""The table of the protocol is generated and current."""

from scripts.generate_protocol_table import BEGIN, DOCUMENT, document


def test_committed_table_is_current() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    assert page.count(BEGIN) == 1
    assert page == document(page), "run `make docs`"
