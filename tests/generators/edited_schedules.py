"""Schedules edited as by hand: one is refused at its place, or the kernel computes what it computed.

Kernels for a CPU are compiled; those for a GPU run as Triton IR, in the interpreter of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from random import Random
from typing import Any

import torch
from bascule.dialect.interpreter import Comparison, InterpreterError
from bascule.dialect.ir import context
from bascule.dialect.ir.attributes import ScheduleAttr
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu import schedule_form as cpu
from bascule.dialect.scheduling.gpu import schedule_form as gpu
from bascule.dialect.tools.parsing import parse

from bascule.errors import UserError
from bascule.pipelines import DEFAULT
from bascule.tools.checking import Check, after, as_program, copy_of, tensors
from tests.generators.mutated_ir import in_a_process_of_its_own, on_gpus, runnable, sources, unclear, unwritten
from tests.lowering.triton.check import run as run_ttir

EDITS = 8  # of one program
LANES = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class EditedSchedules:
    """The program of `text` for `target`, with schedules that are edited by numbers from `seed`, so many times."""

    text: str
    target: str
    seed: int
    edits: int = EDITS

    def source(self) -> str:
        return f"# {self.target}, seed {self.seed}, {self.edits} edits\nTEXT = r'''{self.text}'''\n"

    def smaller(self) -> Iterator["EditedSchedules"]:
        if self.edits > 1:
            yield replace(self, edits=self.edits // 2)
            yield replace(self, edits=self.edits - 1)

    def differences(self, backend: str) -> list[str]:
        return in_a_process_of_its_own(faults, self) if backend == "bascule" else []


def faults(connection: Connection, case: EditedSchedules) -> None:
    """Sends what is wrong with how the edits of `case` are taken."""
    torch.set_num_threads(1)
    random = Random(case.seed)
    connection.send(("at", "the program as it is"))
    with context():
        found = _comparable(case, random)
        for _ in range(case.edits):
            if found is None:
                break
            check, program = found
            edited = copy_of(program)
            kernel = random.choice(_scheduled(edited))
            schedule = (_edited_cpu if case.target == "cpu" else _edited_gpu)(random, kernel)
            kernel.attributes["schedule"] = ScheduleAttr.get(schedule)
            connection.send(("at", str(schedule)))
            for fault in _of(check, edited, case.target):
                connection.send(("fault", f"{fault}: {schedule}"))
    connection.send(("done", ""))


def _comparable(case: EditedSchedules, random: Random) -> tuple[Check, ir.Module] | None:
    """The results of a program of several kernels or one, and its program stage; None for one without, and for tests of refusals."""
    try:
        module = parse(case.text)
        check, program = Check(module, random.choice(runnable(module) or [""])), _program(module, case.target)
        written = not any(map(unwritten, check.results))
        alike = written and _scheduled(program) and _run(check, copy_of(program), case.target).match
        return (check, program) if alike else None
    except (UserError, ir.MLIRError):
        return None


def _of(check: Check, edited: ir.Module, target: str) -> Iterator[str]:
    """Faults of how one edit is taken."""
    try:
        outcome = _run(check, edited, target)
    except InterpreterError as error:
        yield f"the interpreter of Triton IR: {error}"
    except (UserError, ir.MLIRError) as error:
        yield from unclear(error)
    except Exception as error:  # is what is looked for
        yield f"{type(error).__name__}: {error}"
    else:
        if not outcome.match:
            yield outcome.differences[0]


def _program(module: ir.Module, target: str) -> ir.Module:
    text, names = str(module.operation), DEFAULT if target == "cpu" else on_gpus()
    if "bascule.kernel" in text and "bascule.compute" not in text:
        start = "schedule-kernels" if target == "cpu" else "schedule-kernels{target=cuda}"
        return after(module, ",".join(["isolate-kernels", start, *names[DEFAULT.index("choose-products") :]]))
    return after(module, ",".join(names if "!torch." in text else names[1:]))


def _scheduled(program: ir.Module) -> list[ir.Operation]:
    kernels = filter(None, map(kernel_op, functions(program)))
    return [kernel for kernel in kernels if "schedule" in kernel.attributes]


def _run(check: Check, program: ir.Module, target: str) -> Comparison:
    if target == "cpu":
        return check.compiled(program)
    own = check.fresh_inputs()
    symbols = tuple(value for value in own if not isinstance(value, torch.Tensor))
    given = [value for value in own if isinstance(value, torch.Tensor)]
    results = run_ttir(as_program(program, check.function), given, symbols)
    return check.compare(check.reference, [*results, *tensors(own)])


# -- a CPU -------------------------------------------------------------------------------------------------------------------


def _edited_cpu(random: Random, kernel: ir.Operation) -> ir.DictAttr:
    """With one to three of its loops as others; mostly without lanes inside of lanes."""
    own = cpu.from_attribute(kernel)
    every = [own.domain, *own.loops]
    for number in random.sample(range(len(every)), k=min(len(every), random.choice([1, 1, 2, 3]))):
        every[number] = _loop(random, every[number], len(own.loops))
    domain, *loops = every
    if domain.vector >= 0 and random.random() < 0.7:
        plain = {"vector": -1, "lanes": 1, "prefetch": 0, "tasks": None}
        loops = [replace(loop, **plain) if loop.joins < 0 else loop for loop in loops]  # type: ignore[arg-type]
    nontemporal = own.nontemporal ^ (random.random() < 0.3)
    return cpu.to_attribute(cpu.KernelSchedule(domain, tuple(loops), nontemporal))


def _loop(random: Random, own: cpu.LoopSchedule, count: int) -> cpu.LoopSchedule:
    if own.joins >= 0:
        return own if random.random() < 0.7 else cpu.LoopSchedule(joins=random.randrange(count + 1))
    apart = random.random() < 0.2
    groups = tuple((i,) for group in own.groups for i in group) if apart else own.groups
    vector = random.choice([-1, *range(len(groups)), min(own.vector, len(groups) - 1)])
    lanes = 1 if vector < 0 else random.choice(LANES)
    if own.tasks is None and random.random() < 0.9:
        others = {"prefetch": random.choice([0, 0, 64, 4096]), "short": random.choice([0, 0, 3, 40])}
        return cpu.LoopSchedule(groups, vector, lanes, **others)
    return cpu.LoopSchedule(groups, vector, lanes, _tasks(random, own.tasks, len(groups), vector, lanes))


def _tasks(random: Random, own: cpu.Tasks | None, groups: int, vector: int, lanes: int) -> cpu.Tasks:
    blocked = vector if vector >= 0 else random.choice([-1, *range(groups)])
    others = [group for group in range(groups) if group != blocked]
    serial = tuple(group for group in others if random.random() < 0.25)
    if own is not None and random.random() < 0.5:
        serial = tuple(group for group in own.serial if group in others)
    block, grain = lanes * random.choice([1, 1, 2, 3, 8, 64]), random.choice([1, 7, 1000])
    if vector < 0 and blocked == groups - 1 and random.random() < 0.3:
        return cpu.Tasks(blocked, 64, (), grain=grain, fission=random.choice(LANES))
    if vector < 0 or not others or random.random() < 0.5:
        return cpu.Tasks(blocked, block, serial, grain=grain)
    tile = random.choice([cpu.SCRATCH, cpu.REGISTERS])
    rows = lanes if tile == cpu.REGISTERS else random.choice([16, 32, 64])
    return cpu.Tasks(blocked, block, (), random.choice(others), rows, grain, tile)


# -- a GPU -------------------------------------------------------------------------------------------------------------------


def _edited_gpu(random: Random, kernel: ir.Operation) -> ir.DictAttr:
    own = gpu.from_attribute(kernel)
    domains = list(own.domains)
    at = random.randrange(len(domains))
    domains[at] = _domain(random, domains[at])
    choices: dict[str, tuple[float, list[Any]]] = {
        "warps": (0.3, [1, 2, 4, 8]),
        "stages": (0.2, [1, 2, 3]),
        "index_bits": (0.2, [64]),
        "cluster": (0.1, [1, 2, 4]),
        "capability": (0.1, [80, 90, 100]),
    }
    changes = {key: random.choice(values) for key, (often, values) in choices.items() if random.random() < often}
    return gpu.to_attribute(replace(own, domains=domains, **changes))


def _domain(random: Random, own: gpu.DomainSchedule) -> gpu.DomainSchedule:
    changes: dict[str, Any] = {}
    for key in random.sample(["tile", "order", "axes", "loops", "loops", "group", "programs"], k=random.choice([1, 2])):
        match key:
            case "tile" if own.tile and "axes" not in changes:
                at = random.randrange(len(own.tile))
                changes["tile"] = (*own.tile[:at], _power(random), *own.tile[at + 1 :])
            case "order":
                changes["order"] = tuple(random.sample(list(own.order), len(own.order)))
            case "axes":
                changes["axes"] = axes = tuple(_parts(random, len(own.order)))
                changes["tile"] = tuple(_power(random, 6) for _ in axes)
            case "loops" if own.loops:
                at, loops = random.randrange(len(own.loops)), [*changes.get("loops", own.loops)]
                loops[at] = _gpu_loop(random, loops[at])
                changes["loops"] = tuple(loops)
            case "group":
                changes["group"] = random.choice([1, 2, 4, 8])
            case "programs":
                changes["programs"] = random.choice([0, 1, 2, 7])
    return replace(own, **changes)


def _gpu_loop(random: Random, own: gpu.LoopSchedule) -> gpu.LoopSchedule:
    choices: dict[str, list[Any]] = {
        "step": [1, _power(random), own.step * 2, max(1, own.step // 2)],
        "held": [not own.held],
        "walk": [0, 1, 2],
        "along": [-1, 0, 1],
        "fold": [0, 1, 2, 4, 8],
        "kept": [0, 1, 2, 4],
        "order": [tuple(random.sample(list(own.order), len(own.order)))],
        "evict": ["normal", "first", "last"],
        "dot": [True, False],
        "skip": [True, False],
        "segments": [True, False],
    }
    keys = random.sample(list(choices), k=random.choice([1, 1, 2]))
    loops = [_gpu_loop(random, loop) if random.random() < 0.5 else loop for loop in own.loops]
    return replace(own, **{key: random.choice(choices[key]) for key in keys}, loops=tuple(loops))


def _power(random: Random, below: int = 8) -> int:
    return 1 << random.randrange(below)


def _parts(random: Random, whole: int) -> Iterator[int]:
    while whole > 0:
        part = random.randint(1, whole)
        whole -= part
        yield part


def draw(random: Random) -> EditedSchedules:
    texts = [text for text in sources() if "memref<" not in text and "func.func @" in text]
    return EditedSchedules(random.choice(texts), random.choice(["cpu", "cuda"]), random.getrandbits(32))
