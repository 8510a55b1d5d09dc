"""Packages with a few random changes: values, keys, bytes, files, folders, links.

Where ``changed_packages.py`` goes through all places with all values, one at a time, these combine
changes that only together mean something to a reader.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.interop.packages import (
    AZURE,
    CPU,
    DIGEST,
    Content,
    Folder,
    Link,
    Model,
    Tree,
    common_directory_tree,
    component_forms_tree,
    component_manifest,
    inline,
    metadata_manifest,
    metadata_variant,
    ort_variant,
    shared_asset_tree,
    universal_tree,
)

_ASSET = f"sha256:{DIGEST}"
_FOLDER_OPTION = "session.model_external_initializers_file_folder_path"

_TEXTS = (
    "", ".", "..", "./", "/", "v", "w", "./v", "v/", "v/.", "v/..", "w/../v", "nowhere",
    "nowhere/../v", "in", "in/", "in/../w", "out", "out/..", "loop", "loop/v", "dangling",
    "model.onnx", "./model.onnx", "model.onnx/", "w/model.onnx", "../w/model.onnx", "model.onnx/.",
    "other.onnx", "nowhere/../model.onnx", "in/model.onnx", "out/model.onnx", "v\0", "v\0x", "\0",
    "model.onnx\0/", f"{CPU}\0x", CPU, AZURE, "cpu", "npu", "CPU", "c", "c\0", "models/c", "d",
    "d/component.json", "payload.json", "v/payload.json", "installed", "portable", "1.0", "1.7",
    "1", "2.0", "01.00",
    _ASSET, f"{_ASSET}/", f"{_ASSET}/model.onnx", f"{_ASSET}/..", f"{_ASSET}//model.onnx", f"{_ASSET}/x\0y", "n" * 256,
    "./" * 2100 + "model.onnx", "./" * 2100 + "v", "w/../" * 900 + "v", "n" * 300 + "/../v", "é", "a b", "a:b", "con",
    "a\\b", "*.onnx", "MODEL.ONNX", "\u202e", "\x1b[31m", "\u0301",
)  # fmt: skip
_KEYS = (
    "ort", "ort\0", "ort\0x", "other", "model_file", "session_options", "provider_options",
    "variant_directory", "ep", "device", "compatibility_string", "executor_info",
    "additional_metadata", "layout", "components", "variants", "v",
    "w", "v\0x", "nowhere/../v", "in", "out", "./" * 2100 + "v", "c", "c\0x", "shared_assets", _ASSET, "constraints",
    "model_id", "file", "component_models", "model_variants", "model_name", "component_model_name",
    "schema_version", "ep.context_file_path", "ep.context_source_model_path", _FOLDER_OPTION,
    "session.enable_profiling", "k", "", "\0", "architecture", "ep_compatibility_info", "unknown",
    "k\0", "ortpkg",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 1.5, 10**400, {}, [], [1], ["c"], ["c", "d"], {"k": "v"}, {"model_file": "model.onnx"},
    {"ort": {"model_file": "model.onnx"}}, {"v": {}}, {"ep": CPU}, {"variants": {"v": {"ep": CPU}}},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Raw:
    """A value as it is written, for what no value of Python's stands for."""

    text: str


_RAW = (
    '"\\ud800"', '"\\udc00x"', '"\\ud83d\\ude00"', '"a\\u0000b"', "NaN", "1e999", "01", "'v'", "[1,]", '"\x01"', "nul",
    '"\\x"', "-", "1.", "/*x*/1", "[" * 150 + "]" * 150, "1" * 200, '"' + "x" * 2_000_000 + '"',
)  # fmt: skip


class _Object:
    """A JSON object that is written with the keys that it has, equal ones too."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _opened(value: Any) -> Any:
    if isinstance(value, dict):
        return _Object([(key, _opened(each)) for key, each in value.items()])
    return [_opened(each) for each in value] if isinstance(value, list) else value


def _written(value: Any) -> str:
    match value:
        case _Raw(text):
            return text
        case _Object():
            return (
                "{"
                + ", ".join(f"{json.dumps(key)}: {_written(each)}" for key, each in value.pairs)
                + "}"
            )
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value)


class _Mutation:
    """Changes one package; ``chance`` decides what."""

    def __init__(self, tree: Tree, chance: random.Random) -> None:
        self._chance = chance
        self.documents = {
            path: _opened(dict(each)) for path, each in tree.items() if isinstance(each, dict)
        }
        self.files: dict[str, Content] = {
            path: each for path, each in tree.items() if path not in self.documents
        }

    def change(self) -> None:
        choices: tuple[Callable[[], None], ...] = (
            self._replace_value, self._replace_value, self._replace_value, self._replace_text,
            self._replace_text, self._drop, self._rename, self._rename, self._repeat, self._add,
            self._add, self._change_file,
        )  # fmt: skip
        self._chance.choice(choices)()

    def tree(self) -> Tree:
        """The package now; what lies below a file or a link is left out."""
        written: dict[str, Content] = {
            path: _written(each).encode() for path, each in self.documents.items()
        }
        everything = self.files | written
        ends = [
            f"{path}/" for path, content in everything.items() if not isinstance(content, Folder)
        ]
        return {path: each for path, each in everything.items() if not path.startswith(tuple(ends))}

    def _objects(self) -> list[_Object]:
        pending: list[Any] = list(self.documents.values())
        found = []
        while pending:
            each = pending.pop()
            if isinstance(each, _Object):
                found.append(each)
                pending += [value for _, value in each.pairs]
            elif isinstance(each, list):
                pending += each
        return found

    def _member(self, of: Callable[[Any], bool] = lambda _: True) -> tuple[_Object, int] | None:
        """A member of some object, whose value ``of`` accepts."""
        members = [
            (each, at)
            for each in self._objects()
            for at in range(len(each.pairs))
            if of(each.pairs[at][1])
        ]
        return self._chance.choice(members) if members else None

    def _value(self) -> Any:
        kind = self._chance.random()
        if kind < 0.6:
            return self._chance.choice(_TEXTS)
        return (
            _Raw(self._chance.choice(_RAW)) if kind < 0.7 else _opened(self._chance.choice(_VALUES))
        )

    def _replace_value(self) -> None:
        if found := self._member():
            each, at = found
            each.pairs[at] = (each.pairs[at][0], self._value())

    def _replace_text(self) -> None:
        if found := self._member(lambda value: isinstance(value, str)):
            each, at = found
            each.pairs[at] = (each.pairs[at][0], self._chance.choice(_TEXTS))

    def _drop(self) -> None:
        if found := self._member():
            each, at = found
            del each.pairs[at]

    def _rename(self) -> None:
        if found := self._member():
            each, at = found
            each.pairs[at] = (self._chance.choice(_KEYS), each.pairs[at][1])

    def _repeat(self) -> None:
        if found := self._member():
            each, at = found
            key, value = each.pairs[at]
            each.pairs.insert(
                self._chance.choice((at, at + 1)),
                (key, self._chance.choice((value, self._value()))),
            )

    def _add(self) -> None:
        if objects := self._objects():
            self._chance.choice(objects).pairs.append((self._chance.choice(_KEYS), self._value()))

    def _change_file(self) -> None:
        path = self._chance.choice(list(self.files))
        what = self._chance.randrange(6)
        if what == 0:
            del self.files[path]
        elif what == 1:
            self.files[path] = Folder()
        elif what == 2:
            self.files[path] = Link(
                self._chance.choice(("../w/model.onnx", "nowhere", "../../beside/model.onnx", "."))
            )
        elif what == 3:
            folder = path.rpartition("/")[0]
            extra = self._chance.choice(
                ("other.onnx", "X.ONNX", "loop.onnx", "out.onnx", "genai_config.json")
            )
            link = {
                "loop.onnx": Link("loop.onnx"),
                "out.onnx": Link("../../../../beside/model.onnx"),
            }
            self.files[f"{folder}/{extra}" if folder else extra] = link.get(extra, Model(8.0))
        elif what == 4:
            folder = path.rpartition("/")[0] or path
            self.files = {
                each: content
                for each, content in self.files.items()
                if not each.startswith(f"{folder}/")
            }
            self.files[folder] = self._chance.choice(
                (b"x", Model(6.0), Link("w"), Link("nowhere"), Link(folder))
            )
        else:
            self.files[path] = self._chance.choice((b"", b"x", Model(5.0)))


#: Beside the files of every package: links inside, out, to nowhere and in a circle, and another
#: package's model.
_AROUND: dict[str, Content] = {
    "w/model.onnx": Model(20.0),
    "model.onnx": Model(21.0),
    "in": Link("w"),
    "out": Link("../beside"),
    "v/in": Link("../w"),
    "v/out": Link("../../beside"),
    "dangling": Link("nowhere"),
    "loop": Link("loop"),
    "../beside/model.onnx": Model(22.0),
}


def _component_trees() -> tuple[Tree, ...]:
    option = {_FOLDER_OPTION: _ASSET, "ep.context_file_path": "ctx.onnx", "k": "v"}
    payload = {
        "model_file": "model.onnx",
        "session_options": {"k": "v"},
        "provider_options": {"k": "v"},
    }
    two = {"v": ort_variant(), "a": ort_variant(AZURE, variant_directory="w")}
    return (
        {"manifest.json": inline(two), "v/model.onnx": Model(1.0)},
        {"manifest.json": inline(two, layout="installed"), "v/model.onnx": Model(1.0)},
        {
            "manifest.json": inline(
                {"v": {"ep": CPU, "executor_info": {"ort": "payload.json", "other": {}}}}
            ),
            "v/payload.json": payload,
            "v/model.onnx": Model(1.0),
        },
        {
            "manifest.json": component_manifest(
                {"c": "d"}, additional_metadata={"ortpkg": {}}, package_name="p"
            ),
            "d/component.json": {"component_name": "c", "variants": two},
            "d/v/model.onnx": Model(1.0),
            "d/w/model.onnx": Model(2.0),
        },
        shared_asset_tree() | {"v/ctx.onnx": Model(3.0)},
        {
            "manifest.json": inline(
                {"v": ort_variant(session_options=option)}, shared_assets={_ASSET: "w"}
            ),
            "v/model.onnx": Model(1.0),
        },
        component_forms_tree(),
        common_directory_tree(),
        universal_tree(),
    )


def _metadata_trees() -> tuple[Tree, ...]:
    two = {"v": metadata_variant(), "w": metadata_variant(CPU, device="cpu")}
    models: Tree = {"models/c/v/model.onnx": Model(1.0), "models/c/w/model.onnx": Model(2.0)}
    body = {"component_model_name": "c", "model_variants": two}
    drafts = {"c": {"model_variants": {"v": {"file": "model.onnx", "constraints": {"ep": AZURE}}}}}
    return (
        {"manifest.json": metadata_manifest(), "models/c/metadata.json": body, **models},
        {"manifest.json": {"model_name": "m"}, "models/c/metadata.json": body, **models},
        {
            "manifest.json": metadata_manifest(component_models=drafts),
            "models/c/metadata.json": body,
            **models,
        },
        {"metadata.json": body, "v/model.onnx": Model(1.0), "w/model.onnx": Model(2.0)},
        {
            "manifest.json": metadata_manifest(),
            "models/c/metadata.json": {
                "model_variants": {
                    "v": {"model_id": "a:b", "constraints": {}},
                    "w": {"model_file": "sub"},
                }
            },
            "models/c/a_b/any.onnx": Model(1.0),
            "models/c/w/sub/any.onnx": Model(2.0),
        },
        universal_tree(),
    )


COMPONENT_TREES = _component_trees()
METADATA_TREES = _metadata_trees()


def mutated_packages(trees: tuple[Tree, ...], seed: int, count: int) -> Iterator[Tree]:
    """``count`` packages, each one of ``trees`` with one to three changes.

    The same for the same seed.
    """
    chance = random.Random(seed)
    for _ in range(count):
        mutation = _Mutation(_AROUND | dict(chance.choice(trees)), chance)
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
            mutation.change()
        yield mutation.tree()
