"""A Redis server of a test's own, on a free port of this machine, without a file; it can be stopped, go on, and be killed."""

import shutil
import signal
import socket
import subprocess
import time

import pytest

COMMAND = shutil.which("redis-server")
needed = pytest.mark.skipif(COMMAND is None, reason="there is no redis-server here: `apt-get install redis-server`")


class RedisServer:
    def __init__(self, folder, **settings):
        import redis

        self.port = _free_port()
        named = {"port": self.port, "bind": "127.0.0.1", "dir": folder, "save": "", "appendonly": "no", **settings}
        words = [word for name, value in named.items() for word in (f"--{name}", str(value))]
        self.process = subprocess.Popen([COMMAND, *words], stdout=subprocess.DEVNULL)
        self.address = f"redis://127.0.0.1:{self.port}/0"
        self.own = redis.Redis(port=self.port, password=settings.get("requirepass"), protocol=2)
        self._answers()

    def _answers(self):
        import redis

        for _ in range(300):
            try:
                return self.own.ping()
            except redis.ConnectionError:
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def entries(self, kind=""):
        """Returns the entries that it has, by name."""
        return {name.decode(): self.own.get(name) for name in self.own.keys(f"bascule/{kind}*")}

    def put(self, name, content):
        self.own.set(name, content)


def _free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
