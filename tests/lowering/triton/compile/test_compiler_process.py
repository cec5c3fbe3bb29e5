"""Kernels compiled by forks of a process that has loaded Triton."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from threading import Thread
from unittest.mock import Mock

import pytest
import torch
from bascule.dialect.errors import CompilerError, UserError
from bascule.dialect.ir.functions import functions, kernel_op
from bascule.dialect.mlir import ir
from bascule.lowering.triton import compile_kernel
from bascule.lowering.triton.compile import compiler_process, programs
from bascule.lowering.triton.compile.compilation import machine_code
from bascule.lowering.triton.compile.compiler_process import COMPILER, CompilerProcess, JobFailed
from bascule.lowering.triton.compile.lowering_job import Lowered
from bascule.lowering.triton.compile.programs import lower_kernels

from tests.lowering.triton.check import lowered, program

from .jobs import Crash, Told


def told(process: CompilerProcess) -> list[str]:
    return process.run(Told("told", "", 90, {}))


@pytest.fixture
def process():
    made = CompilerProcess()
    yield made
    made.forget()


@pytest.fixture(scope="module")
def kernel():
    (made,) = lowered(program(lambda x: torch.softmax(x * 2, -1), torch.randn(8, 100))).values()
    return made


def test_the_code_is_that_of_this_process(kernel):
    code, own = machine_code(kernel, 90), compile_kernel(kernel, 90)
    assert code.cubin == own.asm["cubin"]
    assert (code.entry, code.warps, code.shared) == (own.metadata.name, own.metadata.num_warps, own.metadata.shared)


def test_each_kernel_has_a_fork(process):
    process.start()
    first, second = told(process), told(process)
    assert first[0] != second[0] and first[1] == second[1] == str(process.process.pid)


def test_a_fork_has_what_is_set_now(process, monkeypatch, tmp_path):
    """The process began before."""
    told(process)
    monkeypatch.setenv("TOLD", "now")
    monkeypatch.chdir(tmp_path)
    assert told(process)[2:] == [str(tmp_path), "now"]


def test_what_triton_raises_names_the_kernel(kernel):
    bad = replace(kernel, ttir=kernel.ttir.replace("tt.return", "tt.unknown_operation"), location="model.py:7:0")
    with pytest.raises(
        CompilerError, match=rf"does not compile kernel '{kernel.name}' \(model.py:7:0\) for sm_90: \w+Error: "
    ):
        machine_code(bad, 90)


def test_a_crash_is_of_one_kernel(process, kernel, monkeypatch):
    with pytest.raises(JobFailed, match="a crash, or no memory"):
        process.run(Crash("crash", "", 90, {}))
    assert told(process)[1] == str(process.process.pid)
    monkeypatch.setattr(compiler_process.CompilerProcess, "run", lambda self, job: process.ask(Crash("c", "", 90, {})))
    with pytest.raises(CompilerError, match=f"kernel '{kernel.name}'.*its process ended at once"):
        machine_code(kernel, 90)


def test_a_process_that_is_gone_is_begun_again(process):
    """It ends when it is idle; whoever asks at that moment, many at once too, has an answer."""
    first = told(process)[1]
    os.kill(int(first), signal.SIGKILL)
    answers = []
    threads = [Thread(target=lambda: answers.append(told(process)[1])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 4 and first not in answers and set(answers) == {str(process.process.pid)}


def test_an_idle_process_ends(monkeypatch):
    """Once nobody has asked for a while, or can."""
    code = compiler_process.CODE.replace("main()", "import {module} as m; m.IDLE = 0.01; main()")
    monkeypatch.setattr(compiler_process, "CODE", code)
    process = CompilerProcess()
    process.start()
    first = process.process
    assert first.wait(60) == 0
    process.start()
    assert process.process is not first, "the next graph has one that loads while the passes run"
    assert told(process)[1] != str(first.pid)
    process.forget()


@pytest.mark.parametrize("how", ["ends", "missing", "no fork", "no socket"])
def test_where_no_process_can_be_had(process, kernel, monkeypatch, how):
    """Kernels are compiled in this one, and the user is told once."""
    if how == "no fork":
        monkeypatch.delattr(os, "fork")
    elif how == "no socket":
        monkeypatch.setattr(socket, "socketpair", Mock(side_effect=OSError(24, "Too many open files")))
    else:
        monkeypatch.setattr(sys, "executable", "/bin/false" if how == "ends" else "/nowhere/python")
    monkeypatch.setattr(
        compiler_process.CompilerProcess, "run", lambda self, job, run=CompilerProcess.run: run(process, job)
    )
    reason = {
        "ends": r"ends at its start \(status 1\)",
        "missing": "No such file",
        "no fork": "no process that forks",
        "no socket": "Too many open files",
    }[how]
    process.start()
    with pytest.warns(RuntimeWarning, match=f"{reason}.*compiled in this process") as caught:
        first, second = machine_code(kernel, 90), machine_code(kernel, 90)
    assert first.cubin == second.cubin and [w.category for w in caught].count(RuntimeWarning) == 1, [
        str(w.message) for w in caught
    ]


SCRIPT = """
import os, sys
from bascule.lowering.triton.compile.compiler_process import COMPILER
assert not {"torch", "torch_mlir", "triton"} & sys.modules.keys()
COMPILER.start()
print(COMPILER.process.pid, flush=True)
END
"""


@pytest.mark.parametrize(
    "end", ["", "os._exit(0)", "os.kill(os.getpid(), 9)", "import time; time.sleep(3); os.kill(os.getpid(), 9)"]
)
def test_it_ends_with_who_began_it(end):
    script = [sys.executable, "-c", SCRIPT.replace("END", end)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as begun:
        pid = int(begun.stdout.readline())
        assert not begun.stderr.read()  # which is open until the process has ended too
    until = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}/stat") and " Z " not in open(f"/proc/{pid}/stat").read():  # noqa: SIM115
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_fork_of_the_users_has_its_own():
    own = told(COMPILER)[1]
    if (child := os.fork()) == 0:
        status = 1
        try:
            status = 0 if told(COMPILER)[1] != own else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0 and told(COMPILER)[1] == own


def test_it_tells_what_it_has_loaded(process):
    """Without being asked: first Triton, then what lowers to it."""
    assert not any(map(process.has_loaded, compiler_process.PARTS))
    process.start()
    until = time.monotonic() + 60
    while not process.has_loaded("lowering_job"):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert process.loaded == set(compiler_process.PARTS)
    assert len(os.listdir(f"/proc/{process.process.pid}/task")) == 1  # a thread would be missing in a fork


@pytest.fixture
def many(monkeypatch):
    """The kernels of a program, which forks lower."""
    monkeypatch.setattr(programs, "MANY", 1)
    monkeypatch.setattr(programs, "processors", lambda: 4)
    monkeypatch.setattr(programs.COMPILER, "has_loaded", lambda part: True)


FUNCTIONS = {
    "rows": lambda x: x.softmax(-1).softmax(0).cumsum(0).amax(-1),
    "products": lambda x: (x @ x.mT).relu() @ x,
    "float8, of which PyTorch tells what is too large": lambda x: (
        (x.cumsum(0) * 1e4).to(torch.float8_e5m2).float().cumsum(1)
    ),
}


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forks_lower_to_the_same(many, monkeypatch, name, mode):
    """Text, locations, variants and launches; and none is lowered here but what needs PyTorch."""
    module = program(FUNCTIONS[name], torch.randn(40, 50), tracing_mode=mode)
    here, real = [], Lowered.of
    monkeypatch.setattr(Lowered, "of", lambda function: here.append(function) or real(function))
    told: list[str] = []
    monkeypatch.setattr(programs.log, "debug", lambda text, *arguments: told.append(text % arguments))
    found = lower_kernels(module)
    assert (
        ("float8" in name) == bool(here) == any("lowered in this process: ModuleNotFoundError" in line for line in told)
    )
    with monkeypatch.context() as patch:
        patch.setattr(programs, "MANY", 1000)
        wanted = lower_kernels(module)
    assert found == wanted and found.kernels


def test_a_refusal_of_a_fork_is_told_with_its_line(many):
    module = program(lambda x: x.cumsum(0).softmax(-1), torch.randn(40, 50))
    (first, *_) = (f for f in functions(module) if kernel_op(f) is not None)
    with module.context:
        kernel_op(first).attributes["schedule"] = ir.Attribute.parse(
            str(kernel_op(first).attributes["schedule"]).replace("warps = ", "warps = 3")
        )
    refused: dict[str, Exception] = {}
    kernels = lower_kernels(module, refused.__setitem__).kernels
    assert list(refused) == [first.attributes["sym_name"].value] and isinstance(*refused.values(), UserError)
    assert kernels and not kernels.keys() & refused.keys()
    with pytest.raises(UserError, match="warps"):
        lower_kernels(module)
