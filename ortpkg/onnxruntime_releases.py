"""Names of onnxruntime releases, each standing for those that behave alike.

They are policies of selection, targets of ``validate``, and rules to read a package by.
"""

from __future__ import annotations

#: 1.26 and 1.27, of the metadata generation.
ONNXRUNTIME_1_27 = "onnxruntime-1.27"
#: 1.28 to 1.30, which accept session options that write files.
ONNXRUNTIME_1_30 = "onnxruntime-1.30"
#: Of the component generation, as 1.28 to 1.30.
ONNXRUNTIME_1_31 = "onnxruntime-1.31"
#: Whose CPU has a device, and which follows no link to shared assets.
ONNXRUNTIME_1_32 = "onnxruntime-1.32"
