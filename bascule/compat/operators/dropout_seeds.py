"""Backwards of PyTorch's that read seeds of a dropout at an address of the host, or of the device while a CUDA graph is recorded.

They look only whether they are recorded themselves. Their forwards leave seeds by the same rule. Checked on torch 2.11 to 2.14 (`ATen/native/
transformers/cuda/attention_backward.cu`); other attentions have their seeds on the device.
"""

from typing import Any

READING = (
    "aten._scaled_dot_product_efficient_attention_backward.default",
    "aten._efficient_attention_backward.default",
)
SEEDS = ("philox_seed", "philox_offset")  # names of their parameters


def seeds_of(operator: Any) -> list[int]:
    """The places of the seeds among the arguments of `operator`."""
    return [number for number, parameter in enumerate(operator._schema.arguments) if parameter.name in SEEDS]
