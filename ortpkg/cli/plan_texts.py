"""``ortpkg plan --ir``: shows the stages of compiled partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ortpkg.cli.rendering import Output
from ortpkg.compiler.machine_code.compilation_stages import (
    KEEP_TEXT_ENTRY,
    KERNEL_STAGES,
    SHOWN_STAGES,
    Stage,
    StageTexts,
)
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean

if TYPE_CHECKING:
    from ortpkg.runtime.session.inference_session import InferenceSession
    from ortpkg.runtime.session.options import SessionOptions

#: Default of the lines that are shown of each stage.
DEFAULT_LINES = 200
_HEADINGS = {
    Stage.TENSOR: "tensor IR, as nodes are lowered",
    Stage.FUSED: "tensor IR after fusion",
    Stage.BLOCKED: "tensor IR in the layouts that are compiled",
    Stage.KERNELS: "kernels, in the loop IR",
    Stage.LLVM: "kernels, in LLVM IR",
    Stage.ASSEMBLY: "kernels, in instructions of the CPU",
    Stage.STEPS: "program",
}


class TextWishes(NamedTuple):
    """Options of the texts to show: stages, kernel, and lines of each stage."""

    stages: tuple[Stage, ...]
    kernel: str | None
    most_lines: int


def text_wishes(
    *, is_wished: bool, stages: Sequence[str], kernel: str | None, most_lines: int
) -> TextWishes | None:
    """Return what the options request, or None if they request no texts.

    Raises:
        UsageError: There is no such stage.
    """
    if not (is_wished or stages or kernel):
        return None
    for text in stages:
        if text not in tuple(Stage):
            raise UsageError(
                f"there is no stage {quoted(text)}{did_you_mean(text, tuple(Stage))};"
                f" stages are {', '.join(Stage)}"
            )
    named = tuple(stage for stage in Stage if stage in stages)
    default = SHOWN_STAGES if kernel is None else (Stage.KERNELS,)
    return TextWishes(stages=named or default, kernel=kernel, most_lines=most_lines)


def keep_texts(options: SessionOptions) -> None:
    """Make a session keep what is needed to show its compiled partitions."""
    options.add_session_config_entry(KEEP_TEXT_ENTRY, "1")


def texts_of(session: InferenceSession, wishes: TextWishes) -> Mapping[str, StageTexts]:
    """Return the texts by fused node.

    Raises:
        UsageError: No partition has any, or none has the kernel.
    """
    texts_by_node = session.get_compiled_texts(wishes.stages, wishes.kernel)
    if not texts_by_node:
        from ortpkg.runtime.engine.node_refusals import refusal_summary  # with the engine

        why = refusal_summary(session.get_plan().partitions)
        hint = "take --ep llvm, and see whom the plan without --ir gives the nodes to"
        raise UsageError(f"--ir: no partition was compiled to machine code here; {why or hint}")
    stages = [stage for stage in KERNEL_STAGES if stage in wishes.stages]
    if wishes.kernel is not None and not any(
        texts.get(stage) for texts in texts_by_node.values() for stage in stages
    ):
        kernel_texts = session.get_compiled_texts((Stage.KERNELS,))
        names = [name for texts in kernel_texts.values() for name in texts.get(Stage.KERNELS, ())]
        raise UsageError(
            f"--kernel: there is no kernel {quoted(wishes.kernel)}"
            f"{did_you_mean(wishes.kernel, names)}; the steps (--stage steps) name them"
        )
    return texts_by_node


def print_texts(texts: Mapping[str, StageTexts], wishes: TextWishes, output: Output) -> None:
    """Print each stage's texts up to the limit of lines, and how much is left out."""
    for fused_node, stages in texts.items():
        for stage, by_name in stages.items():
            output.line(f"{fused_node}: {_HEADINGS[stage]}", style="bold")
            shown = [*_shown(by_name, wishes.most_lines)]
            for _, text, _ in shown:
                if text:
                    output.line(text)
            left_out = sum(count for *_, count in shown)
            if left_out:
                output.note(
                    f"{left_out} more lines of {stage} of {fused_node} are left out; --lines shows"
                    " more, --kernel one kernel"
                )


def texts_json(texts: Mapping[str, StageTexts], wishes: TextWishes) -> list[dict[str, Any]]:
    """Return the texts as JSON."""
    return [
        {
            "fused_node": fused_node,
            "stage": stage,
            "texts": [
                {"name": name, "text": text, "left_out_lines": left_out}
                for name, text, left_out in _shown(by_name, wishes.most_lines)
            ],
        }
        for fused_node, stages in texts.items()
        for stage, by_name in stages.items()
    ]


def _shown(by_name: Mapping[str, str], most_lines: int) -> Iterator[tuple[str, str, int]]:
    """Yield each name with the shown lines of its text, and the number of further lines."""
    room = most_lines
    for name, text in by_name.items():
        lines = text.splitlines()
        yield name, "\n".join(lines[:room]), len(lines[room:])
        room -= min(room, len(lines))
