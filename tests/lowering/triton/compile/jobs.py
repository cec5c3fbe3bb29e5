"""Jobs that a fork of the compiler's process can run: it imports next to nothing for them."""

import os
import signal
from types import SimpleNamespace

from bascule.lowering.triton.compile.triton_job import Job


class Crash(Job):
    """Ends its process as an assertion of LLVM's does."""

    def run(self):
        os.kill(os.getpid(), signal.SIGABRT)


class Told(Job):
    """Its "code" is what it finds about its process."""

    def run(self):
        found = f"{os.getpid()} {os.getppid()} {os.getcwd()} {os.environ.get('TOLD')}"
        return SimpleNamespace(asm={"ttgir": found, "cubin": b""}, metadata=SimpleNamespace(name=self.name))
