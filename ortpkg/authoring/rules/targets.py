"""Readers whose behaviour with a package ``validate`` can predict."""

from __future__ import annotations

from ortpkg.foundations.onnxruntime_releases import (
    ONNXRUNTIME_1_27,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)

GENAI = "genai"
UNIVERSAL = "universal"

TARGETS: dict[str, str] = {
    ONNXRUNTIME_1_27: (
        "onnxruntime 1.27, and 1.26 (the metadata generation; one component model, an EP other than"
        " CPU)"
    ),
    ONNXRUNTIME_1_31: (
        "onnxruntime 1.31 (the component generation; 1.28 to 1.30 open a little more)"
    ),
    ONNXRUNTIME_1_32: (
        "onnxruntime 1.32 (as 1.31, but selects the CPU's device, and follows no link to shared"
        " assets)"
    ),
    GENAI: "onnxruntime-genai (one component model, a genai_config.json in each variant)",
    UNIVERSAL: "all of onnxruntime 1.26 to 1.32 by one directory",
}
"""Name of a reader that can be passed to ``validate`` → its description."""

CAUTIONS: dict[str, str] = {
    GENAI: (
        "no published wheel of onnxruntime-genai opens packages (tried up to 0.18.0): it takes the"
        " folder and the execution provider that ortpkg select --json names"
    ),
}
"""Name of a reader → general remark on it, shown before anything is checked."""
