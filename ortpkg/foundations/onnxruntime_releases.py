"""Names of onnxruntime releases, each for a group that behaves alike.

They are policies of selection, targets of ``validate``, and rules by which a package is read.
"""

from __future__ import annotations

#: Releases 1.26 and 1.27, of the metadata generation.
ONNXRUNTIME_1_27 = "onnxruntime-1.27"
#: Releases 1.28 to 1.30, which accept session options that write files.
ONNXRUNTIME_1_30 = "onnxruntime-1.30"
#: Release 1.31, of the component generation like 1.28 to 1.30.
ONNXRUNTIME_1_31 = "onnxruntime-1.31"
#: Release 1.32, whose CPU has a device, and which follows no link to shared assets.
ONNXRUNTIME_1_32 = "onnxruntime-1.32"
