"""Example inputs written as text: `f32[4,8],i64[3],bool[2,2]`."""

import re

import torch

from bascule.dialect.interrupts import pass_on
from bascule.errors import UserError

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "bool": torch.bool,
}


def parse_inputs(text: str, *, seed: int = 0, requires_grad: bool = False) -> list[torch.Tensor]:
    """The tensors that `text` names, filled from `seed`: floats normal, integers in [0, 4), bools even.

    `requires_grad` holds for the floating-point ones. Raises `UserError` with the column for text that does not parse.
    """
    generator = torch.Generator().manual_seed(seed)
    tensors, position = [], 0
    while position < len(text):
        match = re.compile(r"\s*(\w+)\[([\d\s,]*)\]\s*(,|$)").match(text, position)
        if match is None:
            raise UserError(
                f"'{text[position:]}' is not a tensor", location=f"--inputs:{position + 1}", hint="like f32[4,8],i64[3]"
            )
        if match[1] not in DTYPES:
            raise UserError(
                f"there is no dtype '{match[1]}'",
                location=f"--inputs:{position + 1}",
                hint=f"known: {', '.join(DTYPES)}",
            )
        sizes = [int(size) for size in match[2].split(",") if size.strip()]
        try:
            tensors.append(_fill(sizes, DTYPES[match[1]], generator, requires_grad))
        except (RuntimeError, TypeError, OverflowError) as error:  # there is no such memory, or no such number
            pass_on(error)
            told = f"'{match[1]}[{match[2]}]' cannot be made: {str(error).splitlines()[0]}"
            raise UserError(told, location=f"--inputs:{position + 1}") from None
        position = match.end()
    return tensors


def _fill(sizes: list[int], dtype: torch.dtype, generator: torch.Generator, requires_grad: bool) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(dtype).requires_grad_(requires_grad)
    high = 2 if dtype == torch.bool else 4
    return torch.randint(0, high, sizes, generator=generator).to(dtype)
