"""Tensors written down and read again: the same elements at the same strides."""

import json

import pytest
import torch
from bascule.runtime.memory.tensor_serialization import bytes_of, tensor_of, told_of

BASE = torch.arange(24.0).view(4, 6) - 7.5
CASES = {
    "row-major": BASE,
    "transposed": BASE.t(),
    "with gaps and an offset": BASE[1:, ::2],
    "expanded": BASE[:, :1].expand(4, 5),
    "of no elements": torch.empty(3, 0, 2),
    "one number": torch.tensor(3),
    "bool": BASE > 0,
    "bfloat16": BASE.bfloat16(),
    "a parameter": torch.nn.Parameter(BASE.clone()),
    "conjugate": torch.complex(BASE, BASE * 2).t().conj(),
    "negative bit": torch.complex(BASE, BASE * 2).conj().imag,
}


@pytest.mark.parametrize("case", CASES)
def test_read_again(case):
    value = CASES[case]
    told = json.loads(json.dumps(told_of(value)))
    found = tensor_of(told, bytes_of(value))
    assert found.dtype == value.dtype and found.stride() == value.stride() and not found.requires_grad
    assert torch.equal(found, value.detach())


def test_only_the_memory_in_between_is_written():
    assert len(bytes_of(BASE[1:3, 2:4])) == 4 * (6 + 2)
