"""The rules of ``validate`` that need more than the documents: models, files, what a variant is for, who reads it.

``ortpkg.package.rules`` has those below ORT100 and the form of a rule. ORT1xx: models and the files beside them;
ORT2xx: selection and options; ORT3xx: names; ORT4xx: digests; ORT5xx: pipelines and samples; ORT6xx:
onnxruntime-genai; ORT7xx: releases of onnxruntime. Ids never change meaning. What
checks them is in ``package_checks.py``.
"""

from __future__ import annotations

from ortpkg.errors import Severity
from ortpkg.package.rules import COMPONENT_KEYS, METADATA_KEYS, Rule

ONNXRUNTIME_1_27 = "onnxruntime-1.27"
ONNXRUNTIME_1_31 = "onnxruntime-1.31"
GENAI = "genai"
UNIVERSAL = "universal"

TARGETS: dict[str, str] = {
    ONNXRUNTIME_1_27: "onnxruntime 1.27, and 1.26 (the metadata generation; one component model, an EP other than CPU)",
    ONNXRUNTIME_1_31: "onnxruntime 1.31 (the component generation; 1.28 to 1.30 open a little more)",
    GENAI: "onnxruntime-genai (one component model, a genai_config.json in each variant)",
    UNIVERSAL: "all of onnxruntime 1.26 to 1.31 by one directory",
}
"""Reader → what it stands for. ``validate`` can be asked what one of these would do with a package."""

_RELEASES = (ONNXRUNTIME_1_27, ONNXRUNTIME_1_31)

# --- ORT1xx: models and the files beside them ------------------------------------------------------------------------

DATA_LEAVES = Rule(
    id="ORT101",
    title="External data stays in the model's folder",
    explanation=(
        "A tensor names a data file by an absolute path, by '..', by a backslash or a drive, or through a link that "
        "leads out of the package. Whoever loads such a model reads files of the machine that it runs on."
    ),
    remedy="put the data file beside the model, and name it by its relative path",
    example='external_data {location: "../../../etc/passwd"}',
)
DATA_NOT_PLAIN = Rule(
    id="ORT102",
    title="External data lies in regular files",
    explanation="onnxruntime refuses data that is reached through a symbolic link, and nobody reads pipes or folders.",
    remedy="replace the link by the file itself",
    example="weights.bin is a symbolic link to ../shared/weights.bin",
)
DATA_HARD_LINKED = Rule(
    id="ORT103",
    title="External data has one name",
    explanation=(
        "The file has several names (hard links). The onnx package refuses to load it, and archives and copies store "
        "it several times."
    ),
    remedy="share data by one folder with several models in it (ortpkg dedup), and copy the file here",
    example="ln models/m/a/weights.bin models/m/b/weights.bin",
    severity=Severity.WARNING,
)
DATA_MISSING = Rule(
    id="ORT104",
    title="External data is there",
    explanation="A tensor has its data in a file that the package does not have: the model cannot be loaded.",
    remedy="put the file beside the model, as it was when the model was exported",
    example='external_data {location: "weights.bin"}, and the folder holds model.onnx alone',
)
DATA_TOO_SHORT = Rule(
    id="ORT105",
    title="External data reaches as far as the model says",
    explanation="A tensor's offset and length end behind the end of its data file, which is truncated or another one.",
    remedy="restore the file, or export the model again",
    example="offset 4096 and length 4096 in a file of 6000 bytes",
)
DATA_RANGE = Rule(
    id="ORT106",
    title="The range of external data is well-formed and fits its tensor",
    explanation=(
        "Offset or length is no whole number below 2^63, or the length is not that of the tensor's type and shape: "
        "readers overflow, refuse the model, or compute with other bytes."
    ),
    remedy="export the model again",
    example='a float tensor of 4x4 with length "60", or offset "-8"',
)
DATA_OVERLAPS = Rule(
    id="ORT107",
    title="Tensors share their external data wholly or not at all",
    explanation="The ranges of two tensors overlap in part, which no exporter does on purpose.",
    remedy="export the model again",
    example="offset 0 and length 64 for one tensor, offset 32 and length 64 for the next",
    severity=Severity.WARNING,
)
MODEL_WRONG = Rule(
    id="ORT110",
    title="A variant's model can be opened",
    explanation="The model file is not ONNX, is truncated, or holds types or nesting that nothing reads.",
    remedy="export the model again, and add it in place of this variant",
    example="model.onnx is a text file that says that the real one was too large to be stored",
)
CONTEXT_LEAVES = Rule(
    id="ORT111",
    title="A compiled context stays in the model's folder",
    explanation=(
        "An EPContext node (embed_mode 0) names its context by a path that leads out of the folder. The execution "
        "provider would hand a file of the machine to its driver."
    ),
    remedy="put the context beside the model, and name it by its relative path",
    example='ep_cache_context = "../../context.bin"',
)
CONTEXT_MISSING = Rule(
    id="ORT112",
    title="A compiled context is there",
    explanation="An EPContext node keeps its context in a file that is missing, empty, or no regular file.",
    remedy="put the file beside the model, as it was when the model was compiled",
    example='ep_cache_context = "net_qnn.bin", and there is no such file',
)
CONTEXT_WITHOUT_MAIN = Rule(
    id="ORT113",
    title="EPContext nodes have a main context",
    explanation=(
        "Nodes with main_context 0 use the context of a main node, and the model has none of the same source. It loads "
        "only in one session group with the model that has it."
    ),
    remedy="compile the model again, or ship it beside the model with the main node and share the contexts",
    example="one EPContext node, main_context = 0",
    severity=Severity.WARNING,
)
CONTEXT_SOURCE = Rule(
    id="ORT114",
    title="A compiled model is offered to the execution provider that compiled it",
    explanation="The source of an EPContext node is another execution provider than the variant's: it will not load.",
    remedy="state the execution provider that compiled the model",
    example='source = "QNN" in a variant of OpenVINOExecutionProvider',
    severity=Severity.WARNING,
)
VALUES_DIFFER = Rule(
    id="ORT120",
    title="Variants of a component have the same inputs and outputs",
    explanation=(
        "Inputs or outputs differ in name, order, rank or element type, so that a caller cannot know what to feed "
        "before a variant is selected."
    ),
    remedy="export the models with the same inputs and outputs, or make two component models of them",
    example="tensor(float) x in one variant, tensor(float16) x in the other",
)
FIXED_DIMENSIONS_DIFFER = Rule(
    id="ORT121",
    title="No two variants fix a dimension at different sizes",
    explanation="No feed suits both variants, so that a program may work on one machine and fail on another.",
    remedy="leave the dimension symbolic in one of them, or fix both at the same size",
    example="x has the shape [1, 3, 224, 224] in one variant, [8, 3, 224, 224] in the other",
    severity=Severity.WARNING,
)
OVERALL_VALUES_OUTDATED = Rule(
    id="ORT122",
    title="The manifest's inputs and outputs are those of the models",
    explanation="manifest.json states inputs or outputs that the component models, wired by name, do not have.",
    remedy="correct inputs and outputs in manifest.json, or leave them out",
    example='{"inputs": [{"name": "image", ...}]}, and the model has the input "x"',
    severity=Severity.WARNING,
)

# --- ORT2xx: selection and options -----------------------------------------------------------------------------------

NO_CPU_VARIANT = Rule(
    id="ORT201",
    title="A component model has a variant for every machine",
    explanation="No variant runs on a CPU, so that the package cannot be used without the device it was made for.",
    remedy="add a variant for CPUExecutionProvider",
    example='the only variant has {"ep": "QNNExecutionProvider", "device": "npu"}',
    severity=Severity.WARNING,
)
SELECTION_TIE = Rule(
    id="ORT202",
    title="No two variants are for the same",
    explanation=(
        "Two variants have the same constraints. The first one is selected, by ortpkg and by onnxruntime from 1.28 on; "
        "in 1.26 and 1.27 it is unpredictable which one. The others are used by name, or where they were measured to "
        "be faster (policy measured)."
    ),
    remedy="order them by preference, or tell them apart by device or compatibility info",
    example='"fp32" and "int8" both have {"ep": "CUDAExecutionProvider", "device": "gpu"}',
    severity=Severity.WARNING,
)
CPU_DEVICE_STATED = Rule(
    id="ORT203",
    title="CPU variants leave the device out",
    explanation=(
        "onnxruntime 1.28 to 1.31 never select a variant of CPUExecutionProvider that states a device, not even cpu: "
        "that provider has no devices there."
    ),
    remedy='remove "device" from the variant in the component generation\'s keys',
    example='{"variants": {"cpu": {"ep": "CPUExecutionProvider", "device": "cpu"}}}',
    severity=Severity.WARNING,
    formats=COMPONENT_KEYS,
)
EP_NOT_STATED = Rule(
    id="ORT204",
    title="A variant names its execution provider",
    explanation="onnxruntime 1.28 to 1.31 never select a variant without ep: there is no variant for any provider.",
    remedy="name the execution provider that the variant is for",
    example='{"variants": {"gpu": {"device": "gpu"}}}',
    severity=Severity.WARNING,
    formats=COMPONENT_KEYS,
)
DEVICE_NEVER_MATCHES = Rule(
    id="ORT205",
    title="A device is one that the execution provider runs on",
    explanation="The execution provider is for another kind of device, so that the variant never matches.",
    remedy="correct ep or device",
    example='{"ep": "CUDAExecutionProvider", "device": "npu"}',
    severity=Severity.WARNING,
)
OPTION_DEVICE_CONFLICT = Rule(
    id="ORT206",
    title="Provider options and device agree",
    explanation="A provider option names other device types than the constraint, so that the variant never matches.",
    remedy="make the two agree",
    example='{"device": "npu"} and the provider option {"device_type": "GPU"}',
    severity=Severity.WARNING,
)
OPTION_NEEDS_TRUST = Rule(
    id="ORT210",
    title="Options work without trust",
    explanation=(
        "A session or provider option can reach beyond the package (write files, load libraries, read paths), or is "
        "not known to be harmless. Sessions of the variant are refused unless the user trusts the package."
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

# --- ORT3xx: names ---------------------------------------------------------------------------------------------------

FILE_NAME = Rule(
    id="ORT301",
    title="File names work on Linux, macOS and Windows",
    explanation="The package cannot be copied to, packed for or checked out on another operating system.",
    remedy="rename the file, and what refers to it",
    example="aux.txt, notes., a:b, a\\b",
)
NAMES_COLLIDE = Rule(
    id="ORT302",
    title="Names differ in more than case and composition",
    explanation=(
        "Windows and macOS take the two names for one (upper and lower case, composed and decomposed letters), so that "
        "one file overwrites the other, or one variant is found under the other's name."
    ),
    remedy="rename one of the two",
    example='the variants "CPU" and "cpu", the files é.bin in both Unicode forms',
)
PATH_LONG = Rule(
    id="ORT303",
    title="Paths leave room for where the package lies",
    explanation="Windows programs stop at 260 characters for a whole path, with the folder that the package lies in.",
    remedy="use shorter names",
    example="a path of more than 200 characters below the package's root",
    severity=Severity.WARNING,
)

# --- ORT4xx: digests -------------------------------------------------------------------------------------------------

FILE_CHANGED = Rule(
    id="ORT401",
    title="A file is as it was recorded",
    explanation="The file's SHA-256 is not the one in digests.json: it was damaged or edited since it was recorded.",
    remedy="restore the file (ortpkg verify --repair-from OTHER); if it was edited on purpose, ortpkg verify --record",
    example="a byte of model.onnx was flipped by a bad disk",
)
FILE_LOST = Rule(
    id="ORT402",
    title="A recorded file is there",
    explanation="digests.json records a file that is not in the package.",
    remedy="restore the file, or remove and add its variant again",
    example="models/m/v/weights.bin was deleted",
)
FILE_UNREADABLE = Rule(
    id="ORT403",
    title="A recorded file can be read",
    explanation="The file's bytes cannot be compared with digests.json: it cannot be read, or is not a regular file.",
    remedy="correct its permissions, or put a plain file there",
    example="model.onnx was replaced by a symbolic link",
)
FILE_NOT_RECORDED = Rule(
    id="ORT404",
    title="Every file is recorded",
    explanation="A file is not in digests.json, so that nobody will notice when it is damaged.",
    remedy="remove it, or record the package anew with ortpkg verify --record",
    example="notes.txt was put into the package by hand",
    severity=Severity.WARNING,
)
NO_DIGESTS = Rule(
    id="ORT405",
    title="The package has digests",
    explanation="There is no digests.json, so that nobody can tell whether a file was damaged.",
    remedy="ortpkg verify --record writes it, and so does any authoring command",
    example="a package as onnxruntime's own tools make it",
    severity=Severity.WARNING,
)
CHANGE_INTERRUPTED = Rule(
    id="ORT406",
    title="No change is unfinished",
    explanation=(
        "A command was interrupted. The package is valid as it is; it holds files that nothing refers to until the "
        "next authoring command has tidied up."
    ),
    remedy="run the command again, or any other authoring command",
    example="ortpkg add-variant was killed",
    severity=Severity.WARNING,
)

# --- ORT5xx: pipelines and samples -----------------------------------------------------------------------------------

PIPELINE_VALUE_UNKNOWN = Rule(
    id="ORT501",
    title="A pipeline step uses inputs and outputs that its component model has",
    explanation="A step of pipeline.json feeds or takes a value that the component's models do not have.",
    remedy="use the names of the model's inputs and outputs",
    example='{"component": "encoder", "inputs": {"idz": "prompt"}}, and the model has the input "ids"',
)
PIPELINE_INPUT_NOT_FED = Rule(
    id="ORT502",
    title="A pipeline step feeds every input of its component model",
    explanation="The component's model has an input that the step does not feed: the step cannot run.",
    remedy="feed the input from a value of the pipeline",
    example='{"inputs": {"ids": "prompt"}}, and the model has "ids" and "mask"',
)
PIPELINE_VALUE_MISFITS = Rule(
    id="ORT503",
    title="What flows between component models fits where it goes",
    explanation="A value has another element type, rank or fixed size than the input or output that it is wired to.",
    remedy="wire values of the same type and shape, or convert them in a model",
    example="an encoder gives tensor(float), and the decoder takes tensor(float16)",
)
SAMPLE_UNREADABLE = Rule(
    id="ORT510",
    title="A sample's files can be read",
    explanation="A file of arrays is no npz file, is too large, or holds pickled objects, which are never loaded.",
    remedy="write it with numpy.savez, from arrays of numbers or text",
    example="an npz file with an array of dtype object",
)
SAMPLE_NAMES = Rule(
    id="ORT511",
    title="A sample's arrays are named like the model's inputs and outputs",
    explanation="An input lacks its array, or an array, a tolerance or a display is for something that does not exist.",
    remedy="name the arrays like the model's inputs and outputs",
    example='inputs.npz holds "arr_0", the model has the input "image"',
)
SAMPLE_MISFITS = Rule(
    id="ORT512",
    title="A sample's arrays fit the model",
    explanation="An array has another type, rank or size than the model takes or gives, or the lengths differ.",
    remedy="store the arrays as they are fed; with batch_axis 0, as many of each as there are samples",
    example="float64 images for an input of tensor(float)",
)
SAMPLE_LABELS = Rule(
    id="ORT513",
    title="Labels fit the samples",
    explanation="The file of labels lacks the array that is named, has not one per sample, or has one for no class.",
    remedy="store one label per sample under the name that samples.json gives",
    example='{"labels": {"file": "labels.npz", "name": "label"}}, and the file holds "labels"',
)
SAMPLE_EXPECTS_NOTHING = Rule(
    id="ORT514",
    title="Samples come with expected outputs",
    explanation="Without expected outputs nobody can tell whether the package computes the right thing on a machine.",
    remedy="add expected_outputs, from the model as it was trained",
    example='{"name": "s", "inputs": "in.npz"}',
    severity=Severity.WARNING,
)

# --- ORT6xx: onnxruntime-genai ---------------------------------------------------------------------------------------

GENAI_CONFIG_WRONG = Rule(
    id="ORT601",
    title="A GenAI variant's genai_config.json can be read",
    explanation="onnxruntime-genai loads a variant through its genai_config.json, which is missing or no JSON object.",
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
        "onnxruntime-genai opens packages through onnxruntime 1.28 or newer, which reads schema_version and components "
        "only; and a genai_config.json in the root makes it take the folder for a single model."
    ),
    remedy="write the package with --format component or universal, and keep genai_config.json in the variants",
    example='{"model_name": "m", "component_models": ["model"]}',
    targets=(GENAI,),
)
GENAI_CONFIG_MISSING = Rule(
    id="ORT612",
    title="Every variant for onnxruntime-genai has a genai_config.json",
    explanation="onnxruntime-genai loads <variant's folder>/genai_config.json and nothing else of a package.",
    remedy="put a complete genai_config.json into the variant's folder",
    example="models/model/cpu/ holds model.onnx alone",
    targets=(GENAI,),
)
GENAI_OPTIONS_IGNORED = Rule(
    id="ORT613",
    title="Options for onnxruntime-genai stand in genai_config.json",
    explanation="onnxruntime-genai does not read executor_info.ort, and refuses runtime settings beside a package.",
    remedy="move the options into genai_config.json",
    example='{"executor_info": {"ort": {"session_options": {...}}}}',
    severity=Severity.WARNING,
    targets=(GENAI,),
)

# --- ORT7xx: releases of onnxruntime ---------------------------------------------------------------------------------

RELEASE_REFUSES = Rule(
    id="ORT701",
    title="The release opens the package",
    explanation="The release that was asked for refuses the whole package, whatever variant would suit the machine.",
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
    explanation="The model's IR version, or an operator set that it imports, is newer than the release knows.",
    remedy="export or convert the model for an older operator set (onnx.version_converter)",
    example='ir_version: 14, opset_import {domain: "" version: 28}',
    targets=(*_RELEASES, GENAI, UNIVERSAL),
)
SEVERAL_COMPONENTS = Rule(
    id="ORT704",
    title="A package for onnxruntime 1.26 and 1.27 has one component model",
    explanation=(
        "onnxruntime 1.26 and 1.27, for which such a package is written too, refuse one with several component models; "
        "ortpkg and, with the keys of the component generation, later releases open it."
    ),
    remedy=(
        "make a package of its own for each component model, or, where 1.26 and 1.27 do not matter, convert it with "
        "ortpkg convert --to component"
    ),
    example='{"schema_version": "1.1000", "component_models": ["encoder", "decoder"], "components": {...}}',
    severity=Severity.WARNING,
    formats=METADATA_KEYS,
)
UNIVERSAL_GENERATIONS = Rule(
    id="ORT710",
    title="A universal package has the keys of both generations",
    explanation="With the keys of one generation only, the releases that read the other one refuse the package.",
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

AUTHORING_RULES: tuple[Rule, ...] = (
    DATA_LEAVES,
    DATA_NOT_PLAIN,
    DATA_HARD_LINKED,
    DATA_MISSING,
    DATA_TOO_SHORT,
    DATA_RANGE,
    DATA_OVERLAPS,
    MODEL_WRONG,
    CONTEXT_LEAVES,
    CONTEXT_MISSING,
    CONTEXT_WITHOUT_MAIN,
    CONTEXT_SOURCE,
    VALUES_DIFFER,
    FIXED_DIMENSIONS_DIFFER,
    OVERALL_VALUES_OUTDATED,
    NO_CPU_VARIANT,
    SELECTION_TIE,
    CPU_DEVICE_STATED,
    EP_NOT_STATED,
    DEVICE_NEVER_MATCHES,
    OPTION_DEVICE_CONFLICT,
    OPTION_NEEDS_TRUST,
    OPTION_VALUE,
    FILE_NAME,
    NAMES_COLLIDE,
    PATH_LONG,
    FILE_CHANGED,
    FILE_LOST,
    FILE_UNREADABLE,
    FILE_NOT_RECORDED,
    NO_DIGESTS,
    CHANGE_INTERRUPTED,
    PIPELINE_VALUE_UNKNOWN,
    PIPELINE_INPUT_NOT_FED,
    PIPELINE_VALUE_MISFITS,
    SAMPLE_UNREADABLE,
    SAMPLE_NAMES,
    SAMPLE_MISFITS,
    SAMPLE_LABELS,
    SAMPLE_EXPECTS_NOTHING,
    GENAI_CONFIG_WRONG,
    GENAI_FILE_MISSING,
    GENAI_ONE_COMPONENT,
    GENAI_GENERATION,
    GENAI_CONFIG_MISSING,
    GENAI_OPTIONS_IGNORED,
    RELEASE_REFUSES,
    RELEASE_NEVER_SELECTS,
    RELEASE_MODEL_TOO_NEW,
    SEVERAL_COMPONENTS,
    UNIVERSAL_GENERATIONS,
    UNIVERSAL_ONE_COMPONENT,
)
