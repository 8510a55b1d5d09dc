"""Keys of session options inside the libraries of onnxruntime: none that we have not looked at."""

from __future__ import annotations

import mmap
import re

import pytest

from ortpkg.package.formats.executor_info import PATH_SESSION_OPTIONS
from ortpkg.package.trust.library_options import LIBRARY_SESSION_OPTIONS
from tests.interop.wheels import library_of, releases_under_test

pytestmark = pytest.mark.interop

# A whole text of C.
_KEY = re.compile(
    rb"(?<=\0)(?:session|ep|optimization|mlas|memory|kernel)\.[a-z][A-Za-z0-9_.]*[a-z0-9](?=\0)"
)
#: Pieces of two keys that a compiler copies in two steps.
_PIECES = frozenset(
    {
        "session.strict_shape_type_inferesession.allow_released_opsets_on",
        "session.use_memory_mapped_ort_mosession.use_ort_model_bytes_dire",
    }
)


def _keys_inside(release: str) -> set[str]:
    with (
        library_of(release).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return {match.group().decode("ascii") for match in _KEY.finditer(content)}


@pytest.mark.parametrize("release", releases_under_test())
def test_every_option_inside_a_library_is_one_that_was_looked_at(release: str) -> None:
    """What is new is named: its values, and whether a package may set it, are to be found out."""
    inside = _keys_inside(release)

    assert len(inside) > 40
    assert sorted(inside - LIBRARY_SESSION_OPTIONS - {*PATH_SESSION_OPTIONS} - _PIECES) == []
