"""Rules ORT7xx: releases of onnxruntime."""

from __future__ import annotations

from ortpkg.authoring.rules.targets import GENAI, UNIVERSAL
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.errors import Severity
from ortpkg.foundations.onnxruntime_releases import (
    ONNXRUNTIME_1_27,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)
from ortpkg.package.rules import METADATA_FORMATS

_RELEASES = (ONNXRUNTIME_1_27, ONNXRUNTIME_1_31, ONNXRUNTIME_1_32)

RELEASE_REFUSES = Rule(
    id="ORT701",
    title="The release opens the package",
    explanation=(
        "The release that was asked for refuses the whole package, whatever variant would suit the"
        " machine."
    ),
    remedy="see the message; ortpkg convert writes the form that the release reads",
    example="a package of the metadata generation in onnxruntime 1.31: it has no schema_version",
    targets=(*_RELEASES, GENAI, UNIVERSAL),
)
RELEASE_NEVER_SELECTS = Rule(
    id="ORT702",
    title="The release can select every variant",
    explanation="By its rules the release never selects the variant, on any machine.",
    remedy="see the message",
    example="a variant of CPUExecutionProvider in onnxruntime 1.27, which passes over the CPU",
    severity=Severity.WARNING,
    targets=_RELEASES,
)
RELEASE_MODEL_TOO_NEW = Rule(
    id="ORT703",
    title="The release reads the model's version of ONNX",
    explanation=(
        "The model's IR version, or an operator set that it imports, is newer than the release"
        " knows."
    ),
    remedy="export or convert the model for an older operator set (onnx.version_converter)",
    example='ir_version: 14, opset_import {domain: "" version: 28}',
    targets=(*_RELEASES, GENAI, UNIVERSAL),
)
SEVERAL_COMPONENTS = Rule(
    id="ORT704",
    title="A package for onnxruntime 1.26 and 1.27 has one component model",
    explanation=(
        "onnxruntime 1.26 and 1.27, for which such a package is written too, refuse one with"
        " several component models; ortpkg and, with the keys of the component generation, later"
        " releases open it."
    ),
    remedy=(
        "make a package of its own for each component model, or, where 1.26 and 1.27 do not matter,"
        " convert it with ortpkg convert --to component"
    ),
    example=(
        '{"schema_version": "1.1000", "component_models": ["encoder", "decoder"], "components":'
        " {...}}"
    ),
    severity=Severity.WARNING,
    formats=METADATA_FORMATS,
)
RELEASE_READS_NO_CONTEXTS = Rule(
    id="ORT705",
    title="The release's execution providers read the compiled contexts",
    explanation=(
        "A context that ortpkg compiled lies in a container of its own, unless onnxruntime's was"
        " asked for: a session of onnxruntime on such a variant fails."
    ),
    remedy="compile the plain variant again with ortpkg compile --for onnxruntime (OpenVINO, QNN)",
    example="model_ctx.onnx beside a model_openvino.bin that begins with ORTPKG EPCTX",
    severity=Severity.WARNING,
    targets=(*_RELEASES, GENAI, UNIVERSAL),
)
UNIVERSAL_GENERATIONS = Rule(
    id="ORT710",
    title="A universal package has the keys of both generations",
    explanation=(
        "With the keys of one generation only, the releases that read the other one refuse the"
        " package."
    ),
    remedy="write it with ortpkg convert --to universal",
    example='{"schema_version": "1.0", "components": {...}}, without model_name',
    targets=(UNIVERSAL,),
)
UNIVERSAL_ONE_COMPONENT = Rule(
    id="ORT711",
    title="A universal package has one component model",
    explanation="onnxruntime 1.26 and 1.27 refuse a package with several component models.",
    remedy="make a package of its own for each component model",
    example='{"component_models": ["encoder", "decoder"]}',
    targets=(UNIVERSAL,),
)
