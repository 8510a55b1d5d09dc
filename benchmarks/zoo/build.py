"""Builds the zoo: models of many kinds with random weights from fixed seeds, and inputs for each.

    pip install -e '.[zoo]'
    python -m benchmarks.zoo.build DIRECTORY [NAME ...]

Writes ``NAME.onnx`` (weights beside it, in ``NAME.onnx.data``, where they are large) and
``NAME.npz`` with inputs. ``benchmarks.zoo.compare`` runs them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from benchmarks.zoo.light_models import LIGHT_MODELS, real_light_model
from benchmarks.zoo.torch_models import Recurrent, UNet, mlp, mobilenet_v2

SEED = 20
OPSET = 18
Arrays = Mapping[str, np.ndarray[Any, Any]]


def no_arrays() -> Arrays:
    """Inputs are found once the model is built."""
    return {}


def image(*shape: int) -> Arrays:
    return {"input": np.random.default_rng(SEED).standard_normal(shape).astype(np.float32)}


def tokens(count: int = 128, *, with_mask: bool = True, vocabulary: int = 30_000) -> Arrays:
    ids = np.random.default_rng(SEED).integers(0, vocabulary, (1, count))
    return {"input_ids": ids, **({"attention_mask": np.ones_like(ids)} if with_mask else {})}


def export(
    module: nn.Module,
    feeds: Arrays,
    path: Path,
    *,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
) -> None:
    """Exports with torch's own exporter; ``dynamic`` names dimensions that stay symbolic."""
    module.eval()
    arguments = tuple(torch.from_numpy(array) for array in feeds.values())
    shapes = values = None
    if dynamic is not None:
        sizes = {
            name: torch.export.Dim(name, min=2, max=512)
            for axes in dynamic.values()
            for name in axes.values()
        }
        shapes = {
            name: {axis: sizes[size] for axis, size in dynamic.get(name, {}).items()}
            for name in feeds
        }
        values = tuple(shapes.values())
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(
            module,
            arguments,
            path,
            input_names=list(feeds),
            opset_version=OPSET,
            dynamo=True,
            external_data=True,
            # these take their inputs as one *inputs
            dynamic_shapes=None
            if shapes is None
            else ((values,) if isinstance(module, Hidden | CachedGPT2) else values),
        )


class Hidden(nn.Module):  # type: ignore[misc]
    """A transformers model that returns its last hidden state (or logits) alone."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        found = self.model(**dict(zip(self.names, inputs, strict=True)), return_dict=True)
        result: torch.Tensor = found.logits if hasattr(found, "logits") else found.last_hidden_state
        return result


def transformer(kind: str, *, attention: str = "eager", **changes: Any) -> nn.Module:
    """A model of the transformers library in its default (base) size."""
    import transformers

    config = getattr(transformers, f"{kind}Config")(**changes)
    config._attn_implementation = attention
    model: nn.Module = getattr(transformers, f"{kind}Model")(config)
    return model


def build_bert(path: Path, feeds: Arrays) -> None:
    export(Hidden(transformer("Bert"), list(feeds)), feeds, path)


def build_bert_dynamic(path: Path, feeds: Arrays) -> None:
    axes = {name: {1: "sequence"} for name in feeds}
    export(Hidden(transformer("Bert"), list(feeds)), feeds, path, dynamic=axes)


def build_distilbert(path: Path, feeds: Arrays) -> None:
    export(Hidden(transformer("DistilBert"), list(feeds)), feeds, path)


def build_gpt2(path: Path, feeds: Arrays) -> None:
    export(Hidden(transformer("GPT2", use_cache=False), list(feeds)), feeds, path)


class CachedGPT2(nn.Module):  # type: ignore[misc]
    """GPT-2 with its head: ids, and keys and values of each layer, to logits and longer caches."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from transformers.cache_utils import DynamicCache

        ids, *past = inputs
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        made = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
        kept = made.past_key_values.layers
        return (made.logits, *(each for layer in kept for each in (layer.keys, layer.values)))


def caches(length: int, *, layers: int = 12, heads: int = 12, width: int = 64) -> Arrays:
    """One token, and the keys and values of those before."""
    generator = np.random.default_rng(SEED)
    shape = (1, heads, length, width)
    names = [f"past_{part}_{layer}" for layer in range(layers) for part in ("key", "value")]
    feeds: dict[str, np.ndarray[Any, Any]] = {"input_ids": generator.integers(0, 50_000, (1, 1))}
    return feeds | {name: generator.standard_normal(shape).astype(np.float32) for name in names}


def build_gpt2_decode(path: Path, feeds: Arrays) -> None:
    import transformers

    config = transformers.GPT2Config()
    config._attn_implementation = "eager"
    axes = {name: {2: "past"} for name in feeds if name.startswith("past_")}
    export(CachedGPT2(transformers.GPT2LMHeadModel(config)), feeds, path, dynamic=axes)


def build_vit(path: Path, feeds: Arrays) -> None:
    export(Hidden(transformer("ViT"), ["pixel_values"]), feeds, path)


def build_whisper(path: Path, feeds: Arrays) -> None:
    import transformers

    config = transformers.WhisperConfig()
    config._attn_implementation = "eager"
    encoder = transformers.WhisperModel(config).get_encoder()
    export(Hidden(encoder, ["input_features"]), feeds, path)


def plain(
    make: Callable[[], nn.Module], **dynamic: Mapping[int, str]
) -> Callable[[Path, Arrays], None]:
    def build(path: Path, feeds: Arrays) -> None:
        export(make(), feeds, path, dynamic=dynamic or None)

    return build


def light(name: str) -> Callable[[Path, Arrays], None]:
    def build(path: Path, _feeds: Arrays) -> None:
        onnx.save(
            real_light_model(name, seed=SEED),
            path,
            save_as_external_data=True,
            location=f"{path.name}.data",
        )

    return build


def quantized(source: str, *, dynamic: bool) -> Callable[[Path, Arrays], None]:
    """int8 of an earlier model: QDQ, calibrated on random inputs, or dynamic."""

    def build(path: Path, _feeds: Arrays) -> None:
        from benchmarks.zoo.quantize import quantize_dynamic, quantize_qdq

        model = path.with_name(f"{source}.onnx")
        with np.load(path.with_name(f"{source}.npz")) as feeds:
            arrays = dict(feeds)
        (quantize_dynamic if dynamic else quantize_qdq)(model, path, arrays)

    return build


def half(source: str) -> Callable[[Path, Arrays], None]:
    def build(path: Path, _feeds: Arrays) -> None:
        from benchmarks.zoo.quantize import to_float16

        to_float16(path.with_name(f"{source}.onnx"), path)

    return build


#: Name → (inputs, how it is built). Later ones may build on earlier ones.
ZOO: dict[str, tuple[Callable[[], Arrays], Callable[[Path, Arrays], None]]] = {
    **{name: (no_arrays, light(name)) for name in LIGHT_MODELS},
    "mobilenet_v2": (lambda: image(1, 3, 224, 224), plain(mobilenet_v2)),
    "unet": (lambda: image(1, 3, 256, 256), plain(UNet)),
    "mlp": (lambda: image(8, 784), plain(mlp)),
    "mlp_dynamic": (lambda: image(8, 784), plain(mlp, input={0: "batch"})),
    "lstm": (lambda: image(1, 100, 64), plain(lambda: Recurrent(nn.LSTM))),
    "gru": (lambda: image(1, 100, 64), plain(lambda: Recurrent(nn.GRU))),
    "bert_base": (tokens, build_bert),
    "bert_base_dynamic": (tokens, build_bert_dynamic),
    "distilbert": (tokens, build_distilbert),
    "gpt2": (lambda: tokens(with_mask=False), build_gpt2),
    "gpt2_decode": (lambda: caches(128), build_gpt2_decode),
    "vit_b16": (lambda: image(1, 3, 224, 224), build_vit),
    "whisper_encoder": (lambda: image(1, 80, 3000), build_whisper),
    "resnet50_qdq": (no_arrays, quantized("resnet50", dynamic=False)),
    "mobilenet_v2_qdq": (no_arrays, quantized("mobilenet_v2", dynamic=False)),
    "bert_base_dynamic_int8": (no_arrays, quantized("bert_base", dynamic=True)),
    "mlp_dynamic_int8": (no_arrays, quantized("mlp", dynamic=True)),
    "mlp_float16": (no_arrays, half("mlp")),
    "resnet50_float16": (no_arrays, half("resnet50")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the zoo of models.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ZOO)}; all where none is named")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or ZOO:
        make_feeds, build = ZOO[name]
        path = arguments.directory / f"{name}.onnx"
        if path.exists():
            continue
        torch.manual_seed(SEED)
        feeds = make_feeds()
        build(path, feeds)
        np.savez(path.with_suffix(".npz"), **dict(feeds or feeds_of(path, arguments.directory)))  # type: ignore[arg-type]
        print(f"built {path.name}", flush=True)


def feeds_of(path: Path, directory: Path) -> Arrays:
    """Inputs of a model that was made from another (its feeds), or of one with images as inputs."""
    source = path.stem
    for suffix in ("_qdq", "_dynamic_int8", "_float16"):
        if source.endswith(suffix):
            with np.load(directory / f"{source.removesuffix(suffix)}.npz") as found:
                return dict(found)
    model = onnx.load(path, load_external_data=False)
    weights = {tensor.name for tensor in model.graph.initializer}
    (argument,) = (value for value in model.graph.input if value.name not in weights)
    shape = [dimension.dim_value or 1 for dimension in argument.type.tensor_type.shape.dim]
    return {argument.name: np.random.default_rng(SEED).standard_normal(shape).astype(np.float32)}


if __name__ == "__main__":
    main()
