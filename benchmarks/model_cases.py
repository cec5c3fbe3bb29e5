"""Small models with random weights, one training step each: GPT-2, BERT, Llama, T5, Mixtral, ViT, ResNet."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers


@dataclass(frozen=True)
class ModelCase:
    """`make()` gives (model, keyword arguments of a call whose result has a `.loss`)."""

    name: str
    make: Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]]


def _tokens(vocabulary: int, batch: int = 4, length: int = 64) -> torch.Tensor:
    return torch.randint(0, vocabulary, (batch, length))


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=1000,
        n_positions=64,
        n_embd=128,
        n_layer=4,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    ids = _tokens(1000)
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids, "use_cache": False}


def bert():
    config = transformers.BertConfig(
        vocab_size=1000,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    ids = _tokens(1000)
    return transformers.BertForMaskedLM(config), {"input_ids": ids, "labels": ids}


def llama():
    config = transformers.LlamaConfig(
        vocab_size=1000,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    ids = _tokens(1000)
    return transformers.LlamaForCausalLM(config), {"input_ids": ids, "labels": ids, "use_cache": False}


def t5():
    config = transformers.T5Config(
        vocab_size=1000,
        d_model=128,
        d_kv=32,
        d_ff=512,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    ids = _tokens(1000)
    return transformers.T5ForConditionalGeneration(config), {"input_ids": ids, "labels": ids, "use_cache": False}


def mixtral():
    config = transformers.MixtralConfig(
        vocab_size=1000,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        output_router_logits=True,
    )
    ids = _tokens(1000)
    return transformers.MixtralForCausalLM(config), {"input_ids": ids, "labels": ids, "use_cache": False}


def vit():
    config = transformers.ViTConfig(
        image_size=64,
        patch_size=16,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=10,
    )
    images = torch.randn(8, 3, 64, 64)
    return transformers.ViTForImageClassification(config), {
        "pixel_values": images,
        "labels": torch.randint(0, 10, (8,)),
    }


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=32, hidden_sizes=[32, 64, 128], depths=[2, 2, 2], layer_type="basic", num_labels=10
    )
    images = torch.randn(8, 3, 64, 64)
    return transformers.ResNetForImageClassification(config), {
        "pixel_values": images,
        "labels": torch.randint(0, 10, (8,)),
    }


CASES = [
    ModelCase("GPT-2", gpt2),
    ModelCase("BERT", bert),
    ModelCase("Llama", llama),
    ModelCase("T5", t5),
    ModelCase("Mixtral", mixtral),
    ModelCase("ViT", vit),
    ModelCase("ResNet", resnet),
]


def build(case: ModelCase) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """The model in training mode and its inputs, the same at every call."""
    torch.manual_seed(0)
    model, inputs = case.make()
    return model.train(), inputs


def training_step(call: Callable, model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Forward and backward through `call` (the model, compiled or not); gradients are left on the parameters."""
    model.zero_grad(set_to_none=True)
    loss = call(**inputs).loss
    loss.backward()
    return loss.detach()
