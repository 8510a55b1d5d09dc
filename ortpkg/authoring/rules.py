"""The rules of ``validate`` that need more than the documents: file contents, models, what a variant is for.

ORT101 to ORT199; ``ortpkg.package.rules`` has those below and the table's form. Ids never change meaning.
"""

from __future__ import annotations

from ortpkg.errors import Severity
from ortpkg.package.rules import Rule

FILE_CHANGED = Rule(
    id="ORT101",
    title="A file is as it was recorded",
    explanation="The file's SHA-256 is not the one in digests.json: it was damaged or edited since it was recorded.",
    remedy="Restore the file; if it was edited on purpose, delete digests.json: the next authoring command writes it.",
)
FILE_LOST = Rule(
    id="ORT102",
    title="A recorded file is there",
    explanation="digests.json records a file that is not in the package.",
    remedy="Restore the file, or remove and add its variant again.",
)
FILE_UNREADABLE = Rule(
    id="ORT103",
    title="A recorded file can be read",
    explanation="The file's bytes cannot be compared with digests.json: it cannot be read, or is not a regular file.",
    remedy="Correct its permissions, or put a plain file there.",
)
FILE_NOT_RECORDED = Rule(
    id="ORT104",
    title="Every file is recorded",
    explanation="A file is not in digests.json, so that nobody will notice when it is damaged.",
    remedy="Remove it, or delete digests.json: the next authoring command writes it anew.",
    severity=Severity.WARNING,
)
NO_DIGESTS = Rule(
    id="ORT105",
    title="The package has digests",
    explanation="There is no digests.json, so that nobody can tell whether a file was damaged.",
    remedy="Any authoring command writes it.",
    severity=Severity.WARNING,
)
CHANGE_INTERRUPTED = Rule(
    id="ORT106",
    title="No change is unfinished",
    explanation=(
        "A command was interrupted. The package is valid as it is; it holds files that nothing refers to until the "
        "next authoring command has tidied up."
    ),
    remedy="Run the command again, or any other authoring command.",
    severity=Severity.WARNING,
)
MODEL_WRONG = Rule(
    id="ORT110",
    title="A variant's model can be opened",
    explanation="The model file is not ONNX, is truncated, or names a data file outside its folder.",
    remedy="Export the model again, and add it in place of this variant.",
)
DATA_FILE_WRONG = Rule(
    id="ORT111",
    title="A model's data files are in the package, plain and long enough",
    explanation="External data or a compiled context that the model names is missing, too short, or behind a link.",
    remedy="Put the file beside the model, as it was when the model was exported.",
)
VALUES_DIFFER = Rule(
    id="ORT112",
    title="Variants of a component have the same inputs and outputs",
    explanation=(
        "Inputs or outputs differ in name, order, rank or element type, so that a caller cannot know what to feed "
        "before a variant is selected."
    ),
    remedy="Export the models with the same inputs and outputs, or make two component models of them.",
)
FIXED_DIMENSIONS_DIFFER = Rule(
    id="ORT113",
    title="No two variants fix a dimension at different sizes",
    explanation="No feed suits both variants, so that a program may work on one machine and fail on another.",
    remedy="Leave the dimension symbolic in one of them, or fix both at the same size.",
    severity=Severity.WARNING,
)
OVERALL_VALUES_OUTDATED = Rule(
    id="ORT114",
    title="The manifest's inputs and outputs are those of the model",
    explanation="manifest.json states inputs or outputs that the package's only component model does not have.",
    remedy="Correct inputs and outputs in manifest.json, or leave them out.",
    severity=Severity.WARNING,
)
PIPELINE_VALUE_UNKNOWN = Rule(
    id="ORT115",
    title="A pipeline step uses inputs and outputs that its component model has",
    explanation="A step of pipeline.json feeds or takes a value that the component's models do not have.",
    remedy="Use the names of the model's inputs and outputs.",
)
NO_CPU_VARIANT = Rule(
    id="ORT120",
    title="A component model has a variant for every machine",
    explanation="No variant runs on a CPU, so that the package cannot be used without the device it was made for.",
    remedy="Add a variant for CPUExecutionProvider.",
    severity=Severity.WARNING,
)
GENAI_CONFIG_WRONG = Rule(
    id="ORT130",
    title="A GenAI variant's genai_config.json can be read",
    explanation="onnxruntime-genai loads a variant through its genai_config.json, which is missing or no JSON object.",
    remedy="Put the file there that the model builder wrote.",
)
GENAI_FILE_MISSING = Rule(
    id="ORT131",
    title="A GenAI variant has the files that its genai_config.json names",
    explanation="genai_config.json names a model file that is not in the variant's folder.",
    remedy="Add the file, or correct the name.",
)

AUTHORING_RULES: tuple[Rule, ...] = (
    FILE_CHANGED,
    FILE_LOST,
    FILE_UNREADABLE,
    FILE_NOT_RECORDED,
    NO_DIGESTS,
    CHANGE_INTERRUPTED,
    MODEL_WRONG,
    DATA_FILE_WRONG,
    VALUES_DIFFER,
    FIXED_DIMENSIONS_DIFFER,
    OVERALL_VALUES_OUTDATED,
    PIPELINE_VALUE_UNKNOWN,
    NO_CPU_VARIANT,
    GENAI_CONFIG_WRONG,
    GENAI_FILE_MISSING,
)
