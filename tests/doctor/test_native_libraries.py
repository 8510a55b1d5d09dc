"""What the system's loader says of native libraries, good ones and damaged ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ortpkg.doctor.native_libraries import refusals

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="doctor loads libraries on Linux")
_LIBRARY = next((Path(np.__file__).parent / "random").glob("_bounded_integers*.so"))


def _copy(path: Path, *, needs: bytes) -> str:
    """A library that needs one called ``needs`` in place of the mathematical one."""
    path.write_bytes(_LIBRARY.read_bytes().replace(b"\0libm.so.6\0", b"\0" + needs + b"\0"))
    return str(path)


def test_a_library_that_this_process_has_loaded_is_not_refused() -> None:
    assert refusals([str(_LIBRARY)]) == {}
    assert refusals([]) == {}


def test_names_the_library_that_is_missing(tmp_path: Path) -> None:
    lame = _copy(tmp_path / "lame.so", needs=b"libz.so.9")

    assert refusals([str(_LIBRARY), lame]) == {
        lame: "libz.so.9: cannot open shared object file: No such file or directory"
    }


def test_looks_where_a_backend_would_look(tmp_path: Path) -> None:
    (tmp_path / "wheel").mkdir()
    needed = Path(_copy(tmp_path / "wheel" / "libz.so.9", needs=b"libm.so.6"))
    lame = _copy(tmp_path / "lame.so", needs=b"libz.so.9")

    said = refusals([lame], search=(needed.parent,))

    assert "cannot open" not in said.get(lame, "")


def test_a_library_that_ends_the_process_leaves_the_others_judged(tmp_path: Path) -> None:
    half = tmp_path / "half.so"
    half.write_bytes(_LIBRARY.read_bytes()[: _LIBRARY.stat().st_size // 2])
    lame = _copy(tmp_path / "lame.so", needs=b"libz.so.9")

    said = refusals([str(half), lame, str(_LIBRARY)])

    assert said.keys() == {str(half), lame}
    assert said[str(half)].startswith("it was ended by SIGBUS")
    assert said[lame].startswith("libz.so.9: ")
