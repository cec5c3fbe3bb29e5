"""The remote cache as the environment says now: where it is, the secret of those who share it, and its bounds."""

import hmac
import os
import re
import warnings
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from ...errors import CacheWarning
from ...user_paths import in_home

VARIABLE, KEY_VARIABLE = "BASCULE_REMOTE_CACHE", "BASCULE_REMOTE_CACHE_KEY"
LEAST = 32  # characters of a secret: who has entries can try secrets on them
# variable -> default
SECONDS = (
    "BASCULE_REMOTE_CACHE_TIMEOUT",
    2.0,
)  # that a look-up may take, and what is left to write at the end of the process
BYTES = ("BASCULE_REMOTE_CACHE_LIMIT", 64 << 20)  # of one entry
LIFE = (
    "BASCULE_REMOTE_CACHE_TTL",
    30 * 24 * 3600,
)  # seconds for which an entry is taken, and kept where the server deletes them
_PASSWORD = re.compile(r"(?<=://)[^/@]*@|(?<=[?&])[^&=]*(?:password|secret|token|key)[^&=]*=[^&]*", re.IGNORECASE)


@dataclass(frozen=True)
class Settings:
    """`address`: a URL or a folder; `key`: what signs entries; `timeout`: seconds; `limit`: bytes of an entry; `life`: its seconds."""

    address: str
    key: bytes
    timeout: float
    limit: int
    life: int

    @property
    def shown(self) -> str:
        """The address without a password."""
        return _PASSWORD.sub("", self.address)


def settings() -> Settings | None:
    """None where no remote cache is asked for, or where the environment does not say whose entries count: of that the user is warned once."""
    address = os.environ.get(VARIABLE, "")
    if not address:
        return None
    return _settings(
        address, os.environ.get(KEY_VARIABLE, ""), *(os.environ.get(name, "") for name, _ in (SECONDS, BYTES, LIFE))
    )


@cache
def _settings(address: str, secret: str, timeout: str, limit: str, life: str) -> Settings | None:
    if len(secret) < LEAST:
        reason = f"has fewer than {LEAST} characters" if secret else "is not set"
        warnings.warn(
            f"the remote cache that {VARIABLE} names is not used: {KEY_VARIABLE} {reason}. Its entries are code: those count that are signed "
            f"with the same secret of {LEAST} characters or more, in that variable of all who share the cache",
            CacheWarning,
            stacklevel=2,
        )
        return None
    if "://" not in address:
        place = in_home(address)
        if place is None:
            warnings.warn(
                f"the remote cache that {VARIABLE} names is not used: for '{address:.200}' there is no such home directory",
                CacheWarning,
                stacklevel=2,
            )
            return None
        address = os.path.abspath(place)
    numbers = [
        _number(variable, default, text)
        for (variable, default), text in ((SECONDS, timeout), (BYTES, limit), (LIFE, life))
    ]
    key = hmac.new(secret.encode(errors="surrogateescape"), b"bascule remote cache", sha256).digest()
    return Settings(address, key, numbers[0], int(numbers[1]), int(numbers[2]))


def _number(variable: str, default: float, text: str) -> float:
    if not text:
        return default
    least, bound = (1, "from 1 on") if isinstance(default, int) else (0, "above 0")
    if re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text) and (number := float(text)) > 0 and number >= least:
        return number
    warnings.warn(
        f"${variable} is '{text:.50}', which is no number {bound}: {default:.0f} it is", CacheWarning, stacklevel=2
    )
    return default
