"""Rules ORT1xx: models, the files beside them, and agreement between variants of a component."""

from __future__ import annotations

from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.errors import Severity

DATA_LEAVES = Rule(
    id="ORT101",
    title="External data stays in the model's folder",
    explanation=(
        "A tensor names a data file by an absolute path, by '..', by a backslash or a drive, or"
        " through a link that leads out of the package. Whoever loads such a model reads files of"
        " the machine that it runs on."
    ),
    remedy="put the data file beside the model, and name it by its relative path",
    example='external_data {location: "../../../etc/passwd"}',
)
DATA_NOT_PLAIN = Rule(
    id="ORT102",
    title="External data lies in regular files",
    explanation=(
        "onnxruntime refuses data that is reached through a symbolic link, and nobody reads pipes"
        " or folders."
    ),
    remedy="replace the link by the file itself",
    example="weights.bin is a symbolic link to ../shared/weights.bin",
)
DATA_HARD_LINKED = Rule(
    id="ORT103",
    title="External data has one name",
    explanation=(
        "The file has several names (hard links). The onnx package refuses to load it, and archives"
        " and copies store it several times."
    ),
    remedy=(
        "share data by one folder with several models in it (ortpkg dedup), and copy the file here"
    ),
    example="ln models/m/a/weights.bin models/m/b/weights.bin",
    severity=Severity.WARNING,
)
DATA_MISSING = Rule(
    id="ORT104",
    title="External data is there",
    explanation=(
        "A tensor has its data in a file that the package does not have: the model cannot be"
        " loaded."
    ),
    remedy="put the file beside the model, as it was when the model was exported",
    example='external_data {location: "weights.bin"}, and the folder holds model.onnx alone',
)
DATA_TOO_SHORT = Rule(
    id="ORT105",
    title="External data reaches as far as the model says",
    explanation=(
        "A tensor's offset and length end behind the end of its data file, which is truncated or"
        " another one."
    ),
    remedy="restore the file, or export the model again",
    example="offset 4096 and length 4096 in a file of 6000 bytes",
)
DATA_RANGE = Rule(
    id="ORT106",
    title="The range of external data is well-formed and fits its tensor",
    explanation=(
        "Offset or length is no whole number below 2^63, or the length is not that of the tensor's"
        " type and shape: readers overflow, refuse the model, or compute with other bytes."
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
    explanation=(
        "The model file is not ONNX, is truncated, or holds types or nesting that nothing reads."
    ),
    remedy="export the model again, and add it in place of this variant",
    example="model.onnx is a text file that says that the real one was too large to be stored",
)
CONTEXT_LEAVES = Rule(
    id="ORT111",
    title="A compiled context stays in the model's folder",
    explanation=(
        "An EPContext node (embed_mode 0) names its context by a path that leads out of the folder."
        " The execution provider would hand a file of the machine to its driver."
    ),
    remedy="put the context beside the model, and name it by its relative path",
    example='ep_cache_context = "../../context.bin"',
)
CONTEXT_MISSING = Rule(
    id="ORT112",
    title="A compiled context is there",
    explanation=(
        "An EPContext node keeps its context in a file that is missing, empty, or no regular file."
    ),
    remedy="put the file beside the model, as it was when the model was compiled",
    example='ep_cache_context = "net_qnn.bin", and there is no such file',
)
CONTEXT_WITHOUT_MAIN = Rule(
    id="ORT113",
    title="EPContext nodes have a main context",
    explanation=(
        "Nodes with main_context 0 use the context of a main node, and the model has none of the"
        " same source. It loads only in one session group with the model that has it."
    ),
    remedy=(
        "compile the model again, or ship it beside the model with the main node and share the"
        " contexts"
    ),
    example="one EPContext node, main_context = 0",
    severity=Severity.WARNING,
)
CONTEXT_SOURCE = Rule(
    id="ORT114",
    title="A compiled model is offered to the execution provider that compiled it",
    explanation=(
        "The source of an EPContext node is another execution provider than the variant's: it will"
        " not load."
    ),
    remedy="state the execution provider that compiled the model",
    example='source = "QNN" in a variant of OpenVINOExecutionProvider',
    severity=Severity.WARNING,
)
OPERATOR_UNKNOWN = Rule(
    id="ORT115",
    title="The operators of a model are such that a known library has them",
    explanation=(
        "The model has an operator that is neither ONNX's, nor a function of the model, nor one"
        " that onnxruntime, OpenVINO or another known library brings. It runs only where a plug-in"
        " EP or a library of custom operators has it; everywhere else selection passes the variant"
        " over."
    ),
    remedy=(
        "name the execution provider that has it, define it as a function in the model, or add a"
        " variant without it for all other machines"
    ),
    example="a node of com.acme:Frobnicate in a variant of CPUExecutionProvider",
    severity=Severity.WARNING,
)
OPERATOR_UNDEFINED = Rule(
    id="ORT116",
    title="ONNX defines each of its operators in the opset that the model imports",
    explanation=(
        "The model uses an operator of ONNX's own domains that the opset which it imports does not"
        " have, because it is newer, was taken out, or is no operator of ONNX: onnxruntime and the"
        " embedded engine refuse it, only OpenVINO takes an operator by its name alone. Or it does"
        " not import the domain, so that each runtime takes the newest opset that it knows, if it"
        " takes any."
    ),
    remedy=(
        "export the model with an opset that has the operator, or correct the operator's name and"
        " domain"
    ),
    example="a node Gelu in a model that imports opset 17: ONNX has Gelu from opset 20 on",
)
OPERATOR_DEPRECATED = Rule(
    id="ORT117",
    title="No operator is one that the opset deprecates",
    explanation=(
        "The opset that the model imports has taken the operator out of use: onnxruntime refuses"
        " the model."
    ),
    remedy="export the model again, or with an older opset",
    example="a node Upsample in a model that imports opset 10: use Resize",
    severity=Severity.WARNING,
)
VALUES_DIFFER = Rule(
    id="ORT120",
    title="Variants of a component have the same inputs and outputs",
    explanation=(
        "Inputs or outputs differ in name, order, rank or element type, so that a caller cannot"
        " know what to feed before a variant is selected."
    ),
    remedy=(
        "export the models with the same inputs and outputs, or make two component models of them"
    ),
    example="tensor(float) x in one variant, tensor(float16) x in the other",
)
FIXED_DIMENSIONS_DIFFER = Rule(
    id="ORT121",
    title="No two variants fix a dimension at different sizes",
    explanation=(
        "No feed suits both variants, so that a program may work on one machine and fail on"
        " another."
    ),
    remedy="leave the dimension symbolic in one of them, or fix both at the same size",
    example="x has the shape [1, 3, 224, 224] in one variant, [8, 3, 224, 224] in the other",
    severity=Severity.WARNING,
)
OVERALL_VALUES_OUTDATED = Rule(
    id="ORT122",
    title="The manifest's inputs and outputs are those of the models",
    explanation=(
        "manifest.json states inputs or outputs that the component models, wired by name, do not"
        " have."
    ),
    remedy="correct inputs and outputs in manifest.json, or leave them out",
    example='{"inputs": [{"name": "image", ...}]}, and the model has the input "x"',
    severity=Severity.WARNING,
)
SOURCE_CHANGED = Rule(
    id="ORT123",
    title="A compiled variant is made of the model beside it",
    explanation=(
        "The variant records the digests of the model that it was made of, and the variant of that"
        " name has another model by now. It would answer with the old weights."
    ),
    remedy="make it anew with ortpkg compile --renew",
    example='"cpu-fp32-llvm" was compiled of "cpu-fp32", whose model was replaced since',
)
CONTEXT_WEIGHTS = Rule(
    id="ORT124",
    title="Contexts without weights have them beside them",
    explanation=(
        "The contexts leave out weights, which the execution provider takes from the model that was"
        " compiled or from its data files (weightless_mode in the model's metadata, or the index of"
        " a container). Without them no session is made."
    ),
    remedy=(
        "put the model that was compiled, with its data files, beside the compiled one, or state"
        " where it lies by the session option ep.context_source_model_path"
    ),
    example='weightless_mode = "2", onnx_model_filename = "net.onnx", and there is no such file',
)
BOUND_TO_ONE_CPU = Rule(
    id="ORT125",
    title="No model is bound to the CPU that optimized it",
    explanation=(
        "onnxruntime's highest level of optimization lays weights out for the vectors of the CPU at"
        " hand (the domain com.microsoft.nchwc). Elsewhere the file does not run, or runs slowly."
    ),
    remedy=(
        "optimize up to ORT_ENABLE_EXTENDED when the file is written, and leave the highest level"
        " to the sessions that run it"
    ),
    example="a node com.microsoft.nchwc:Conv, in a file of SessionOptions.optimized_model_filepath",
    severity=Severity.WARNING,
)
ATTRIBUTE_UNDEFINED = Rule(
    id="ORT126",
    title="ONNX defines each attribute of its operators in the opset that the model imports",
    explanation=(
        "A node has an attribute that its operator does not have in the opset which the model"
        " imports, mostly since a later opset added or an earlier one removed it: onnxruntime"
        " refuses the model, and other runtimes may compute something else."
    ),
    remedy="export the model with an opset whose operator has the attribute, or take it away",
    example="DequantizeLinear with axis in a model that imports opset 10: it has axis from 13 on",
    severity=Severity.WARNING,
)
CONTEXT_MAKER_REMOVED = Rule(
    id="ORT127",
    title="The execution provider that compiled a model still exists",
    explanation=(
        "An EPContext node holds code of an execution provider that ortpkg no longer has. No"
        " session runs the model."
    ),
    remedy="compile the plain variant again, with --ep llvm, and remove this one",
    example='source = "PrepackExecutionProvider"',
)
