"""What the system's loader says of native libraries, good ones and damaged ones."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.api.doctor import native_libraries
from ortpkg.api.doctor.native_libraries import loader_sentences, refusals

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


def test_what_providers_libraries_share_is_there_for_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modes = {}
    monkeypatch.setattr(ctypes, "CDLL", lambda name, mode: modes.update({name: mode}))
    names = ["capi/libonnxruntime_providers_shared.so", "capi/libonnxruntime_providers_cuda.so"]

    assert loader_sentences(names) == {}
    assert modes == {names[0]: ctypes.RTLD_GLOBAL, names[1]: ctypes.DEFAULT_MODE}


def test_what_providers_share_is_loaded_first_and_nvidias_wheels_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "onnxruntime"
    (folder / "capi").mkdir(parents=True)
    for name in ("libonnxruntime_providers_cuda.so", "libonnxruntime_providers_shared.so"):
        (folder / "capi" / name).touch()
    wheels = tmp_path / "elsewhere/nvidia/cu13/lib"
    asked: list[Any] = []

    def refuse(libraries: list[str], *, search: tuple[Path, ...]) -> dict[str, str]:
        asked.append(([Path(path).name for path in libraries], search))
        return {}

    monkeypatch.setattr(native_libraries, "refusals", refuse)
    monkeypatch.setattr(native_libraries, "wheel_folders", lambda: (wheels,))
    monkeypatch.setattr(
        native_libraries, "_folder_of", lambda module: folder if module == "onnxruntime" else None
    )

    assert native_libraries.refused_libraries() == {}
    ((names, search),) = asked
    assert [name.rpartition("_")[2] for name in names] == ["shared.so", "cuda.so"]
    assert search == (folder / "capi", wheels)
