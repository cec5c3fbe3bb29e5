"""Entries on a Redis server, by redis-py (5 to 8): a string each, which the server deletes when its time is over."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .client import Unreachable


class RedisClient:
    """`timeout`: seconds to wait for a connection, and for each answer. What fails is not tried again: that would take as long once more."""

    def __init__(self, address: str, timeout: float):
        never = Retry(NoBackoff(), 0)
        limits = {"socket_timeout": timeout} | (
            {} if address.startswith("unix") else {"socket_connect_timeout": timeout}
        )
        self._redis = redis.Redis.from_url(address, retry=never, **limits)

    def get(self, names: Sequence[str], most: int) -> list[bytes | None]:
        pipeline = self._redis.pipeline(transaction=False)
        for name in names:
            pipeline.getrange(_key(name), 0, most - 1)
        with _reached():
            found = pipeline.execute(raise_on_error=False)
        refusal = next((x for x in found if isinstance(x, redis.ResponseError) and not _of_another_type(x)), None)
        if refusal is not None:
            raise refusal
        return [(x or None) if isinstance(x, bytes) else b"" for x in found]

    def put(self, entries: Mapping[str, bytes], life: int) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for name, content in entries.items():
            pipeline.set(_key(name), content, ex=life)
        with _reached():
            pipeline.execute()


def _key(name: str) -> str:
    return f"bascule/{name}"


def _of_another_type(error: Exception) -> bool:
    """Whether what lies there is no string: an entry that is damaged, not a server that refuses."""
    return str(error).startswith("WRONGTYPE")


@contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except redis.AuthenticationError:
        raise  # a kind of `ConnectionError`, from a server that is there
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise Unreachable(str(error)) from error
