"""Small models of transformers' architectures, random weights, and inputs for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import transformers

#: Input → (torch tensor, {axis: name of its size}).
Inputs = Mapping[str, tuple[torch.Tensor, Mapping[int, str]]]
_VOCABULARY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model's class, its configuration, and inputs.

    Attributes:
        model, configuration: names in ``transformers``.
        settings: of the configuration.
        inputs: makes them, for a number of rows.
        outputs: names of what the exported model gives.
        call: further arguments of the model.
        rows: of the inputs that are compared; others than are traced where the export allows it.
    """

    model: str
    configuration: str
    settings: Mapping[str, Any]
    inputs: Callable[[int], Inputs]
    outputs: tuple[str, ...] = ("last_hidden_state",)
    call: Mapping[str, Any] = field(default_factory=dict)
    rows: int = 1

    def build(self) -> torch.nn.Module:
        """The model, ready to be exported."""
        torch.manual_seed(7)
        settings = getattr(transformers, self.configuration)(**self.settings)
        settings._attn_implementation = "eager"
        return First(getattr(transformers, self.model)(settings).eval(), self)


class First(torch.nn.Module):  # type: ignore[misc]
    """A model that takes its inputs in order and gives its named outputs as a tuple."""

    def __init__(self, model: torch.nn.Module, architecture: Architecture) -> None:
        super().__init__()
        self.model, self.outputs, self.fixed = model, architecture.outputs, architecture.call
        self.names = list(architecture.inputs(1))

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        named_inputs = dict(zip(self.names, inputs, strict=True))
        results = self.model(**named_inputs, **self.fixed)
        return tuple(getattr(results, name) for name in self.outputs)


def tokens(length: int = 48, *, mask: bool = True, types: bool = False) -> Callable[[int], Inputs]:
    def make(rows: int) -> Inputs:
        axes = {0: "batch", 1: "length"}
        ids = torch.randint(5, _VOCABULARY - 5, (rows, length))
        made = {"input_ids": (ids, axes)}
        if mask:
            kept = torch.ones_like(ids)
            kept[-1, length - 5 :] = 0
            made["attention_mask"] = (kept, axes)
        if types:
            made["token_type_ids"] = (torch.zeros_like(ids), axes)
        return made

    return make


def image(size: int = 64, name: str = "pixel_values") -> Callable[[int], Inputs]:
    return lambda rows: {name: (torch.randn(rows, 3, size, size), {0: "batch"})}


def speech(samples: int = 4000) -> Callable[[int], Inputs]:
    return lambda rows: {"input_values": (torch.randn(rows, samples), {0: "batch", 1: "samples"})}


def spectrogram(bins: int, frames: int, name: str) -> Callable[[int], Inputs]:
    return lambda rows: {name: (torch.randn(rows, bins, frames), {0: "batch"})}


def to_decoder(encoder: Callable[[int], Inputs], length: int = 16) -> Callable[[int], Inputs]:
    def make(rows: int) -> Inputs:
        ids = torch.randint(5, _VOCABULARY - 5, (rows, length))
        return {**encoder(rows), "decoder_input_ids": (ids, {0: "batch", 1: "written"})}

    return make


def both(*parts: Callable[[int], Inputs]) -> Callable[[int], Inputs]:
    return lambda rows: {name: value for part in parts for name, value in part(rows).items()}


_ENCODER = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
}
_VISION = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "image_size": 64,
    "patch_size": 8,
}
_DECODER = {**_ENCODER, "num_key_value_heads": 2, "use_cache": False}
_BART = {
    "vocab_size": _VOCABULARY,
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "use_cache": False,
}
_LOGITS = ("logits",)


def _encoder(name: str, *, types: bool = False, **settings: Any) -> Architecture:
    return Architecture(
        model=f"{name}Model",
        configuration=f"{name}Config",
        settings={**_ENCODER, **settings},
        inputs=tokens(types=types),
    )


def _decoder(name: str, **settings: Any) -> Architecture:
    return Architecture(
        model=f"{name}ForCausalLM",
        configuration=f"{name}Config",
        settings={**_DECODER, **settings},
        inputs=tokens(),
        outputs=_LOGITS,
        call={"use_cache": False},
    )


def _vision(name: str, size: int = 64, **settings: Any) -> Architecture:
    return Architecture(
        model=f"{name}Model",
        configuration=f"{name}Config",
        settings={**_VISION, **settings},
        inputs=image(size),
    )


ARCHITECTURES: Mapping[str, Architecture] = {
    "bert": _encoder("Bert", types=True),
    "roberta": _encoder("Roberta", max_position_embeddings=130),
    "distilbert": Architecture(
        model="DistilBertForSequenceClassification",
        configuration="DistilBertConfig",
        settings={"vocab_size": _VOCABULARY, "dim": 128, "n_layers": 2, "n_heads": 4,
                  "hidden_dim": 256},
        inputs=tokens(),
        outputs=_LOGITS,
    ),
    "albert": _encoder("Albert", embedding_size=64, types=True),
    "electra": _encoder("Electra", embedding_size=64),
    "mpnet": _encoder("MPNet"),
    "deberta_v2": _encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "camembert": _encoder("Camembert", max_position_embeddings=130),
    "xlm_roberta": _encoder("XLMRoberta", max_position_embeddings=130),
    "longformer": replace(
        _encoder("Longformer", attention_window=16, max_position_embeddings=130), rows=2
    ),
    "big_bird": _encoder("BigBird", attention_type="original_full"),
    "fnet": Architecture(
        model="FNetModel", configuration="FNetConfig",
        settings={key: value for key, value in _ENCODER.items() if "head" not in key},
        inputs=tokens(mask=False),
    ),
    "squeezebert": _encoder("SqueezeBert", embedding_size=128),
    "funnel": Architecture(
        model="FunnelModel", configuration="FunnelConfig",
        settings={"vocab_size": _VOCABULARY, "d_model": 128, "block_sizes": [1, 1], "n_head": 4,
                  "d_head": 32, "d_inner": 256},
        inputs=tokens(),
    ),
    "modernbert": _encoder("ModernBert", pad_token_id=0, reference_compile=False),
    "gpt2": Architecture(
        model="GPT2LMHeadModel", configuration="GPT2Config",
        settings={"vocab_size": _VOCABULARY, "n_embd": 128, "n_layer": 2, "n_head": 4},
        inputs=tokens(), outputs=_LOGITS, call={"use_cache": False},
    ),
    "gpt_neo": Architecture(
        model="GPTNeoForCausalLM", configuration="GPTNeoConfig",
        settings={"vocab_size": _VOCABULARY, "hidden_size": 128, "num_layers": 2, "num_heads": 4,
                  "attention_types": [[["global", "local"], 1]]},
        inputs=tokens(), outputs=_LOGITS, call={"use_cache": False},
    ),
    "gpt_neox": _decoder("GPTNeoX"),
    "opt": Architecture(
        model="OPTForCausalLM", configuration="OPTConfig",
        settings={"vocab_size": _VOCABULARY, "hidden_size": 128, "num_hidden_layers": 2,
                  "ffn_dim": 256, "num_attention_heads": 4, "word_embed_proj_dim": 128},
        inputs=tokens(), outputs=_LOGITS, call={"use_cache": False},
    ),
    "bloom": Architecture(
        model="BloomForCausalLM", configuration="BloomConfig",
        settings={"vocab_size": _VOCABULARY, "hidden_size": 128, "n_layer": 2, "n_head": 4},
        inputs=tokens(), outputs=_LOGITS, call={"use_cache": False},
    ),
    "llama": _decoder("Llama"),
    "mistral": _decoder("Mistral"),
    "qwen2": _decoder("Qwen2"),
    "gemma": _decoder("Gemma", head_dim=32),
    "phi": _decoder("Phi"),
    "t5": Architecture(
        model="T5ForConditionalGeneration", configuration="T5Config",
        settings={"vocab_size": _VOCABULARY, "d_model": 128, "d_kv": 32, "d_ff": 256,
                  "num_layers": 2, "num_heads": 4},
        inputs=to_decoder(tokens()), outputs=_LOGITS, call={"use_cache": False},
    ),
    "t5_encoder": Architecture(
        model="T5EncoderModel", configuration="T5Config",
        settings={"vocab_size": _VOCABULARY, "d_model": 128, "d_kv": 32, "d_ff": 256,
                  "num_layers": 2, "num_heads": 4},
        inputs=tokens(),
    ),
    "bart": Architecture(
        model="BartModel", configuration="BartConfig", settings=_BART,
        inputs=to_decoder(tokens()), call={"use_cache": False},
    ),
    "marian": Architecture(
        model="MarianMTModel", configuration="MarianConfig",
        settings={**_BART, "pad_token_id": 0, "decoder_start_token_id": 0},
        inputs=to_decoder(tokens()), outputs=_LOGITS, call={"use_cache": False},
    ),
    "pegasus": Architecture(
        model="PegasusModel", configuration="PegasusConfig", settings=_BART,
        inputs=to_decoder(tokens()), call={"use_cache": False},
    ),
    "whisper": Architecture(
        model="WhisperForConditionalGeneration", configuration="WhisperConfig",
        settings={**_BART, "num_mel_bins": 40, "max_source_positions": 100, "pad_token_id": 0,
                  "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 0},
        inputs=to_decoder(spectrogram(40, 200, "input_features")), outputs=_LOGITS,
        call={"use_cache": False},
    ),
    "whisper_encoder": Architecture(
        model="WhisperModel", configuration="WhisperConfig",
        settings={**_BART, "num_mel_bins": 40, "max_source_positions": 100, "pad_token_id": 0,
                  "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 0},
        inputs=to_decoder(spectrogram(40, 200, "input_features"), 4), call={"use_cache": False},
        outputs=("encoder_last_hidden_state",),
    ),
    "vit": _vision("ViT"),
    "deit": _vision("DeiT"),
    "beit": _vision("Beit", use_relative_position_bias=True),
    "dinov2": _vision("Dinov2"),
    "swin": Architecture(
        model="SwinModel", configuration="SwinConfig",
        settings={"image_size": 64, "patch_size": 4, "embed_dim": 32, "depths": [2, 2],
                  "num_heads": [2, 4], "window_size": 4},
        inputs=image(),
    ),
    "convnext": Architecture(
        model="ConvNextModel", configuration="ConvNextConfig",
        settings={"hidden_sizes": [32, 64], "depths": [2, 2], "num_stages": 2},
        inputs=image(),
    ),
    "resnet": Architecture(
        model="ResNetForImageClassification", configuration="ResNetConfig",
        settings={"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [2, 2]},
        inputs=image(), outputs=_LOGITS,
    ),
    "mobilevit": Architecture(
        model="MobileViTModel", configuration="MobileViTConfig",
        settings={"image_size": 64, "hidden_sizes": [48, 64, 80], "neck_hidden_sizes":
                  [16, 32, 48, 64, 80, 96, 128]},
        inputs=image(),
    ),
    "segformer": Architecture(
        model="SegformerForSemanticSegmentation", configuration="SegformerConfig",
        settings={"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [4, 2],
                  "hidden_sizes": [32, 64], "patch_sizes": [7, 3], "strides": [4, 2],
                  "num_attention_heads": [1, 2], "mlp_ratios": [2, 2],
                  "decoder_hidden_size": 64},
        inputs=image(), outputs=_LOGITS,
    ),
    "poolformer": Architecture(
        model="PoolFormerModel", configuration="PoolFormerConfig",
        settings={"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64]},
        inputs=image(),
    ),
    "yolos": Architecture(
        model="YolosForObjectDetection", configuration="YolosConfig",
        settings={**_VISION, "image_size": [64, 64], "num_detection_tokens": 10},
        inputs=image(), outputs=("logits", "pred_boxes"),
    ),
    "dpt": Architecture(
        model="DPTForDepthEstimation", configuration="DPTConfig",
        settings={**_VISION, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3],
                  "neck_hidden_sizes": [16, 32, 48, 64], "fusion_hidden_size": 32,
                  "is_hybrid": False},
        inputs=image(), outputs=("predicted_depth",),
    ),
    "clip": Architecture(
        model="CLIPModel", configuration="CLIPConfig",
        settings={"text_config": {**_ENCODER, "max_position_embeddings": 77},
                  "vision_config": _VISION, "projection_dim": 64},
        inputs=both(tokens(32), image()),
        outputs=("logits_per_image", "text_embeds", "image_embeds"),
    ),
    "clip_text": Architecture(
        model="CLIPTextModel", configuration="CLIPTextConfig", settings=_ENCODER,
        inputs=tokens(32),
    ),
    "siglip": Architecture(
        model="SiglipVisionModel", configuration="SiglipVisionConfig", settings=_VISION,
        inputs=image(),
    ),
    "vilt": Architecture(
        model="ViltModel", configuration="ViltConfig",
        settings={**_ENCODER, "image_size": 64, "patch_size": 8},
        inputs=both(tokens(16, types=True), image()),
    ),
    "wav2vec2": Architecture(
        model="Wav2Vec2ForCTC", configuration="Wav2Vec2Config",
        settings={**_ENCODER, "vocab_size": 32, "conv_dim": [32] * 7,
                  "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4},
        inputs=speech(), outputs=_LOGITS,
    ),
    "hubert": Architecture(
        model="HubertModel", configuration="HubertConfig",
        settings={**_ENCODER, "conv_dim": [32] * 7, "num_conv_pos_embeddings": 16,
                  "num_conv_pos_embedding_groups": 4},
        inputs=speech(),
    ),
    "ast": Architecture(
        model="ASTModel", configuration="ASTConfig",
        settings={**{k: v for k, v in _VISION.items() if k != "image_size"}, "max_length": 64,
                  "num_mel_bins": 32},
        inputs=lambda rows: {"input_values": (torch.randn(rows, 64, 32), {0: "batch"})},
    ),
}  # fmt: skip
