"""Small models with random weights, one training step each: GPT-2, BERT, Llama, T5, Mixtral, ViT, ResNet, and RWKV, which is only tested.

The tests take them in a smaller size.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers

Inputs = dict[str, torch.Tensor | bool]


@dataclass(frozen=True)
class Size:
    """`batch`: rows of tokens; there are twice as many images, `image` pixels wide and high. `layers`: of models that are not small for one."""

    batch: int
    length: int
    vocabulary: int
    hidden: int
    layers: int
    image: int


MEASURED = Size(batch=4, length=64, vocabulary=1000, hidden=128, layers=4, image=64)
TESTED = Size(batch=2, length=16, vocabulary=101, hidden=32, layers=2, image=32)


@dataclass(frozen=True)
class ModelCase:
    """`inputs()` gives keyword arguments of a call whose result has a `.loss`: tokens or images."""

    name: str
    model: Callable[[Size], torch.nn.Module]
    inputs: Callable[[Size], Inputs]


def tokens(size: Size) -> Inputs:
    ids = torch.randint(0, size.vocabulary, (size.batch, size.length))
    return {"input_ids": ids, "labels": ids}


def tokens_once(size: Size) -> Inputs:
    """For models that would return keys and values for tokens to come."""
    return {**tokens(size), "use_cache": False}


def images(size: Size) -> Inputs:
    number = 2 * size.batch
    return {"pixel_values": torch.randn(number, 3, size.image, size.image), "labels": torch.randint(0, 10, (number,))}


def gpt2(size: Size):
    config = transformers.GPT2Config(
        vocab_size=size.vocabulary,
        n_positions=size.length,
        n_embd=size.hidden,
        n_layer=size.layers,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def bert(size: Size):
    config = transformers.BertConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=4,
        intermediate_size=4 * size.hidden,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.BertForMaskedLM(config)


def llama(size: Size):
    config = transformers.LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.hidden * 11 // 4,
        num_hidden_layers=size.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return transformers.LlamaForCausalLM(config)


def t5(size: Size):
    config = transformers.T5Config(
        vocab_size=size.vocabulary,
        d_model=size.hidden,
        d_kv=size.hidden // 4,
        d_ff=4 * size.hidden,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config)


def mixtral(size: Size):
    config = transformers.MixtralConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=2 * size.hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        output_router_logits=True,
    )
    return transformers.MixtralForCausalLM(config)


def vit(size: Size):
    config = transformers.ViTConfig(
        image_size=size.image,
        patch_size=size.image // 4,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=4,
        intermediate_size=4 * size.hidden,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=10,
    )
    return transformers.ViTForImageClassification(config)


def resnet(size: Size):
    config = transformers.ResNetConfig(
        embedding_size=size.hidden // 4,
        hidden_sizes=[size.hidden // 4, size.hidden // 2, size.hidden],
        depths=[size.layers // 2] * 3,
        layer_type="basic",
        num_labels=10,
    )
    return transformers.ResNetForImageClassification(config)


def rwkv(size: Size):
    """Its recurrence is a loop in Python: the graph grows with the length of the tokens."""
    config = transformers.RwkvConfig(
        vocab_size=size.vocabulary,
        context_length=size.length,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        intermediate_size=4 * size.hidden,
    )
    return transformers.RwkvForCausalLM(config)


CASES = [
    ModelCase("GPT-2", gpt2, tokens_once),
    ModelCase("BERT", bert, tokens),
    ModelCase("Llama", llama, tokens_once),
    ModelCase("T5", t5, tokens_once),
    ModelCase("Mixtral", mixtral, tokens_once),
    ModelCase("ViT", vit, images),
    ModelCase("ResNet", resnet, images),
]
RWKV = ModelCase("RWKV", rwkv, tokens_once)


def build(case: ModelCase, size: Size = MEASURED) -> tuple[torch.nn.Module, Inputs]:
    """The model in training mode and its inputs, the same at every call."""
    torch.manual_seed(0)
    return case.model(size).train(), case.inputs(size)


def training_step(call: Callable, model: torch.nn.Module, inputs: Inputs) -> torch.Tensor:
    """Forward and backward through `call` (the model, compiled or not); gradients are left on the parameters."""
    model.zero_grad(set_to_none=True)
    loss = call(**inputs).loss
    loss.backward()
    return loss.detach()
