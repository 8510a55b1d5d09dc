"""Rules for a package's documents: stable id, title, explanation, and the usual remedy.

Ids never change meaning and are never reused: users write them into scripts and suppressions.
``docs/rules.md`` is generated from this table. ORT001 to ORT099 belong to the package layer; layers
above have their own ranges.
"""

from __future__ import annotations

from ortpkg.foundations.documents import document_rules
from ortpkg.foundations.documents.document_rules import Rule, rules_among
from ortpkg.foundations.errors import Severity

#: Formats with the keys of the metadata generation, and of the component generation.
METADATA_FORMATS = ("metadata", "universal")
COMPONENT_FORMATS = ("component", "universal")

SCHEMA_VERSION = Rule(
    id="ORT006",
    title="The format's major version is known",
    explanation=(
        "The package was written for a newer major version of its format, which may change any"
        " meaning."
    ),
    remedy="update ortpkg",
    example='{"schema_version": "2.0", "components": {}}',
)
PATH_NOT_PORTABLE = Rule(
    id="ORT008",
    title="A path is relative, plain and portable",
    explanation=(
        "A path that a package names is absolute, contains '..', or means something else on another"
        " operating system."
    ),
    remedy="use a relative path with '/' between names that every operating system allows",
    example='{"model_file": "..\\\\..\\\\model.onnx"}',
)
PATH_ESCAPES = Rule(
    id="ORT009",
    title="A path stays inside the package",
    explanation=(
        "A symbolic link leads out of the package, so that opening it would read files of the"
        " machine."
    ),
    remedy="replace the link by the file itself",
    example="models/m/v/model.onnx is a symbolic link to /home/me/model.onnx",
)
FILE_MISSING = Rule(
    id="ORT010",
    title="A file that the package names exists",
    explanation="A document names a file or directory that is not in the package.",
    remedy="add the file, or correct the name",
    example='{"model_file": "model.onnx"}, and the folder holds net.onnx',
)
PATH_EMPTY = Rule(
    id="ORT011",
    title="A path is not empty",
    explanation=(
        "A document names a file or directory by an empty text, which some readers take for the"
        " folder itself."
    ),
    remedy="write the path, or leave the key out",
    example='{"executor_info": {"ort": {"model_file": ""}}}',
)
DUPLICATE_COMPONENT = Rule(
    id="ORT020",
    title="A component model is listed once",
    explanation="The manifest lists one component model twice.",
    remedy="remove one of the two",
    example='{"component_models": ["encoder", "encoder"]}',
    formats=METADATA_FORMATS,
)
COMPONENT_NOT_FOUND = Rule(
    id="ORT021",
    title="A listed component model exists",
    explanation=(
        "The manifest lists a component model that has neither a metadata.json nor variants in the"
        " manifest."
    ),
    remedy="add models/<component>/metadata.json, or take the component out of the manifest",
    example='{"component_models": ["encoder"]}, and there is no models/encoder/metadata.json',
    formats=METADATA_FORMATS,
)
COMPONENT_WITHOUT_VARIANTS = Rule(
    id="ORT022",
    title="A component model has variants",
    explanation=(
        "A component model without variants cannot be run; onnxruntime refuses to open such a"
        " package."
    ),
    remedy="add a variant, or remove the component",
    severity=Severity.WARNING,
    example='{"model_variants": {}}',
)
PACKAGE_WITHOUT_COMPONENTS = Rule(
    id="ORT023",
    title="A package has component models",
    explanation="A package without component models cannot be run; onnxruntime refuses to open it.",
    remedy="add a variant: this creates its component model",
    severity=Severity.WARNING,
    example='{"model_name": "m", "component_models": []}',
)
COMPONENT_NAME_DIFFERS = Rule(
    id="ORT024",
    title="component_model_name is the folder's name",
    explanation=(
        "metadata.json calls the component otherwise than its folder. The folder's name counts."
    ),
    remedy="make the two equal",
    severity=Severity.WARNING,
    example='models/encoder/metadata.json: {"component_model_name": "decoder"}',
)
NO_MODEL_FILE = Rule(
    id="ORT030",
    title="A variant has a model",
    explanation=(
        "A variant names no model file, and its folder holds no ONNX file and no genai_config.json."
    ),
    remedy="add the model file, or name it in model_file",
    example='{"model_variants": {"cpu": {}}}, and models/m/cpu/ is empty',
    formats=METADATA_FORMATS,
)
AMBIGUOUS_MODEL_FILE = Rule(
    id="ORT031",
    title="A variant's model is unambiguous",
    explanation="A variant names no model file, and its folder holds several ONNX files.",
    remedy="name one of them in model_file",
    example='{"model_variants": {"cpu": {}}}, and models/m/cpu/ holds a.onnx and b.onnx',
    formats=METADATA_FORMATS,
)
UNKNOWN_EP = Rule(
    id="ORT032",
    title="An execution provider's name is a known one",
    explanation=(
        "constraints.ep is not a name that ONNX Runtime uses. A plug-in may bring it; without one,"
        " the variant is never selected. Names are compared exactly."
    ),
    remedy="use ONNX Runtime's full name, e.g. CPUExecutionProvider",
    severity=Severity.WARNING,
    example='{"constraints": {"ep": "cuda"}}',
)
UNKNOWN_DEVICE = Rule(
    id="ORT033",
    title="A device is cpu, gpu or npu",
    explanation=(
        "constraints.device is none of the three device types, so that the variant never matches a"
        " device."
    ),
    remedy='use "cpu", "gpu" or "npu"',
    severity=Severity.WARNING,
    example='{"constraints": {"device": "tpu"}}',
)
STEP_COMPONENT = Rule(
    id="ORT040",
    title="A pipeline step names a component model of the package",
    explanation="A step of pipeline.json runs a component model that the package does not have.",
    remedy="correct the name, or add the component",
    example='{"component": "encodr", "inputs": {}, "outputs": {}}',
)
STEP_SHAPE = Rule(
    id="ORT041",
    title="A pipeline step is a component or a repeat",
    explanation="A step of pipeline.json is both, or neither.",
    remedy="split it into two steps",
    example='{"component": "encoder", "repeat": {"times": 2, "steps": []}}',
)
VALUE_NOT_AVAILABLE = Rule(
    id="ORT042",
    title="A pipeline value is made before it is used",
    explanation=(
        "Nothing before makes a value that a step, a loop or an output of the pipeline uses."
    ),
    remedy="use an input of the pipeline or an output of an earlier step",
    example=(
        '{"component": "decoder", "inputs": {"h": "state"}}, and no step before it makes "state"'
    ),
)
VALUE_MADE_TWICE = Rule(
    id="ORT043",
    title="A pipeline value is made once",
    explanation=(
        "Two places of pipeline.json make a value of the same name, so that its uses are ambiguous."
    ),
    remedy="rename one of the two",
    example='two steps have the outputs {"y": "state"}',
)
REPEAT_TOO_DEEP = Rule(
    id="ORT044",
    title="Loops are nested at most eight deep",
    explanation="A pipeline nests its loops deeper than the reader allows.",
    remedy="flatten the loops",
    example="nine loops inside each other",
)
COMPONENT_UNUSED = Rule(
    id="ORT045",
    title="Every component model is part of the pipeline",
    explanation="No step of pipeline.json runs a component model of the package.",
    remedy="add a step for it, or remove the component",
    severity=Severity.WARNING,
    example='pipeline.json runs "encoder"; the package has "encoder" and "decoder"',
)
OVERALL_VALUES_DIFFER = Rule(
    id="ORT046",
    title="manifest.json and pipeline.json agree about inputs and outputs",
    explanation=(
        "Both state the package's overall inputs or outputs, and differ. The pipeline is what runs."
    ),
    remedy="state them in one place, or make them equal",
    severity=Severity.WARNING,
    example='manifest.json has the input "image", pipeline.json has "picture"',
)
SAMPLE_COMPONENT = Rule(
    id="ORT050",
    title="A sample set belongs to a component model or the pipeline",
    explanation=(
        "A sample set names a component model that the package does not have, or names none though"
        " the package has several and no pipeline."
    ),
    remedy="name one of the package's component models",
    example='{"name": "s", "component": "encodr", "inputs": "in.npz"}',
)
DUPLICATE_SAMPLE = Rule(
    id="ORT051",
    title="A sample set's name is unique",
    explanation="Two sample sets have the same name.",
    remedy="rename one of the two",
    example='{"samples": [{"name": "s", ...}, {"name": "s", ...}]}',
)
SAMPLE_VARIANT = Rule(
    id="ORT052",
    title="A sample set's variants exist",
    explanation=(
        "Tolerances are given for a variant that the component model does not have; they have no"
        " effect."
    ),
    remedy="correct the name, or remove the entry",
    severity=Severity.WARNING,
    example='{"variants": {"no-such-variant": {"tolerances": {}}}}',
)
SAMPLE_DISPLAY = Rule(
    id="ORT053",
    title="Text output has a vocabulary",
    explanation=(
        "A sample set shows its output as text, which needs a vocabulary to turn numbers into"
        " words."
    ),
    remedy="name a vocabulary file",
    example='{"display": {"output": "ids", "as": "text"}}',
)
ROOT_IS_ALSO_COMPONENT = Rule(
    id="ORT060",
    title="A package's root is not a component model too",
    explanation=(
        "The root has both manifest.json and metadata.json. onnxruntime 1.26 and 1.27 then read"
        " metadata.json alone, so that the package means different things to different readers."
    ),
    remedy="move metadata.json to models/<component>/, or remove manifest.json",
    example="manifest.json and metadata.json side by side in the root",
    formats=METADATA_FORMATS,
)
VARIANT_LISTS_DIFFER = Rule(
    id="ORT061",
    title="Both generations' lists of variants agree",
    explanation=(
        "A universal package lists its variants twice: for onnxruntime 1.26 and 1.27"
        " (model_variants) and for 1.28 on (variants). Where the two differ, what runs depends on"
        " who reads. Only device may differ, and only on the CPU: onnxruntime 1.28 to 1.31 never"
        " select a CPU variant that states it."
    ),
    remedy="make the two lists equal",
    example='model_variants has "cpu" and "gpu", variants has "cpu" alone',
    formats=("universal",),
)
UNKNOWN_KEY = Rule(
    id="ORT062",
    title="Every key is known",
    explanation=(
        "In a package of the newest minor version that is known, a key that the format does not"
        " have is an error to onnxruntime, at the level of the manifest, a component and a variant."
    ),
    remedy=(
        "remove the key, move it into additional_metadata, or state a newer schema_version such as"
        " 1.1000"
    ),
    example='{"schema_version": "1.0", "components": {}, "licence": "MIT"}',
    formats=COMPONENT_FORMATS,
)
VARIANT_DIRECTORY_MISSING = Rule(
    id="ORT063",
    title="A variant's folder exists",
    explanation=(
        "A variant names no variant_directory, and there is no folder of its name. onnxruntime"
        " opens such a package and looks for the variant's files in the package's root."
    ),
    remedy="add the folder, or name it in variant_directory",
    example='{"variants": {"cpu": {}}}, and there is no folder cpu/',
    formats=COMPONENT_FORMATS,
)
ASSET_UNKNOWN = Rule(
    id="ORT064",
    title="A referenced shared asset is part of the package",
    explanation=(
        "A reference names a shared asset that is neither in shared_assets/ nor listed in the"
        " manifest."
    ),
    remedy="add the folder shared_assets/sha256-<hex>, or correct the digest",
    example=(
        '{"model_file": "sha256:<hex>/model.onnx"}, and there is no shared_assets/sha256-<hex>/'
    ),
    formats=COMPONENT_FORMATS,
)
ASSET_REFERENCE = Rule(
    id="ORT065",
    title="A shared asset is named by sha256: and 64 lower-case hex digits",
    explanation=(
        "A text that begins like a reference to a shared asset, but is none, is taken for a file"
        " name."
    ),
    remedy="write sha256:<64 lower-case hex digits>, optionally followed by / and a path",
    example='{"model_file": "sha256:ABCDEF/model.onnx"}',
    formats=COMPONENT_FORMATS,
)
EXECUTOR_INFO = Rule(
    id="ORT066",
    title="executor_info.ort is what onnxruntime reads",
    explanation=(
        "executor_info.ort is not an object, its model_file is not a text, or its options are not"
        " texts under keys without a NUL. onnxruntime then refuses the whole package, even where"
        " another variant is selected."
    ),
    remedy="write model_file as a text and options as an object of texts",
    example=(
        '{"ort": {"model_file": "m.onnx", "session_options": {"session.intra_op_num_threads": 4}}}'
    ),
    formats=COMPONENT_FORMATS,
)
SESSION_OPTION_FORBIDDEN = Rule(
    id="ORT067",
    title="A package does not set session options that write files",
    explanation=(
        "onnxruntime 1.31 refuses to open a package that sets one of these; 1.28 to 1.30 would"
        " write files where the package says."
    ),
    remedy="remove the option; a program can set it for itself",
    example='{"session_options": {"session.enable_profiling": "1"}}',
    formats=COMPONENT_FORMATS,
)
MODEL_NOT_NAMED = Rule(
    id="ORT068",
    title="A variant names its model",
    explanation=(
        "A variant of the component generation names no model in executor_info.ort, and its folder"
        " has no genai_config.json. It can be selected, but not run: onnxruntime does not look for"
        " a model there."
    ),
    remedy="add executor_info.ort.model_file",
    severity=Severity.WARNING,
    example='{"variants": {"cpu": {"ep": "CPUExecutionProvider"}}}',
    formats=COMPONENT_FORMATS,
)
FORM_OF_OLIVE = Rule(
    id="ORT069",
    title="The documents have a form that onnxruntime reads",
    explanation=(
        "manifest.json lists its components by name, as Olive 0.13 writes it. No release of"
        " onnxruntime opens that, and no published onnxruntime-genai; ortpkg reads it."
    ),
    remedy="ortpkg convert --to component, or universal, writes a form that both read",
    severity=Severity.WARNING,
    example='{"schema_version": 1, "components": ["decoder"], "configs_dir": "configs"}',
    formats=COMPONENT_FORMATS,
)

PACKAGE_RULES: tuple[Rule, ...] = rules_among({**vars(document_rules), **globals()})
