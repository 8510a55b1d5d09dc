"""No command writes a package that its own readers would refuse as too large."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx.parser
import pytest

from ortpkg.authoring import package_totals
from ortpkg.authoring.convert import convert
from ortpkg.authoring.merge import merge
from ortpkg.foundations.errors import AuthoringError
from ortpkg.package.counted_documents import PackageLimits
from ortpkg.package.reader import open_package

VARIANT = {
    "variant_directory": ".",
    "ep": "CPUExecutionProvider",
    "executor_info": {"ort": {"model_file": "m.onnx"}},
}


def written(root: Path, components: list[str], variants: list[str], note: Any = None) -> Path:
    """A package whose components are all one document, which says ``note``, too."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { y = Relu(x) }'
    (root / "c").mkdir(parents=True)
    (root / "c/m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    body = {"variants": dict.fromkeys(variants, VARIANT | {"additional_metadata": {"note": note}})}
    (root / "c/component.json").write_text(json.dumps(body))
    manifest = {"schema_version": "1.0", "components": dict.fromkeys(components, "c")}
    (root / "manifest.json").write_text(json.dumps(manifest))
    return root


def content_of(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def limit(monkeypatch: pytest.MonkeyPatch, **most: int) -> None:
    monkeypatch.setattr(package_totals, "PackageLimits", lambda: PackageLimits(**most))


def test_a_document_is_not_copied_for_more_components_than_a_package_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = written(tmp_path / "p", ["a", "b", "d"], ["v"], "x" * 4000)
    before = content_of(root)
    limit(monkeypatch, nbytes=10_000)

    for output in (None, tmp_path / "new"):
        with pytest.raises(AuthoringError) as raised:
            convert(root, "metadata", output=output, notify=print)
        assert str(raised.value) == (
            "the package would hold more than 10,000 bytes of documents, and could not be opened"
            " any more; nothing was written"
        )
    assert content_of(root) == before
    assert list(tmp_path.iterdir()) == [root]


def test_values_of_a_universal_package_are_counted_as_often_as_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = written(tmp_path / "p", ["a"], ["v"], list(range(1000)))
    limit(monkeypatch, values=1500)

    convert(root, "metadata", output=tmp_path / "read-once", notify=print)
    with pytest.raises(AuthoringError, match="more than 1,500 values in documents, each counted"):
        convert(root, "universal", output=tmp_path / "read-twice", notify=print)


@pytest.mark.parametrize(
    ("most", "said"),
    [
        ({"components": 3}, "3 component models"),
        ({"variants": 6}, "6 variants"),
        ({"nbytes": 9000}, "9,000 bytes of documents"),
        ({"values": 2000}, "2,000 values in documents"),
    ],
)
def test_packages_that_are_too_large_together_are_not_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: dict[str, int], said: str
) -> None:
    first = written(tmp_path / "first", ["a", "b"], ["v", "w"], [5] * 300)
    second = written(tmp_path / "second", ["d", "e"], ["v", "w"], [5] * 300)
    before = content_of(first)
    limit(monkeypatch, **most)

    for output in (None, tmp_path / "new"):
        with pytest.raises(AuthoringError, match=f"the package would hold more than {said}"):
            merge(first, second, output=output, notify=print)
    assert content_of(first) == before
    assert not (tmp_path / "new").exists()

    monkeypatch.undo()
    merge(first, second, notify=print)
    assert [each.name for each in open_package(first).components] == ["a", "b", "d", "e"]
