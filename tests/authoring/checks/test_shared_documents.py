"""``validate`` of packages whose components name one document: what is there is looked at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ortpkg.authoring.checks import checked_package
from ortpkg.authoring.package_checks import validate
from ortpkg.authoring.rules import model_rules, selection_rules
from ortpkg.graph.operator_scan import scan_operators
from ortpkg.package.rules import UNKNOWN_DEVICE
from tests.authoring.checks.trees import CUDA, Tree, component_tree, model, variant, write_tree


def shared_tree(count: int, **variants: Any) -> Tree:
    """A package whose ``count`` components are one document."""
    tree = component_tree(**variants)
    body = tree["manifest.json"]["components"].pop("m")
    tree["manifest.json"]["components"] = {f"m{each}": "c/component.json" for each in range(count)}
    files = {f"c/{path}": content for path, content in tree.items() if path != "manifest.json"}
    return {"manifest.json": tree["manifest.json"], "c/component.json": body, **files}


def test_each_model_is_looked_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_through: Counter[Path] = Counter()

    def scan(path: Path, **how: Any) -> Any:
        looked_through[path] += 1
        return scan_operators(path, **how)

    monkeypatch.setattr(checked_package, "scan_operators", scan)
    tree = shared_tree(20)
    tree["c/component.json"]["variants"]["other"] = variant() | {"variant_directory": "cpu"}
    validate(write_tree(tmp_path / "p", tree))
    assert sorted(looked_through.values()) == [1, 1]


def test_what_is_wrong_in_a_document_is_told_once(tmp_path: Path) -> None:
    tree = shared_tree(3, gpu=variant(CUDA, "gpu"), odd=variant(CUDA, "toaster"))
    tree["c/gpu/model.onnx"] = model(operator="NoSuchOperator")
    found = Counter(each.rule for each in validate(write_tree(tmp_path / "p", tree)))
    assert found[UNKNOWN_DEVICE.id] == 1
    assert found[model_rules.OPERATOR_UNDEFINED.id] == 1
    assert found[selection_rules.NO_CPU_VARIANT.id] == 3  # one of each component
