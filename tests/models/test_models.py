"""Real architectures, small and with random weights: loss and every gradient of a training step against eager.

`on_error="raise"`: a graph that falls back is a failure here.
"""

import pytest
import torch
import transformers

import bascule

BATCH, LENGTH, VOCABULARY = 2, 16, 101
# Sums are taken in another order than eager takes them. How far a gradient's elements may be off: relative to its largest
# element, and (for gradients that are zero but for rounding, as of a key's bias) to the largest of all gradients.
TOLERANCE, TOLERANCE_OF_ALL = 2e-5, 1e-6


def tokens():
    return torch.randint(0, VOCABULARY, (BATCH, LENGTH))


def language_model(cls, config):
    ids = tokens()
    return cls(config), {"input_ids": ids, "labels": ids}


def image_model(cls, config):
    return cls(config), {"pixel_values": torch.randn(BATCH, 3, 32, 32), "labels": torch.tensor([1, 0])}


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    return language_model(transformers.GPT2LMHeadModel, config)


def bert():
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )
    return language_model(transformers.BertForMaskedLM, config)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    return language_model(transformers.LlamaForCausalLM, config)


def t5():
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0
    )
    config.decoder_start_token_id = 0
    return language_model(transformers.T5ForConditionalGeneration, config)


def mixtral():
    config = transformers.MixtralConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        num_local_experts=4,
        max_position_embeddings=32,
    )
    return language_model(transformers.MixtralForCausalLM, config)


def vit():
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
        num_labels=3,
    )
    return image_model(transformers.ViTForImageClassification, config)


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=3
    )
    return image_model(transformers.ResNetForImageClassification, config)


def step(model, compiled, inputs):
    """Loss and gradients of one step."""
    model.zero_grad()
    loss = compiled(**inputs).loss
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("make", [gpt2, bert, llama, t5, mixtral, vit, resnet])
def test_training_step(make):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, inputs = make()
    model.train()
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    expected_loss, expected = step(model, model, inputs)
    after = {name: b.clone() for name, b in model.named_buffers()}
    for name, b in model.named_buffers():  # running statistics of a batch norm
        b.copy_(buffers[name])
    compiled = torch.compile(model, backend="bascule", options={"on_error": "raise"})
    loss, gradients = step(model, compiled, inputs)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-5, atol=1e-6)
    assert gradients.keys() == expected.keys()
    floor = TOLERANCE_OF_ALL * max(gradient.abs().max().item() for gradient in expected.values())
    for name, gradient in gradients.items():
        scale = expected[name].abs().max().item()
        error = (gradient - expected[name]).abs().max().item()
        assert error <= TOLERANCE * scale + floor, f"{name}: off by {error:.2g}, largest element {scale:.2g}"
    for name, b in model.named_buffers():
        torch.testing.assert_close(b, after[name], rtol=1e-5, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


# What may go to ATen in these models.
ALLOWED = (
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "_linear_pointwise",  # oneDNN's product
    "convolution",
    "attention",
    "sort",
    "topk",
    "grouped_mm",
    "max_pool2d",
    "_foreach",
)


@pytest.mark.parametrize("make", [gpt2, bert, llama, t5, mixtral, vit, resnet])
def test_only_products_convolutions_attention_and_sorts_go_to_aten(make):
    torch.manual_seed(0)
    model, inputs = make()
    explanation = bascule.explain(model, **inputs, options={"on_error": "raise"})
    aten = {call.operator for graph in explanation.graphs for call in graph.aten}
    foreign = {name for name in aten if not any(part in name for part in ALLOWED)}
    assert not foreign, str(explanation)
