"""A session keeps its names, and says what failed."""

import os

import pytest

from tests.docs.python_session import PythonSession


def test_names_stay(tmp_path):
    with PythonSession(tmp_path, dict(os.environ)) as session:
        session.run("a = 2\ndef f():\n    return a + 1\nprint('said')")
        (tmp_path / "beside.py").write_text("b = 4")
        session.run("import beside\nassert (f(), beside.b) == (3, 4)")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('before')\nraise ValueError('not so')", "ValueError: not so"),
        ("import warnings\nwarnings.warn('a warning')", "UserWarning: a warning"),
        ("import atexit, os\natexit.register(os._exit, 3)", "^"),
    ],
)
def test_what_fails_is_told(tmp_path, text, said):
    with pytest.raises(AssertionError, match=said), PythonSession(tmp_path, dict(os.environ), "-W", "error") as session:
        session.run(text)
