"""The thread in the background is the test's: kernels are compiled when it says so."""

from collections.abc import Callable

import pytest

from bascule.tiers import background, changeover


class Beside:
    """The work that has been enqueued. `at`: the point of the change-over, by its number among all, where it is compiled."""

    def __init__(self):
        self.works: list[Callable[[], None]] = []
        self.points: list[str] = []
        self.at: int | None = None

    def reached(self, point: str) -> None:
        if len(self.points) == self.at:
            self.compile()
        self.points.append(point)

    def compile(self) -> None:
        works, self.works[:] = list(self.works), []
        for work in works:
            work()


@pytest.fixture
def beside(monkeypatch):
    found = Beside()
    monkeypatch.setattr(background, "enqueue", found.works.append)
    monkeypatch.setattr(background, "begin", lambda: None)
    monkeypatch.setattr(changeover, "reached", found.reached)
    return found
