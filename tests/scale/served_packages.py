"""Packages for servers: one whose requests say how long they take, and such that give back."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser

import ortpkg
from tests.scale.protocol_rows import DATATYPES

#: Turns as often as it is told; each turn adds 1 to every element.
COUNTER = """
<ir_version: 8, opset_import: ["" : 17]>
counter (int64 turns, float[n] start) => (float[n] end)
{
   yes = Constant <value = bool {1}> ()
   end = Loop (turns, yes, start) <body = turn (int64 i, bool go, float[n] before)
      => (bool more, float[n] after)
      {
         more = Identity (go)
         one = Constant <value = float {1.0}> ()
         after = Add (before, one)
      }>
}
"""


def make_counter(folder: Path, version: str = "1") -> Path:
    """A package with the model, whose made-up inputs make a turn or none."""
    model = folder / f"counter-{version}.onnx"
    onnx.save(onnx.parser.parse_model(COUNTER), model)
    package = folder / f"counter-{version}.ortpackage"
    ortpkg.create(package, [ortpkg.NewVariant(model=model)], name="counter", version=version)
    return package


def make_echoes(folder: Path) -> list[Path]:
    """A package for each datatype, "echo_fp32" and so on: y is x, of any shape."""
    made = []
    for datatype, word in DATATYPES.items():
        name = f"echo_{datatype.lower()}"
        graph = f"{name} ({word}[] x) => ({word}[] y) {{ y = Identity (x) }}"
        model = folder / f"{name}.onnx"
        text = f'<ir_version: 8, opset_import: ["" : 17]> {graph}'
        onnx.save(onnx.parser.parse_model(text), model)
        made.append(folder / f"{name}.ortpackage")
        ortpkg.create(made[-1], [ortpkg.NewVariant(model=model)], name=name, version="1")
    return made
