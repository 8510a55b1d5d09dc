"""Session options of the EPContext design: keys, defaults, names of what is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.foundations.errors import InvalidSessionOptionError
from ortpkg.runtime.ep_context.ep_context_options import ep_context_options

MODEL = Path("/models/net.onnx")


@pytest.mark.requirement("E13", "E15", "E22")
def test_nothing_is_made_unless_asked_for_and_then_not_embedded() -> None:
    options = ep_context_options({}, MODEL)
    assert not options.enable
    assert not options.embed_mode
    assert not options.share
    assert options.external_initializers == options.node_name_prefix == ""


@pytest.mark.requirement("E14", "E26")
def test_default_names_come_from_the_source_model() -> None:
    options = ep_context_options({"ep.context_enable": "1"}, MODEL)
    assert options.output_path == Path("/models/net_ctx.onnx")
    assert options.binary_name("OpenVINOExecutionProvider") == "net_openvino.bin"
    assert options.model_folder == Path("/models")


@pytest.mark.requirement("E16", "E17", "E18", "E23", "E44")
def test_every_key_is_read() -> None:
    options = ep_context_options(
        {
            "ep.context_enable": "1",
            "ep.context_file_path": "/out/made.onnx",
            "ep.context_embed_mode": "1",
            "ep.context_node_name_prefix": "a_",
            "ep.context_model_external_initializers_file_name": "weights.bin",
            "ep.share_ep_contexts": "1",
            "ep.stop_share_ep_contexts": "1",
        },
        MODEL,
    )
    assert options.output_path == Path("/out/made.onnx")
    assert (options.embed_mode, options.share, options.stop_share) == (True, True, True)
    assert (options.node_name_prefix, options.external_initializers) == ("a_", "weights.bin")


@pytest.mark.requirement("E24")
def test_generation_from_memory_names_the_option_that_is_missing() -> None:
    with pytest.raises(InvalidSessionOptionError, match=r"set ep\.context_file_path") as caught:
        ep_context_options({"ep.context_enable": "1"}, None)
    assert caught.value.key == "ep.context_file_path"


@pytest.mark.requirement("E38")
def test_a_model_from_memory_lies_where_the_path_option_says() -> None:
    options = ep_context_options({"ep.context_file_path": "/models/net_ctx.onnx"}, None)
    assert options.model_folder == Path("/models")
    assert ep_context_options({}, None).model_folder is None


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"ep.context_enable": "yes"}, 'ep.context_enable is "0" or "1"'),
        ({"ep.context_model_external_initializers_file_name": "../w.bin"}, "name of a file beside"),
        (
            {"ep.context_enable": "1", "ep.context_file_path": "/models/net.onnx"},
            "is the source model itself",
        ),
        ({"ep.context_enable": "1", "ep.context_file_path": "/"}, "is a directory"),
    ],
)
def test_wrong_values_say_what_would_be_right(entries: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSessionOptionError, match=message):
        ep_context_options(entries, MODEL)
