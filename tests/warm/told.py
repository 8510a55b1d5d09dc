"""A program that says what it is, how it was called, and whether it was copied with onnx loaded."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    print(__name__, sys.argv[1:], "onnx" in sys.modules)
    sys.exit(3)
