"""Rules ORT510 to ORT514: samples."""

from __future__ import annotations

from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.errors import Severity

SAMPLE_UNREADABLE = Rule(
    id="ORT510",
    title="A sample's files can be read",
    explanation=(
        "A file of arrays is no npz file, is too large, or holds pickled objects, which are never"
        " loaded."
    ),
    remedy="write it with numpy.savez, from arrays of numbers or text",
    example="an npz file with an array of dtype object",
)
SAMPLE_NAMES = Rule(
    id="ORT511",
    title="A sample's arrays are named like the model's inputs and outputs",
    explanation=(
        "An input lacks its array, or an array, a tolerance, a task or a display is for"
        " something that does not exist."
    ),
    remedy="name the arrays like the model's inputs and outputs",
    example='inputs.npz holds "arr_0", the model has the input "image"',
)
SAMPLE_MISFITS = Rule(
    id="ORT512",
    title="A sample's arrays fit the model",
    explanation=(
        "An array has another type, rank or size than the model takes or gives, the lengths"
        " differ, or an output has no answers that its task could compare."
    ),
    remedy=(
        "store the arrays as they are fed; with batch_axis 0, as many of each as there are samples"
    ),
    example="float64 images for an input of tensor(float)",
)
SAMPLE_LABELS = Rule(
    id="ORT513",
    title="Labels fit the samples",
    explanation=(
        "The file of labels lacks the array that is named, has not one per sample, or has one for"
        " no class."
    ),
    remedy="store one label per sample under the name that samples.json gives",
    example='{"labels": {"file": "labels.npz", "name": "label"}}, and the file holds "labels"',
)
SAMPLE_EXPECTS_NOTHING = Rule(
    id="ORT514",
    title="Samples come with expected outputs",
    explanation=(
        "Without expected outputs nobody can tell whether the package computes the right thing on a"
        " machine."
    ),
    remedy="add expected_outputs, from the model as it was trained",
    example='{"name": "s", "inputs": "in.npz"}',
    severity=Severity.WARNING,
)
