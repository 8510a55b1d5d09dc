"""Rules ORT6xx: onnxruntime-genai."""

from __future__ import annotations

from ortpkg.authoring.rules.targets import GENAI
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.errors import Severity

GENAI_CONFIG_WRONG = Rule(
    id="ORT601",
    title="A GenAI variant's genai_config.json can be read",
    explanation=(
        "onnxruntime-genai loads a variant through its genai_config.json, which is missing or no"
        " JSON object."
    ),
    remedy="put the file there that the model builder wrote",
    example="genai_config.json is empty",
)
GENAI_FILE_MISSING = Rule(
    id="ORT602",
    title="A GenAI variant has the files that its genai_config.json names",
    explanation="genai_config.json names a model file or a tokenizer folder that is not there.",
    remedy="add the file, or correct the name",
    example='{"model": {"decoder": {"filename": "model.onnx"}}}, and there is no model.onnx',
)
GENAI_ONE_COMPONENT = Rule(
    id="ORT610",
    title="A package for onnxruntime-genai has one component model",
    explanation="onnxruntime-genai refuses a package with several component models, or with none.",
    remedy="make a package of its own for each component model",
    example='{"components": {"encoder": {...}, "decoder": {...}}}',
    targets=(GENAI,),
)
GENAI_GENERATION = Rule(
    id="ORT611",
    title="A package for onnxruntime-genai is of the component generation",
    explanation=(
        "onnxruntime-genai opens packages through onnxruntime 1.28 or newer, which reads"
        " schema_version and components only; and a genai_config.json in the root makes it take the"
        " folder for a single model."
    ),
    remedy=(
        "write the package with --format component or universal, and keep genai_config.json in the"
        " variants"
    ),
    example='{"model_name": "m", "component_models": ["model"]}',
    targets=(GENAI,),
)
GENAI_CONFIG_MISSING = Rule(
    id="ORT612",
    title="Every variant for onnxruntime-genai has a genai_config.json",
    explanation=(
        "onnxruntime-genai loads <variant's folder>/genai_config.json and nothing else of a"
        " package."
    ),
    remedy="put a complete genai_config.json into the variant's folder",
    example="models/model/cpu/ holds model.onnx alone",
    targets=(GENAI,),
)
GENAI_OPTIONS_IGNORED = Rule(
    id="ORT613",
    title="Options for onnxruntime-genai stand in genai_config.json",
    explanation=(
        "onnxruntime-genai does not read executor_info.ort, and refuses runtime settings beside a"
        " package."
    ),
    remedy="move the options into genai_config.json",
    example='{"executor_info": {"ort": {"session_options": {...}}}}',
    severity=Severity.WARNING,
    targets=(GENAI,),
)
