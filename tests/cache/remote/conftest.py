"""A remote cache, and hosts that share it: each a disk cache of its own."""

import pytest

from bascule.cache.remote import remote_cache, settings
from bascule.cache.stores import process_memory
from bascule.reporting.counters import reset_counters
from tests.cache.remote.redis_server import RedisServer

SECRET = "a secret of a fleet's, 32 characters"


@pytest.fixture(autouse=True)
def untold(monkeypatch):
    """No test has used a remote cache, or was warned of one; those of a fleet share a secret."""
    monkeypatch.setenv("BASCULE_REMOTE_CACHE_KEY", SECRET)
    for cached in (remote_cache._made, settings._settings):
        cached.cache_clear()
    process_memory.forget()
    yield
    for cached in (remote_cache._made, settings._settings):
        cached.cache_clear()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A Redis server that the environment names."""
    found = RedisServer(tmp_path)
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", found.address)
    yield found
    if found.process.poll() is None:
        found.kill()


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A function: from now on this process is on another host, with an empty disk cache, where nothing was counted."""

    def moved(name):
        cache = remote_cache.remote_cache()
        assert cache is None or cache.flush()
        monkeypatch.setenv("BASCULE_CACHE_DIR", str(tmp_path / name))
        remote_cache._made.cache_clear()
        process_memory.forget()
        reset_counters()

    moved("first")
    return moved
