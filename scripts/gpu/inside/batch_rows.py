"""Rows for a batch of digits, and whether its answers are those of the samples.

batch_rows make PACKAGE FILE COUNT
batch_rows check PACKAGE FOLDER COUNT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(action: str, package: Path, path: Path, count: int) -> dict[str, Any]:
    samples = package / "samples"
    images = np.load(samples / "held_out_inputs.npz")["image"].reshape(-1, 1, 8, 8)
    if action == "make":
        rows = np.resize(np.arange(len(images)), count)
        np.save(path, images[rows].astype(np.float32))
        return {"rows": count}
    expected = np.load(samples / "held_out_outputs.npz")["logits"].reshape(len(images), -1)
    parts = sorted(path.glob("part-*/*logits*.npy"))
    logits = np.concatenate([np.load(part).reshape(-1, expected.shape[1]) for part in parts])
    wanted = np.resize(expected.argmax(axis=1), count)
    return {"rows": len(logits), "right": int((logits.argmax(axis=1) == wanted).sum())}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))))
