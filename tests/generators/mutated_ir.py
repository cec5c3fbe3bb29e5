"""IR of the lit tests and of imported graphs with one thing or two changed, under each pass, under the default pipelines, and compiled.

A module is refused at a place, or it is taken: then it verifies after each pass, and computes what it computed before.
"""

import multiprocessing
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import torch
from bascule.dialect import passes
from bascule.dialect.failures.culprits import failure_of
from bascule.dialect.interpreter import InterpreterError
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import graph_functions
from bascule.dialect.mlir import ir
from bascule.dialect.passes import BUFFERS, EITHER, VALUES
from bascule.dialect.printing.forms import printed
from bascule.dialect.tools.parsing import chunks, parse

from bascule.debugging.run_program import is_program
from bascule.errors import UserError
from bascule.options import Options
from bascule.pipelines import DEFAULT
from bascule.tools.checking import Check, after
from bascule.tools.graphs_at_stage import import_function
from tests.generators.ir_mutations import MUTATIONS

LIT = Path(__file__).parents[2] / "lit_tests"
FOLDERS = ("tensor", "kernel", "program", "torch", "triton", "cpu", "dialect")
LONGEST = 15_000  # characters of a module
MOST = 50_000  # elements of its largest tensor
MUTATION = "mutation"
SECONDS = 60  # for all passes
UPSTREAM = ("canonicalize", "cse", "symbol-dce", "inline", "sccp", "loop-invariant-code-motion", "func.func(cse)")
ENDS = ("kernels-to-cpu", "to-triton")  # what they leave is not run here


@cache
def sources() -> list[str]:
    """Modules of the lit tests that stand for themselves."""
    found = []
    for folder in FOLDERS:
        for path in sorted((LIT / folder).glob("*.mlir")):
            found += [part for part, _ in chunks(path.read_text()) if "func.func" in part]
    known = [re.sub(r" *//.*", "", text) for text in found if len(text) <= LONGEST and largest(text) <= MOST]
    return known + imported() * 5  # more often


def imported() -> list[str]:
    """The graphs of a few functions, of static and of dynamic sizes, as the importer leaves them and at the tensor stage."""
    x, y, at = torch.randn(6, 8), torch.randn(8, 5), torch.tensor([3, 0, 5])
    functions: list[tuple[Callable[..., torch.Tensor], list[torch.Tensor]]] = [
        (lambda x, y: torch.softmax(x @ y, -1), [x, y]),
        (lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]).cumsum(0)[::2], [x]),
        (lambda x, at: x.index_add(0, at, x[at].bfloat16().float() * 2).view(-1), [x, at]),
        (lambda x: torch.nn.functional.max_pool2d(x[None], 2, 1).std(-1), [x]),
    ]
    texts = []
    for function, inputs in functions:
        for stage, dynamic in (("torch", False), ("tensor", True)):
            made = import_function(function, inputs, stage=stage, options=Options(), grad=False, dynamic=dynamic)
            texts += [module.operation.get_asm(use_local_scope=True) for module in made]
    return texts


def largest(text: str) -> int:
    """The elements of its largest tensor of static sizes."""
    most = 0
    for sizes in re.findall(r"[<\[]((?:\d+x)+)\w+", text):
        count = 1
        for size in sizes.split("x")[:-1]:
            count *= int(size)
        most = max(most, count)
    return most


@dataclass(frozen=True)
class Mutated:
    """`text` after `mutations`: numbers of `MUTATIONS`, each with a seed of its own. `on`: the pipelines, all if there are none."""

    text: str
    mutations: tuple[tuple[int, int], ...]
    on: tuple[str, ...] = ()

    def mutated(self) -> str:
        text = self.text
        for number, seed in self.mutations:
            try:
                text = MUTATIONS[number](text, Random(seed)) or text
            except Exception:  # the bindings refuse what the mutation asks of them
                continue
        return text

    def source(self) -> str:
        names = ", ".join(MUTATIONS[number].__name__ for number, _ in self.mutations)
        return f"# {names}\nTEXT = r'''{self.mutated()}'''\n"

    def smaller(self) -> Iterator["Mutated"]:
        for n in range(len(self.mutations)):
            if len(self.mutations) > 1:
                yield replace(self, mutations=self.mutations[:n] + self.mutations[n + 1 :])

    def differences(self, backend: str) -> list[str]:
        if backend != "bascule":
            return []
        return in_a_process_of_its_own(faults, self)


def in_a_process_of_its_own(function: Callable[..., None], *arguments: object) -> list[str]:
    """The faults that `function` sends; how its process dies where it does."""
    processes = multiprocessing.get_context("fork")
    ours, theirs = processes.Pipe(duplex=False)
    child = processes.Process(target=function, args=(theirs, *arguments), daemon=True)
    child.start()
    theirs.close()
    at, found = "", []
    try:
        while ours.poll(SECONDS):
            kind, said = ours.recv()
            if kind == "done":
                return found
            if kind == "at":
                at = said
            else:
                found.append(said)
        return [*found, f"hangs at {at}"]
    except EOFError:
        child.join()
        status = child.exitcode or 0
        if at == MUTATION:  # MLIR's printer, at what no parser would give it
            return []
        return [*found, f"dies of {signal.Signals(-status).name if status < 0 else status} at {at}"]
    finally:
        child.kill()
        child.join()
        ours.close()


def faults(connection: Connection, case: Mutated) -> None:
    """Sends what is wrong with how the text of `case` is taken."""
    torch.set_num_threads(1)
    connection.send(("at", MUTATION))
    text = case.mutated()

    def at(what: str, doing: Callable[[], object]) -> object:
        """Gives what `doing` does, None where it refuses; where it fails, the fault is sent."""
        connection.send(("at", what))
        try:
            return doing()
        except (UserError, ir.MLIRError) as error:
            for fault in unclear(error):
                connection.send(("fault", f"{what}: {fault}"))
        except Exception as error:  # is what is looked for
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            frame = f"{place.tb_frame.f_code.co_filename.rpartition('/')[2]}:{place.tb_lineno}" if place else ""
            connection.send(("fault", f"{what}: {frame}: {type(error).__name__}: {error}"))
        return None

    with context() as ctx:
        ctx.allow_unregistered_dialects = "foreign." in text or "mark." in text
        module = at("parse", lambda: parse(text))
        if module is not None:
            at("printing", lambda: [printed(module, form) for form in FORMS])
            checks = {name: at(f"run {name}", lambda: Check(module, name)) for name in runnable(module)}  # noqa: B023
            for pipeline in case.on or pipelines(module):
                left = at(pipeline, lambda: after(module, pipeline))  # noqa: B023
                for name in runnable(left) if left is not None else ():
                    if (check := checks.get(name)) is not None:
                        at(f"run {name} after {pipeline}", lambda: held(check, left, connection, pipeline))  # noqa: B023
    connection.send(("done", ""))


FORMS: tuple[dict, ...] = ({"pretty": True}, {"print_generic_op_form": True}, {"enable_debug_info": True})


def unclear(error: UserError | ir.MLIRError) -> Iterator[str]:
    """Tells what a refusal lacks."""
    failure = failure_of(error)
    if isinstance(error, ir.MLIRError):
        if failure is not None and failure.left:
            yield f"left {error}"
        if not error.error_diagnostics:
            yield f"no diagnostic: {error}"
    else:
        for each in getattr(error, "errors", (error,)):
            if not each.location:
                yield f"no place: {each}"
        if failure is not None and failure.left:
            yield f"left {error}"


def pipelines(module: ir.Module) -> list[str]:
    """Each pass that takes the module, and the pipelines that lead to code."""
    text = str(module.operation)
    stage = BUFFERS if "memref<" in text else VALUES
    if "!torch." in text:
        return ["torch-to-bascule", ",".join(DEFAULT), *UPSTREAM]
    alone = [name for name in passes.own_names() if passes.find(name).takes in (stage, EITHER, "") and name not in ENDS]
    gpu = [f"{name}{{target=cuda}}" for name in alone if "target" in passes.find(name).option_defaults()]
    formed = "bascule.kernel" in text and "bascule.compute" not in text
    at = DEFAULT.index("separate-outputs" if stage == BUFFERS else "choose-products" if formed else DEFAULT[1])
    before = ["isolate-kernels"] if formed else []
    whole, cuda = (",".join([*before, *names[at:]]) for names in (DEFAULT, on_gpus()))
    ends = ENDS if stage == BUFFERS else (f"{whole},kernels-to-cpu", f"{cuda},to-triton")
    return [*alone, *gpu, *UPSTREAM, whole, cuda, *ends]


@cache
def on_gpus() -> list[str]:
    """The default passes, for a GPU."""
    found = [(name, passes.find(name)) for name in DEFAULT]
    return [f"{name}{{target=cuda}}" if cls and "target" in cls.option_defaults() else name for name, cls in found]


def runnable(module: ir.Module) -> list[str]:
    """A few functions that stand for themselves."""
    return [f.attributes["sym_name"].value for f in graph_functions(module) if "sym_visibility" not in f.attributes][:3]


def held(check: Check, left: ir.Module, connection: Connection, pipeline: str) -> None:
    """Compares what `left` computes; of what nobody wrote, and the interpreter has as NaN, anything may come."""
    text = str(left.operation)
    if "!torch." in text or pipeline.endswith(ENDS) or any(unwritten(x) for x in check.results):
        return
    if "bascule.whole" in str(check.start.operation):  # which a mutation, or a draw, may have made untrue
        return
    try:
        outcome, _ = check.interpreted(left)
    except InterpreterError as error:
        connection.send(("fault", f"run after {pipeline}: no longer runs: {error}"))
        return
    if not outcome.match:
        connection.send(("fault", f"run after {pipeline}: {'; '.join(outcome.differences)}"))
    elif is_program(left) and pipeline.endswith(f"{DEFAULT[-2]},{DEFAULT[-1]}"):
        compiled = check.compiled(left)
        if not compiled.match:
            connection.send(("fault", f"compiled after {pipeline}: {'; '.join(compiled.differences)}"))


def unwritten(x: torch.Tensor) -> bool:
    return bool(x.isnan().any()) if x.is_floating_point() or x.is_complex() else bool((x == -1).any())


def draw(random: Random) -> Mutated:
    count = random.choice([1, 1, 1, 2, 3])
    mutations = tuple((random.randrange(len(MUTATIONS)), random.getrandbits(32)) for _ in range(count))
    return Mutated(random.choice(sources()), mutations)
