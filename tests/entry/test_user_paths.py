"""A `~` before a path is a home directory wherever a user gives one: no folder of that name is made."""

import os

import pytest
import torch

import bascule
from bascule.cache.disk import directory
from bascule.cache.remote.settings import settings
from bascule.errors import CacheWarning, UserError
from bascule.user_paths import in_home


def model(x):
    return torch.sin(x) * 2


def compiled(x, backend="bascule", **options):
    torch._dynamo.reset()
    return torch.compile(model, backend=backend, options=options)(x)


def exported(path):
    bascule.aot_compile(torch.export.export(Module(), (torch.ones(3),)), path)
    return bascule.aot_load(path)


class Module(torch.nn.Module):
    def forward(self, x):
        return model(x)


GIVEN = {
    "dump": lambda x, path: compiled(x, dump=path),
    "replay": lambda x, path: (compiled(x, dump=path), compiled(x, replay=path)),
    "directory": lambda x, path: compiled(x, backend="bascule_dump", directory=path),
    "aot_compile": lambda x, path: exported(f"{path}.bascule"),
    "report": lambda x, path: bascule.report(model, x, path=f"{path}.html"),
    "report's dump": lambda x, path: bascule.report(model, x, path="report.html", options={"dump": path}),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_path_begins_at_home(kind, tmp_path, monkeypatch):
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    GIVEN[kind](torch.ones(5), "~/mine")
    assert [name for name in os.listdir(home) if name.startswith("mine")]
    assert set(os.listdir(here)) <= {"report.html"}
    with pytest.raises(UserError, match="there is no home directory '~no-such-user'"):
        GIVEN[kind](torch.ones(5), "~no-such-user/mine")
    assert set(os.listdir(here)) <= {"report.html"}


def test_a_folder_of_that_name_is_named_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compiled(torch.ones(5), dump="./~")
    assert os.listdir(tmp_path) == ["~"] and os.listdir("./~")


@pytest.mark.parametrize("text", ["a/~", "./~", "", "/~"])
def test_a_tilde_elsewhere_is_a_name(text):
    assert in_home(text) == text


def test_a_cache_without_its_home_is_told(monkeypatch):
    directory._homeless.cache_clear()
    monkeypatch.setenv("BASCULE_CACHE_DIR", "~no-such-user/kept")
    with pytest.warns(
        CacheWarning, match="BASCULE_CACHE_DIR is '~no-such-user/kept', but there is no such home directory"
    ):
        assert directory.root() is None
    monkeypatch.setenv("BASCULE_REMOTE_CACHE", "~no-such-user/shared")
    monkeypatch.setenv("BASCULE_REMOTE_CACHE_KEY", "k" * 64)
    with pytest.warns(CacheWarning, match="for '~no-such-user/shared' there is no such home directory"):
        assert settings() is None
