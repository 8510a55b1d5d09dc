"""Packages that differ from a good one in one place: a value, some bytes, a path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.interop.packages import Folder, Link, Tree, component_manifest, inline

ASSET = "sha256:" + "0123456789abcdef" * 4
_ASSET_FOLDER = "shared_assets/sha256-" + "0123456789abcdef" * 4

#: To be put into a JSON text.
INSERTED_BYTES = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b"+", b".", b"e", b" ", b"\n", b"\0", b"\x7f", b"\xc3",
    b"\xff", b"\xef\xbb\xbf", b"u", b"\t", b"\x0b", b"\xe2\x80\xa8", b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80", b"\xc0\x80", b"/", b"'",
)  # fmt: skip


#: What the references lead to: files, folders, links inside, out, to nowhere and in a circle.
PATHS_TREE: Tree = {
    "d/component.json": {"variants": {}},
    "d/plain.json": {"variants": {}},
    "d/v": Folder(),
    "v": Folder(),
    "plain.json": {"variants": {}},
    "v/plain.json": {"variants": {}},
    "../beside/plain.json": {"variants": {}},
    "../beside/component.json": {"variants": {}},
    "in": Link("d"),
    "out": Link("../beside"),
    "v/in": Link("../d"),
    "v/out": Link("../../beside"),
    "dangling": Link("nowhere"),
    "v/dangling": Link("../../nowhere"),
    "loop": Link("loop"),
    "v/loop": Link("loop"),
    f"{_ASSET_FOLDER}/plain.json": {"variants": {}},
    f"{_ASSET_FOLDER}/out": Link("../../d"),
}

#: Paths and references, good and bad; ROOT stands for the package's directory.
REFERENCES = (
    "", ".", "./", "/", "..", "../", "...", " ", "\0", "a\0b", "plain.json", "plain.json/", "plain.json/x",
    "plain.json\0x", "./plain.json", "d", "d/", "d//plain.json", "d/plain.json", "d/./plain.json",
    "d/..", "d/../plain.json", "nowhere", "nowhere/", "nowhere/plain.json", "in", "in/",
    "in/plain.json", "in/nowhere", "out", "out/", "out/plain.json", "out/nowhere",
    "out/../plain.json", "dangling", "dangling/x", "loop", "loop/x", "../beside",
    "../beside/plain.json", "../p.ortpackage/plain.json", "ROOT", "ROOT/plain.json", "ROOT/nowhere",
    "/nowhere", "//plain.json", "C:plain.json",
    "d\\plain.json", "..\\beside", "n" * 300, "é", "~", "$HOME", ASSET, f"{ASSET}/", f"{ASSET}//", f"{ASSET}/.",
    f"{ASSET}/plain.json", f"{ASSET}//plain.json", f"{ASSET}/out", f"{ASSET}/out/plain.json",
    f"{ASSET}/../x",
    f"{ASSET}/nowhere", f"{ASSET} ", f"{ASSET}x", ASSET[:-1], ASSET.upper(), "sha256:" + "f" * 64, "sha256:",
)  # fmt: skip


def manifest_with_reference(place: str, reference: str) -> dict[str, Any]:
    """A manifest with the reference in one place, and in none other."""
    variant: dict[str, Any] = {"ep": "CPUExecutionProvider"}
    match place:
        case "component":
            return component_manifest({"c": reference})
        case "variant_directory":
            variant["variant_directory"] = reference
        case "executor_info":
            variant["executor_info"] = {"other": reference}
        case "model_file":
            variant["executor_info"] = {"ort": {"model_file": reference}}
        case "folder":
            options = {"session.model_external_initializers_file_folder_path": reference}
            variant["executor_info"] = {"ort": {"session_options": options}}
        case "asset":
            variant["executor_info"] = {"ort": {"model_file": f"{ASSET}/plain.json"}}
            return inline({"v": variant}, shared_assets={ASSET: reference})
    return inline({"v": variant})


#: Every key that there is.
EVERY_KEY_TREE: Tree = {
    "manifest.json": component_manifest(
        {
            "inline": {
                "component_name": "inline",
                "variants": {
                    "w": {
                        "variant_directory": "parts/w",
                        "ep": "CPUExecutionProvider",
                        "device": "cpu",
                        "compatibility_string": "x",
                        "executor_info": {
                            "ort": {"model_file": f"{ASSET}/m.onnx"},
                            "other": {"a": 1},
                        },
                        "additional_metadata": {"b": [1]},
                    }
                },
                "additional_metadata": 1,
            },
            "outside": "parts",
        },
        layout="portable",
        package_name="p",
        package_version="1",
        description="d",
        shared_assets={ASSET: "parts/asset"},
        additional_metadata={"c": None},
    ),
    "parts/component.json": {
        "variants": {"v": {"ep": "QNNExecutionProvider", "executor_info": {"ort": "ort.json"}}}
    },
    "parts/v/ort.json": {
        "model_file": "m.onnx",
        "session_options": {"session.model_external_initializers_file_folder_path": "x", "k": "v"},
        "provider_options": {"k": "v"},
    },
    "parts/w": Folder(),
}
_REPLACEMENTS: tuple[Any, ...] = (
    None, True, 0, 1, -1, 1.5, "", "1.0", "parts", "parts/", "./parts/v", "..", "parts/../parts", "/x", "a\0b", "é",
    ASSET, f"{ASSET}/", f"{ASSET}//x", f"{ASSET}/../x", "sha256:0", [], [1], {}, {"k": 1}, {"k": "v"}, {"": {}},
)  # fmt: skip


def changes_of(document: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Each document that differs from ``document`` in one value, with a text that says how."""
    for value in _REPLACEMENTS:
        yield f"{pointer} := {value!r}", value
    if not isinstance(document, dict):
        return
    yield f"{pointer} + unknown", document | {"unknown": 1}
    for key, value in document.items():
        yield (
            f"{pointer}/{key} dropped",
            {name: each for name, each in document.items() if name != key},
        )
        for change, changed in changes_of(value, f"{pointer}/{key}"):
            yield change, document | {key: changed}
