"""Whole sessions in the cache of contexts look at nothing of the source but what it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.cli.app import run as run_command_line
from ortpkg.foundations.errors import ModelNotFoundError
from ortpkg.graph import onnx_reader
from ortpkg.runtime.ep_context import cached_sessions
from ortpkg.runtime.ep_context.cached_sessions import SessionCache
from ortpkg.runtime.ep_context.ep_context_cache import EpContextCache
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import GraphOptimizationLevel, SessionOptions
from tests.ep_context.conftest import EXPECTED, X
from tests.ep_context.test_cache_of_libraries import EPS, Compilations
from tests.ep_context.test_native_libraries import BACKENDS, BRIDGE, MIXED, OPENVINO, save

#: A model that says much of itself: a free dimension, an input with a default value, metadata,
#: names.
RICH = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3], producer_name: "somebody", model_version: 7,
  doc_string: "of a model", metadata_props: ["key" : "value"]>
rich (float[N, 3] x, float[3] b) => (float[N, 3] y, float[N, 2] z)
<float[3] b = {1, 2, 3}, float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 10}, int64[2] columns = {0, 2}> {
    m = MatMul(x, w)
    y = Add(m, b)
    z = ai.onnx.ml.ArrayFeatureExtractor(y, columns)
}"""


@pytest.fixture(autouse=True)
def _own_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "facts"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "facts" / "contexts"


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The models that sessions read."""
    found: list[Path] = []
    load_model = onnx_reader.load_model

    def load(source: Any, **keywords: Any) -> Any:
        found.append(Path(source))
        return load_model(source, **keywords)

    monkeypatch.setattr("ortpkg.runtime.session.model_loading.load_model", load)
    return found


def session(
    model: Path, backend: str = OPENVINO, entries: Mapping[str, str] | None = None, **values: Any
) -> InferenceSession:
    pytest.importorskip(backend)
    options = SessionOptions()
    for key, value in {"ortpkg.ep_context_cache": "1", **(entries or {})}.items():
        options.add_session_config_entry(key, value)
    for name, value in values.items():
        setattr(options, name, value)
    return InferenceSession(model, options, providers=[EPS[backend]], backend=backend)


def run_once(model: Path, backend: str = OPENVINO, **keywords: Any) -> Any:
    with session(model, backend, **keywords) as made:
        return made.run(None, {"x": X})[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_second_session_does_not_read_the_source(
    model: Path, folder: Path, loaded: list[Path], backend: str
) -> None:
    run_once(model, backend)
    assert loaded == [model]
    loaded.clear()
    np.testing.assert_allclose(run_once(model, backend), EXPECTED, rtol=1e-5)
    assert [path.parent for path in loaded] == [folder]


def test_a_session_from_the_cache_says_of_itself_what_the_first_one_said(
    tmp_path: Path, loaded: list[Path]
) -> None:
    model = save(RICH, tmp_path / "rich.onnx")

    def said() -> list[Any]:
        with session(model) as made:
            places = [
                (each.name, each.shape, each.type)
                for each in (*made.get_inputs(), *made.get_outputs())
            ]
            defaults = [
                (each.name, each.shape, each.type) for each in made.get_overridable_initializers()
            ]
            about = made.get_modelmeta()
            meta = [
                about.producer_name,
                about.graph_name,
                about.version,
                about.description,
                about.domain,
            ]
            metadata = dict(about.custom_metadata_map)
            given = {"x": X, "b": np.zeros(3, np.float32)}
            outputs = [*made.run(None, {"x": X}), *made.run(["z"], given)]
            arrays = [each.tolist() for each in outputs]
            return [
                places,
                defaults,
                meta,
                metadata,
                made.get_plan().partitions,
                made.get_providers(),
                arrays,
            ]

    first = said()
    loaded.clear()
    assert said() == first
    assert model not in loaded


#: Options that change nothing of what is compiled.
OPTIONS: Mapping[str, tuple[str, Any]] = {
    "threads": ("intra_op_num_threads", 1),
    "log": ("logid", "a"),
    "time limit": ("timeout_s", 60.0),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", ["renamed", "moved", "touched", "threads", "log", "time limit"])
def test_what_does_not_matter_is_a_hit(model: Path, loaded: list[Path], change: str) -> None:
    run_once(model)
    values: dict[str, Any] = {}
    if change == "renamed":
        model = model.rename(model.with_name("other.onnx"))
    elif change == "moved":
        (model.parent / "below").mkdir()
        model = model.rename(model.parent / "below" / model.name)
    elif change == "touched":
        model.touch()
    else:
        name, value = OPTIONS[change]
        values = {name: value}
    loaded.clear()
    np.testing.assert_allclose(run_once(model, **values), EXPECTED, rtol=1e-5)
    assert model not in loaded


@pytest.mark.parametrize("change", ["level", "dimension", "entry", "model", "cache elsewhere"])
def test_what_matters_is_none(model: Path, loaded: list[Path], change: str, tmp_path: Path) -> None:
    run_once(model)
    entries: dict[str, str] = {}
    values: dict[str, Any] = {}
    if change == "level":
        values["graph_optimization_level"] = GraphOptimizationLevel.ORT_DISABLE_ALL
    elif change == "entry":
        entries["session.set_denormal_as_zero"] = "1"
    elif change == "cache elsewhere":
        entries["ortpkg.ep_context_cache"] = str(tmp_path / "elsewhere")
    elif change == "model":
        proto = onnx.load(model)
        proto.graph.doc_string = "another"
        onnx.save(proto, model)
    loaded.clear()
    if change == "dimension":
        options = SessionOptions()
        options.add_session_config_entry("ortpkg.ep_context_cache", "1")
        options.add_free_dimension_override_by_name("N", 2)
        InferenceSession(model, options, providers=[EPS[OPENVINO]], backend=OPENVINO).close()
    else:
        run_once(model, entries=entries, **values)
    assert model in loaded


def external(model: Path) -> Path:
    """The model with its weights in a file beside it."""
    onnx.save(
        onnx.load(model), model, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    return model.with_name("w.bin")


def test_other_weights_in_a_file_beside_the_model_are_none(model: Path, loaded: list[Path]) -> None:
    data = external(model)
    expected = run_once(model)
    loaded.clear()
    np.testing.assert_array_equal(run_once(model), expected)
    assert model not in loaded
    content = bytearray(data.read_bytes())
    content[3] ^= 0x40
    data.unlink()
    data.write_bytes(content)
    assert not np.array_equal(run_once(model), expected)
    assert model in loaded


def test_files_that_change_while_a_session_is_made_are_not_kept(
    model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = external(model)
    openvino_library = pytest.importorskip(
        "ortpkg.runtime.providers.openvino_library"
    ).OpenVinoLibrary
    compile_model = openvino_library.compile_model

    def replace_and_compile(*arguments: Any) -> Any:
        content = data.read_bytes()
        data.unlink()
        data.write_bytes(bytes(len(content)))
        return compile_model(*arguments)

    monkeypatch.setattr(openvino_library, "compile_model", replace_and_compile)
    run_once(model)
    assert list(folder.glob("*.session*")) == []


def test_weights_that_are_gone_are_missed(model: Path) -> None:
    data = external(model)
    run_once(model)
    data.unlink()
    with pytest.raises(ModelNotFoundError, match=r"w\.bin"):
        run_once(model)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", ["note", "other note", "model", "no model", "context"])
def test_what_is_damaged_is_made_anew(
    model: Path, folder: Path, loaded: list[Path], damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_once(model)
    (note,), (kept,), (context,) = (
        folder.glob("*.session"),
        folder.glob("*.session.onnx"),
        folder.glob("*.bin"),
    )
    if damage == "note":
        note.write_text("{")
    elif damage == "other note":
        note.write_text('{"schema_version": 1, "contexts": [], "data": {}, "details": {}}')
    elif damage == "model":
        kept.write_bytes(kept.read_bytes()[:50])
    elif damage == "no model":
        kept.unlink()
    else:
        context.unlink()
    count = Compilations(OPENVINO, monkeypatch)
    loaded.clear()
    np.testing.assert_allclose(run_once(model), EXPECTED, rtol=1e-5)
    assert count.taken() == {"context": (1, 0), "other note": (0, 2)}.get(damage, (0, 1))
    assert model in loaded
    loaded.clear()
    np.testing.assert_allclose(run_once(model), EXPECTED, rtol=1e-5)
    assert model not in loaded


@pytest.mark.parametrize("way", ["context model", "transformers", "memory"])
def test_other_sessions_are_not_kept_as_a_whole(model: Path, folder: Path, way: str) -> None:
    pytest.importorskip(OPENVINO)
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.ep_context_cache", "1")
    keywords: dict[str, Any] = {"transformers": {}} if way == "transformers" else {}
    if way == "context model":
        options.add_session_config_entry("ep.context_enable", "1")
    source = model.read_bytes() if way == "memory" else model
    with InferenceSession(
        source, options, providers=[EPS[OPENVINO]], backend=OPENVINO, **keywords
    ) as made:
        np.testing.assert_allclose(made.run(None, {"x": X})[0], EXPECTED, rtol=1e-5)
    assert len(list(folder.glob("*.bin"))) == 1
    assert list(folder.glob("*.session*")) == []


def test_a_model_of_which_most_stays_on_the_cpu_is_not_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ortpkg.runtime.session.session_caching.MOST_MODEL_NBYTES", 8)
    run_once(save(MIXED, tmp_path / "mixed.onnx"))
    assert len(list(folder.glob("*.bin"))) == 2
    assert list(folder.glob("*.session*")) == []


def test_clearing_the_cache_clears_them_too(
    model: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_once(model)
    run_once(model, BRIDGE)
    assert len(list(folder.glob("*.session"))) == 2
    (folder / f"{'0' * 40}.json").write_text("damaged")
    for words in (["--keep", "1TB"], ["--ep", "openvino"], []):
        before = {path.name for path in folder.iterdir()}
        capsys.readouterr()
        assert run_command_line(["cache", "clear", *words, "--dry-run", "--json"]) == 0
        foretold = json.loads(capsys.readouterr().out)
        assert {path.name for path in folder.iterdir()} == before
        assert run_command_line(["cache", "clear", *words]) == 0
        gone = before - {path.name for path in folder.iterdir()}
        assert (foretold["root"], set(foretold["removes"])) == (str(folder), gone)
        assert gone
        if words == ["--ep", "openvino"]:
            assert (
                len(list(folder.glob("*.session"))) == len(list(folder.glob("*.session.onnx"))) == 1
            )
    capsys.readouterr()
    assert run_command_line(["cache", "list", "--dry-run"]) == 2
    assert "cache list changes nothing: --dry-run goes with clear" in capsys.readouterr().err
    assert list(folder.glob("*.session*")) == []


def test_those_that_were_used_last_stay(
    model: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_sessions, "_MOST_KEPT", 1)
    run_once(model)
    (first,) = folder.glob("*.session")
    run_once(save(MIXED, tmp_path / "mixed.onnx"))
    (second,) = folder.glob("*.session")
    assert first != second
    SessionCache(EpContextCache(folder)).prune()
    assert second.exists()
