"""Models at their real sizes, with random weights, as they are measured on a GPU."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Call = Callable[[torch.nn.Module], torch.Tensor]  # (the model, compiled or not) -> loss, or output


@dataclass(frozen=True)
class CudaModelCase:
    """`make()` gives the model and a call of it; `training`: the call gives a loss, and its backward is timed too. `autocast`: bf16."""

    name: str
    make: Callable[[], tuple[torch.nn.Module, Call]]
    training: bool
    autocast: bool = True


def _tokens(vocabulary: int, batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, (batch, length), device="cuda")


def _language(cls: Any, config: Any, batch: int, length: int, **arguments: Any) -> tuple[torch.nn.Module, Call]:
    model = cls(config).cuda()
    ids = _tokens(config.vocab_size, batch, length)
    return model, lambda call: call(input_ids=ids, labels=ids, **arguments).loss


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return _language(GPT2LMHeadModel, config, 8, 1024, use_cache=False)


def bert():
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig()).cuda().eval()
    ids = _tokens(30522, 32, 512)
    return model, lambda call: call(input_ids=ids).last_hidden_state


def _llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=8,
        max_position_embeddings=4096,
    )
    return LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()


def llama_prefill():
    model, ids = _llama(), _tokens(32000, 4, 2048)
    return model, lambda call: call(input_ids=ids, use_cache=False).logits


def llama_token():
    model, ids = _llama(), _tokens(32000, 1, 1)
    return model, lambda call: call(input_ids=ids, use_cache=False).logits


def _image(name: str, batch: int, **arguments: Any):
    import timm

    model = timm.create_model(name, **arguments).cuda().to(memory_format=torch.channels_last)
    images = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    return model, images


def _classifier(name: str, batch: int, training: bool):
    model, images = _image(name, batch)
    if not training:
        return model.eval(), lambda call: call(images)
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    return model.train(), lambda call: torch.nn.functional.cross_entropy(call(images).float(), labels)


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(dropout_rate=0.0, decoder_start_token_id=0)  # the defaults are T5-small's
    return _language(T5ForConditionalGeneration, config, 16, 512, use_cache=False)


def mixtral():
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=32000,
        hidden_size=512,
        intermediate_size=1792,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_local_experts=8,
        max_position_embeddings=2048,
    )
    return _language(MixtralForCausalLM, config, 4, 1024, use_cache=False)


CASES = [
    CudaModelCase("GPT-2 124M training, 8 x 1024", gpt2, True),
    CudaModelCase("BERT-base inference, 32 x 512", bert, False),
    CudaModelCase("Llama (8 layers of 2048) prefill, 4 x 2048", llama_prefill, False, autocast=False),
    CudaModelCase("Llama (8 layers of 2048), one token", llama_token, False, autocast=False),
    CudaModelCase("ResNet-50 training, 64, channels-last", lambda: _classifier("resnet50", 64, True), True),
    CudaModelCase("ViT-B/16 inference, 64", lambda: _classifier("vit_base_patch16_224", 64, False), False),
    CudaModelCase("T5-small training, 16 x 512", t5, True),
    CudaModelCase(
        "MobileNetV3-large inference, 128, channels-last",
        lambda: _classifier("mobilenetv3_large_100", 128, False),
        False,
    ),
    CudaModelCase("Mixtral (4 layers of 512) training, 4 x 1024", mixtral, True),
    CudaModelCase("ConvNeXt-T training, 64, channels-last", lambda: _classifier("convnext_tiny", 64, True), True),
]
