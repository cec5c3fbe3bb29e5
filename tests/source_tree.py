"""A tree of Python sources as a graph: its modules, their imports, the rooms they stand in. Nothing is imported to see it.

A room is a folder, of which the files directly in it are part. Its `__init__` is a room of its own: it may be the face of the folder, above all
in it.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Module:
    name: str  # as it is imported
    path: Path  # relative to the tree

    @property
    def is_init(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def folder(self) -> str:
        return str(self.path.parent)

    @property
    def package(self) -> str:
        return self.name if self.is_init else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Import:
    line: int
    importer: Module
    name: str  # absolute

    def __str__(self) -> str:
        return f"{self.importer.path}:{self.line} imports {self.name}"


class Tree:
    """The sources in `packages`, folders of `root`; in Python all but the package `top` stand inside that one."""

    def __init__(self, root: Path, packages: tuple[str, ...], top: str):
        self.root, self.packages, self.top = root, packages, top
        paths = sorted(path.relative_to(root) for package in packages for path in (root / package).rglob("*.py"))
        self.modules = {name: Module(name, path) for path in paths for name in [self._name(path)]}

    def _name(self, path: Path) -> str:
        parts = path.with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        return ".".join(parts if parts[0] == self.top else (self.top, *parts))

    def parsed(self, module: Module) -> ast.Module:
        return ast.parse((self.root / module.path).read_text())

    @cached_property
    def imports(self) -> dict[Module, list[Import]]:
        """Those of each module, inside functions and for types too. `from package import name` imports the module `name` if it is one."""
        return {module: list(self._imports_of(module)) for module in self.modules.values()}

    def _imports_of(self, module: Module) -> Iterator[Import]:
        for node in ast.walk(self.parsed(module)):
            if isinstance(node, ast.Import):
                yield from (Import(node.lineno, module, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = _absolute(module.package, node.level, node.module)
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield Import(node.lineno, module, inner if inner in self.modules else base)

    def edges(self, place: Callable[[Module], str]) -> dict[str, dict[str, Import]]:
        """From each place to those it imports from, with the first such import."""
        found: dict[str, dict[str, Import]] = {}
        for module, imports in self.imports.items():
            for each in imports:
                imported = self.modules.get(each.name)
                if imported is not None and place(imported) != place(module):
                    found.setdefault(place(module), {}).setdefault(place(imported), each)
        return found


def _absolute(package: str, level: int, module: str | None) -> str:
    base = package.split(".")[: len(package.split(".")) - level + 1] if level else []
    return ".".join([*base, *([module] if module else [])])


def room(module: Module) -> str:
    return str(module.path) if module.is_init else module.folder


def circles(edges: dict[str, dict[str, Import]]) -> Iterator[str]:
    """A line for each of the shortest circles: the places, and the imports that close it."""
    seen = set()
    for start in edges:
        for following in edges[start]:
            back = _shortest(edges, following, start)
            if back and frozenset(back) not in seen:
                seen.add(frozenset(back))
                steps = zip([start, *back], back)
                yield f"{' -> '.join([start, *back])}: {'; '.join(str(edges[a][b]) for a, b in steps)}"


def _shortest(edges: dict[str, dict[str, Import]], start: str, end: str) -> list[str]:
    """The shortest way from `start` to `end`, both included; empty if there is none."""
    ways = {start: [start]}
    queue = [start]
    for place in queue:
        for following in edges.get(place, ()):
            if following not in ways:
                ways[following] = [*ways[place], following]
                queue.append(following)
    return ways.get(end, [])


def private_torch(parsed: ast.Module) -> Iterator[str]:
    """Names of private modules of PyTorch, and of `torch._C`, in imports, attributes and strings that are a name: "line: name"."""
    for node in ast.walk(parsed):
        for name in _dotted_names(node):
            if _PRIVATE.match(name):
                yield f"{node.lineno}: {name}"


# A segment with an underscore on the way to a name; at the end, after `torch` alone, it is a documented function (`torch._check`). Operators'
# names are of ATen's schemas.
_PRIVATE = re.compile(r"torch(?!\.ops\.)(\.[a-z]\w*)*\._[A-Za-z]\w*(\.\w+)*$")
_DOCUMENTED = re.compile(r"torch\._(check|assert|foreach|scaled|int_mm|grouped)\w*$")


def _dotted_names(node: ast.AST) -> Iterator[str]:
    found: list[str] = []
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        found = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Attribute):
        found = [ast.unparse(node)]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
        found = [node.value]
    yield from (name for name in found if not _DOCUMENTED.match(name))


def importing_inits(tree: Tree) -> set[str]:
    """Each `__init__` below the packages that imports anything."""
    return {
        str(module.path)
        for module, imports in tree.imports.items()
        if module.is_init and module.folder not in tree.packages and imports
    }


def undocumented(tree: Tree) -> list[str]:
    """Folders whose `__init__` is missing or has no docstring."""
    inits = {module.folder: module for module in tree.modules.values() if module.is_init}
    folders = sorted({module.folder for module in tree.modules.values()})
    return [folder for folder in folders if folder not in inits or not ast.get_docstring(tree.parsed(inits[folder]))]


def crowded(tree: Tree, most: int) -> dict[str, int]:
    """Folders with more than `most` files, their `__init__` not counted."""
    counts: dict[str, int] = {}
    for module in tree.modules.values():
        counts[module.folder] = counts.get(module.folder, 0) + (not module.is_init)
    return {folder: count for folder, count in counts.items() if count > most}


def long_functions(tree: Tree, most: int) -> set[str]:
    """Functions of more than `most` lines, from `def` to the last one, as "path function"."""
    return {
        f"{module.path} {node.name}"
        for module in tree.modules.values()
        for node in ast.walk(tree.parsed(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= most
    }
