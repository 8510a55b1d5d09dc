"""Rules ORT501 to ORT503: pipelines."""

from __future__ import annotations

from ortpkg.foundations.documents.document_rules import Rule

PIPELINE_VALUE_UNKNOWN = Rule(
    id="ORT501",
    title="A pipeline step uses inputs and outputs that its component model has",
    explanation=(
        "A step of pipeline.json feeds or takes a value that the component's models do not have."
    ),
    remedy="use the names of the model's inputs and outputs",
    example=(
        '{"component": "encoder", "inputs": {"idz": "prompt"}}, and the model has the input "ids"'
    ),
)
PIPELINE_INPUT_NOT_FED = Rule(
    id="ORT502",
    title="A pipeline step feeds every input of its component model",
    explanation=(
        "The component's model has an input that the step does not feed: the step cannot run."
    ),
    remedy="feed the input from a value of the pipeline",
    example='{"inputs": {"ids": "prompt"}}, and the model has "ids" and "mask"',
)
PIPELINE_VALUE_MISFITS = Rule(
    id="ORT503",
    title="What flows between component models fits where it goes",
    explanation=(
        "A value has another element type, rank or fixed size than the input or output that it is"
        " wired to."
    ),
    remedy="wire values of the same type and shape, or convert them in a model",
    example="an encoder gives tensor(float), and the decoder takes tensor(float16)",
)
