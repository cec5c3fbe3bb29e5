"""Samples that are not run, and samples that are compared in another way: decided by what a sample is and by what eager does with it.

No operator is left out by its name. What draws random numbers is compared under the option `random="eager"`; of memory that nobody has
written, the elements that somebody has; what AOTAutograd cannot trace by itself runs through Dynamo, graph breaks and all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.operators.opinfo import DEVICE, Sample, tensor_leaves

# ATen allocates without writing by operators of these names alone.
ALLOCATIONS = ("aten::empty", "aten::new_empty", "aten::resize")
ON_DATA = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
SEED = 42  # the database sets it too, in the calls that draw
OTHER_NUMBERS = "the interpreter draws other random numbers than eager"


@dataclass(frozen=True)
class Exemption:
    """Samples that are not run, those that it `holds` for."""

    reason: str
    holds: Callable[[Sample], bool]


def _distances_of_no_points(sample: Sample) -> bool:
    if sample.operator is not torch.nn.functional.pdist:
        return False
    (points,) = sample.tensors
    return points.requires_grad and points.shape[0] == 0 < points.shape[1]


def _offsets_beyond_data(sample: Sample) -> bool:
    data, _, keywords = sample.fill(*sample.tensors)
    offsets = keywords.get("offsets")
    if offsets is None or "axis" not in keywords or not offsets.numel():
        return False
    return int(offsets.max()) > data.shape[keywords["axis"]]


# Those in which eager ends the process.
CRASHES = (
    Exemption("eager's backward of no points divides by zero", _distances_of_no_points),
    Exemption("eager reads beyond data that its offsets do not fit to", _offsets_beyond_data),
)


def _splits_by_a_tensor(sample: Sample) -> bool:
    """The operator reads the numbers without calling another that says so."""
    return sample.operator is torch.tensor_split and len(sample.tensors) > 1


@dataclass(frozen=True)
class Seen:
    """The facts of a sample run in eager. `untraceable`: why AOTAutograd does not trace it, empty where it does; `written`: for each result,
    then each input after the call, where somebody has written."""

    draws: bool
    untraceable: str
    written: Sequence[torch.Tensor]


class _Watch(TorchDispatchMode):
    """Fills memory that is allocated and not written with a byte, notes why a call cannot be traced, and whether one draws random numbers."""

    def __init__(self, byte: int):
        super().__init__()
        self.byte, self.untraceable, self.allocates, self.draws = byte, "", False, False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        resized = func._schema.name.startswith("aten::resize")
        kept = args[0].untyped_storage().nbytes() if resized else 0
        state = _generator_state() if torch.Tag.nondeterministic_seeded in func.tags else None
        result = func(*args, **kwargs)
        self.draws |= state is not None and not torch.equal(state, _generator_state())
        tensors = tensor_leaves((args, kwargs, result))
        if any(x.layout != torch.strided for x in tensors):
            self.untraceable = "a tensor on the way is sparse"
        elif _depends_on_data(func, args, kwargs):
            self.untraceable = "numbers in its inputs decide how it goes on, or the sizes of its results"
        elif func._schema.name.startswith(ALLOCATIONS):
            self.allocates = True
            _bytes_of(result)[kept:].fill_(self.byte)
        return result


def _depends_on_data(func: Any, args: tuple, kwargs: dict) -> bool:
    """Indexing does where an index is a mask."""
    names = [argument.name for argument in func._schema.arguments]
    if "indices" in names:
        indices = (dict(zip(names, args)) | kwargs).get("indices")
        masks = [x for x in tensor_leaves(indices) if x.dtype in (torch.bool, torch.uint8)]
        if masks or "aten::index" in func._schema.name:
            return bool(masks)
    return bool(ON_DATA & set(func.tags))


def _bytes_of(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=x.device).set_(x.untyped_storage())


def observe(sample: Sample) -> Seen:
    """Runs the sample in eager, twice where it allocates: what depends on what memory held is not written."""
    watch, found = _Watch(0), []
    for byte in (0, 1):
        watch.byte = byte
        given = sample.copies()
        torch.manual_seed(SEED)
        with watch:
            found.append([*tensor_leaves(sample.function(*given)), *given])
        if not watch.allocates:
            found = found * 2
            break
    untraceable = "a tensor says where to split" if _splits_by_a_tensor(sample) else watch.untraceable
    return Seen(watch.draws, untraceable, [_same_bits(x, y) for x, y in zip(*found)])


def draws(call: Callable[[], object]) -> bool:
    """Whether a call draws random numbers."""
    with _Watch(0) as watch:
        call()
    return watch.draws


def _generator_state() -> torch.Tensor:
    return torch.get_rng_state() if DEVICE == "cpu" else torch.cuda.get_rng_state(DEVICE)


def _same_bits(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x is y or x.layout != torch.strided:
        return torch.ones(x.shape, dtype=torch.bool, device=x.device)
    x, y = x.detach(), y.detach()
    return (x == y) | ((x != x) & (y != y))
