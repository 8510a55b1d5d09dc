"""Rules ORT2xx: purpose of variants, and their options."""

from __future__ import annotations

from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.errors import Severity
from ortpkg.package.rules import COMPONENT_FORMATS

NO_CPU_VARIANT = Rule(
    id="ORT201",
    title="A component model has a variant for every machine",
    explanation=(
        "No variant runs on a CPU, so that the package cannot be used without the device it was"
        " made for."
    ),
    remedy="add a variant for CPUExecutionProvider",
    example='the only variant has {"ep": "QNNExecutionProvider", "device": "npu"}',
    severity=Severity.WARNING,
)
SELECTION_TIE = Rule(
    id="ORT202",
    title="No two variants are for the same",
    explanation=(
        "Two variants have the same constraints. The first one is selected, by ortpkg and by"
        " onnxruntime from 1.28 on; in 1.26 and 1.27 it is unpredictable which one. The others are"
        " used by name, or where they were measured to be faster (policy measured)."
    ),
    remedy="order them by preference, or tell them apart by device or compatibility info",
    example='"fp32" and "int8" both have {"ep": "CUDAExecutionProvider", "device": "gpu"}',
    severity=Severity.WARNING,
)
CPU_DEVICE_STATED = Rule(
    id="ORT203",
    title="CPU variants leave the device out",
    explanation=(
        "onnxruntime 1.28 to 1.31 never select a variant of CPUExecutionProvider that states a"
        " device, not even cpu: that provider has no devices there."
    ),
    remedy='remove "device" from the variant in the component generation\'s keys',
    example='{"variants": {"cpu": {"ep": "CPUExecutionProvider", "device": "cpu"}}}',
    severity=Severity.WARNING,
    formats=COMPONENT_FORMATS,
)
EP_NOT_STATED = Rule(
    id="ORT204",
    title="A variant names its execution provider",
    explanation=(
        "onnxruntime 1.28 to 1.32 never select a variant without ep: there is no variant for any"
        " provider."
    ),
    remedy="name the execution provider that the variant is for",
    example='{"variants": {"gpu": {"device": "gpu"}}}',
    severity=Severity.WARNING,
    formats=COMPONENT_FORMATS,
)
DEVICE_NEVER_MATCHES = Rule(
    id="ORT205",
    title="A device is one that the execution provider runs on",
    explanation=(
        "The execution provider is for another kind of device, so that the variant never matches."
    ),
    remedy="correct ep or device",
    example='{"ep": "CUDAExecutionProvider", "device": "npu"}',
    severity=Severity.WARNING,
)
OPTION_DEVICE_CONFLICT = Rule(
    id="ORT206",
    title="Provider options and device agree",
    explanation=(
        "A provider option names other device types than the constraint, so that the variant never"
        " matches."
    ),
    remedy="make the two agree",
    example='{"device": "npu"} and the provider option {"device_type": "GPU"}',
    severity=Severity.WARNING,
)
OPTION_NEEDS_TRUST = Rule(
    id="ORT210",
    title="Options work without trust",
    explanation=(
        "A session or provider option can reach beyond the package (write files, load libraries,"
        " read paths), or is not known to be harmless. Sessions of the variant are refused unless"
        " the user trusts the package."
    ),
    remedy="remove the option; a program can set it for itself",
    example='{"provider_options": {"backend_path": "libQnnHtp.so"}}',
    severity=Severity.WARNING,
)
OPTION_VALUE = Rule(
    id="ORT211",
    title="A session option has a value that onnxruntime reads",
    explanation="onnxruntime checks the value when the session is made, and refuses to make it.",
    remedy="write a value of the option's type",
    example='{"session.intra_op_num_threads": "many"}',
)
