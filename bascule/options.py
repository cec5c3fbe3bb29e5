"""The options of `torch.compile(f, backend="bascule", mode="...", options={...})`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args, get_type_hints

from bascule.dialect.steering.hooks import Hooks
from bascule.frontend.fx_pipeline import registry as fx_registry

from .compat.versions import Internals, internals
from .errors import UserError
from .inductor_options import INDUCTORS, followed_as, is_inductors, warn_about_settings
from .option_checks import bytes_of, check_number, check_replayed, check_writable, shown
from .user_paths import user_path


def _option(default: Any, meaning: str, choices: tuple[str, ...] = (), least: int | None = None) -> Any:
    return field(default=default, metadata={"meaning": meaning, "choices": choices, "least": least})


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one `torch.compile` call. Each field's meaning, choices and default: `list_options()`."""

    pipeline: str | None = _option(
        None, "the passes to run, as `bascule-opt --pass-pipeline` takes them; None: bascule.pipelines.DEFAULT"
    )
    fallback: str = _option(
        "aten", "an operator without a rule: 'aten' calls it, 'error' names it and the user's line", ("aten", "error")
    )
    on_error: str = _option(
        "aten",
        "when the compiler itself fails on a graph: run its ATen operators one by one, give it to Inductor, or raise",
        ("aten", "inductor", "raise"),
    )
    numerics: str = _option(
        "f32",
        "f16 and bf16: 'f32' rounds where values are stored, 'eager' after every operator; where it is not given, "
        "Inductor's config.emulate_precision_casts counts",
        ("f32", "eager"),
    )
    random: str = _option(
        "philox",
        "random numbers: 'philox' draws them inside kernels, 'eager' by PyTorch's operators, the same numbers as without compiling; "
        "where it is not given, Inductor's config.fallback_random counts",
        ("philox", "eager"),
    )
    target: str = _option(
        "auto",
        "what kernels are compiled for; 'auto': where the graph's tensors are; 'interpret': a GPU, whose kernels are interpreted on CPU tensors",
        ("auto", "cpu", "cuda", "interpret"),
    )
    dump: str | None = _option(
        None,
        "a directory that receives the IR after every pass and the wrapper of each graph; where it is not given and "
        "Inductor's config.trace.enabled (TORCH_COMPILE_DEBUG=1) is on, 'bascule' in the directory of that run",
    )
    dump_inputs: str = _option(
        "shapes",
        "what 'dump' keeps of a graph's inputs at its first call: their 'values' (inputs.pt), 'shapes' with a seed and the range of integers "
        "(inputs.json), or 'none'; bascule-run --inputs takes the files",
        ("shapes", "values", "none"),
    )
    replay: str | None = _option(
        None,
        "a directory that 'dump' has written: graphs are compiled from its edited files on, after a check of what their callers rely on",
    )
    hooks: Hooks | None = _option(
        None,
        "a plug-in that takes decisions of passes: whether computes share a kernel, a kernel's schedule, the order of launches; an object of a "
        "subclass of bascule.dialect.steering.hooks.Hooks",
    )
    disable_fx_passes: tuple = _option(
        (),
        "passes over FX graphs that do not run, by their names in `bascule-opt --list-passes`: a list, or text with commas between them; those "
        "that are required are refused",
    )
    print_fx_passes: tuple = _option(
        (),
        "passes over FX graphs around which the graph is printed to the standard error: a list, or text with commas between them; 'all' stands "
        "for all of them; traces are neither loaded nor kept then",
    )
    verify: bool = _option(False, "verify the IR after every pass")
    nan_asserts: bool = _option(
        False,
        "raise AssertionError, which names the operators and their line, where inputs of a graph, or what a kernel or an operator "
        "computes, have NaN or infinities; no CUDA graphs then; where it is not given, Inductor's config.nan_asserts counts",
    )
    size_asserts: bool = _option(
        False,
        "raise AssertionError where an input of a graph has other sizes or strides than it was compiled for, for callers without "
        "Dynamo, whose guards see to that; what operators return is always checked",
    )
    index_asserts: bool = _option(
        True,
        "where an index is out of range, as eager does: on a CPU, raise RuntimeError, which names the operator and its line (so do divisions of "
        "integers by zero); on a GPU, end with a device-side assertion that names both; without, such an index is clamped; where it is not "
        "given, Inductor's config.assert_indirect_indexing counts",
    )
    profiler_mark_wrapper_call: bool = _option(
        False,
        "each call of a compiled graph is a range of torch.profiler's, with the graph's name; where it is not given, "
        "Inductor's config.profiler_mark_wrapper_call counts",
    )
    direct_calls: bool | None = _option(
        None,
        "call compiled graphs past AOTAutograd's wrappers, from their second call on, where these have nothing to do; None: with a version of "
        "PyTorch whose wrappers were read",
    )
    trace_cache: bool | None = _option(
        None,
        "keep AOTAutograd's traces on disk beside compiled graphs, where 'cache' is on; None: with a version of PyTorch that was checked",
    )
    trace_patches: bool | None = _option(
        None,
        "mend known flaws of PyTorch's tracing while a graph is traced; None: with a version of PyTorch that was checked",
    )
    cache: bool = _option(
        True, "keep compiled graphs on disk, in $BASCULE_CACHE_DIR or ~/.cache/bascule, and load them"
    )
    tiers: bool = _option(
        False,
        "run the first calls by PyTorch's operators while kernels are compiled beside them, and change over when those of a step's forward and "
        "backward are ready; no call waits for the compiler",
    )
    freezing: bool = _option(
        False,
        "inference under torch.no_grad(): the parameters and buffers of the first call become constants, and what follows from them is computed "
        "once; later changes of them are not promised to be seen; where it is not given, Inductor's config.freezing counts",
    )
    cudagraphs: bool = _option(False, "record compiled graphs as CUDA graphs and replay them; nothing to do on a CPU")
    cudagraph_shapes: int = _option(
        16,
        "for how many sizes of its inputs a graph of dynamic sizes is recorded; it runs unrecorded for further ones",
        least=0,
    )
    cudagraph_bytes: int | None = _option(
        None, "bytes of a GPU that recordings may hold before no further one is made; None: half of its memory", least=0
    )
    max_autotune: bool = _option(
        False,
        "measure, on a GPU and for static sizes, a few neighbours of the schedule of each kernel, and kernels for each matrix product beside "
        "ATen's call, and take the fastest; nothing to do on a CPU",
    )
    max_autotune_seconds: int | float = _option(
        60,
        "how long 'max_autotune' compiles and measures for a graph; what is not measured by then is chosen as without it, which a remark says",
        least=0,
    )
    memory_budget: int | float | None = _option(
        None,
        "bytes that a training step of one graph holds at its peak at most, parameters, gradients and saved tensors counted: a number, a text "
        "such as '6 GiB', or a part of the peak without a budget, such as 0.7; kept by computing again in the backward; less than the least "
        "possible is an error that names that",
    )
    memory_budget_precision: str | None = _option(
        None,
        "a precision in which a step may keep f32 activations for its backward, where the memory budget asks for it; 'bf16'",
        ("bf16",),
    )
    memory_budget_host: bool = _option(
        False,
        "keep what a step saves for its backward in the host's pinned memory, copied beside what computes, where the memory budget asks for it",
    )
    pre_grad_custom_pass: Callable | None = _option(
        None, "a function that changes the graph that Dynamo captured, a torch.fx.Graph, in place"
    )
    joint_custom_pre_pass: Callable | None = _option(
        None,
        "a function that changes the joint graph of forward and backward, or the inference graph, a torch.fx.Graph, in place",
    )
    joint_custom_post_pass: Callable | None = _option(
        None, "a function that changes the same graph, after that, a torch.fx.Graph, in place"
    )
    post_grad_custom_pre_pass: Callable | None = _option(
        None, "a function that changes each graph of ATen operators before it is compiled, a torch.fx.Graph, in place"
    )
    post_grad_custom_post_pass: Callable | None = _option(
        None, "a function that changes the same graph, after that, a torch.fx.Graph, in place"
    )

    custom_partitioner_fn: Callable | None = _option(
        None,
        "a function that splits the joint graph, a torch.fx.GraphModule, into forward and backward, called as the partitioners of "
        "AOTAutograd's partitioners are",
    )

    def __post_init__(self) -> None:
        kinds = get_type_hints(type(self))
        for f in fields(self):
            value, kind = getattr(self, f.name), kinds[f.name]
            accepted = get_args(kind) or (kind,)
            is_function = callable(value) and not isinstance(value, type)
            is_plugin = Hooks in accepted and isinstance(value, Hooks)
            if type(value) not in accepted and not (Callable in accepted and is_function) and not is_plugin:
                names = " or ".join(_NAMES.get(k) or k.__name__ for k in accepted)
                raise UserError(f"takes {names}, got {shown(value)}", location=f"option '{f.name}'")
            choices = f.metadata["choices"]
            if choices and value not in choices and not value is f.default is None:
                raise UserError(
                    f"has no value {shown(value)}", location=f"option '{f.name}'", hint=f"known: {', '.join(choices)}"
                )
            if isinstance(value, int | float):
                check_number(value, f.metadata["least"], f.name)
        if self.tiers and self.on_error == "inductor":
            raise UserError(
                "does not go with on_error='inductor', which traces: kernels are compiled beside the program",
                location="option 'tiers'",
            )
        if self.dump is not None:
            check_writable(self.dump, "dump")
        if self.replay is not None:
            check_replayed(self.replay, self.dump)
        self._check_fx_passes()
        self._check_budget()

    def _check_budget(self) -> None:
        """Raises `UserError` for a budget that is no number of bytes and no part, and for options that it does not go with."""
        budget = self.memory_budget
        if budget is None:
            if self.memory_budget_precision is not None:
                raise UserError("does nothing without 'memory_budget'", location="option 'memory_budget_precision'")
            if self.memory_budget_host:
                raise UserError("does nothing without 'memory_budget'", location=BUDGET_HOST)
            return
        if self.memory_budget_host and self.cudagraphs:
            raise UserError(
                "does not go with 'cudagraphs': copies to the host and back are not recorded",
                location=BUDGET_HOST,
                hint="leave out one of the two",
            )
        if budget <= 0 or (isinstance(budget, float) and not budget <= 1):
            raise UserError(
                f"{TAKES_BYTES}, got {shown(budget)}",
                location=BUDGET,
                hint=BYTES,
            )
        for name, why in BUDGETLESS.items():
            if getattr(self, name):
                raise UserError(f"does not go with '{name}': {why}", location=BUDGET)

    def _check_fx_passes(self) -> None:
        """Raises `UserError` for names of FX passes that nobody knows, and for one that has to run."""
        for option in FX_PASSES:
            for name in getattr(self, option):
                if option == PRINT and name == ALL:
                    continue
                try:
                    required = fx_registry.find(name).required
                except UserError as error:
                    raise UserError(error.message, location=f"option '{option}'", hint=error.hint) from None
                if option == DISABLE and required:
                    raise UserError(f"the FX pass '{name}' is required: {required}", location=f"option '{option}'")

    @property
    def internals(self) -> Internals:
        """The parts that lean on PyTorch's internals."""
        return internals(self.direct_calls, self.trace_cache, self.trace_patches)

    @property
    def checks_indices(self) -> bool:
        """Whether graphs check indices and divisors on a CPU: not those whose CPU tensors stand for a GPU's."""
        return self.index_asserts and self.target != "interpret"


_NAMES = {type(None): "None", Callable: "a function", tuple: "names of FX passes"}
_NAMES |= {Hooks: "an object of a subclass of bascule.dialect.steering.hooks.Hooks"}

BUDGET = "option 'memory_budget'"
TAKES_BYTES = "takes bytes as a whole number over 0, or a part over 0 and at most 1.0"
BYTES = "for example 6 << 30, '6 GiB' or 0.7"
BUDGET_HOST = "option 'memory_budget_host'"
# Options that a memory budget does not go with, and why.
BUDGETLESS = {
    "custom_partitioner_fn": "that function chooses what is saved",
    "tiers": "PyTorch's operators, which run the first calls, hold what they like",
}


def without_budget(options: "Options") -> "Options":
    """`options` without a memory budget."""
    return replace(options, memory_budget=None, memory_budget_precision=None, memory_budget_host=False)


# The options that name passes over FX graphs, and what stands for all of these where they are printed.
FX_PASSES = DISABLE, PRINT = "disable_fx_passes", "print_fx_passes"
ALL = "all"

# The passes of the user's own over FX graphs, by where they run, as Inductor's `config` names them too.
PRE_GRAD = ("pre_grad_custom_pass",)
JOINT = ("joint_custom_pre_pass", "joint_custom_post_pass")
POST_GRAD = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")
PASSES = (*PRE_GRAD, *JOINT, *POST_GRAD)
PARTITIONER = "custom_partitioner_fn"


@dataclass(frozen=True)
class InTurn:
    """Several passes, one after the other, where an option takes one."""

    passes: tuple[Callable, ...]

    def __call__(self, graph: Any) -> None:
        raise AssertionError("passes are run one by one")

    def uuid(self) -> list[Any] | None:
        """The `uuid`s of these passes, if each has one."""
        told = [getattr(function, "uuid", lambda: None)() for function in self.passes]
        return None if None in told else told


# What `mode` means, in options. The names are those of `torch.compile`.
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"cudagraphs": True},
    "max-autotune": {"cudagraphs": True, "max_autotune": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
    "tiered": {"tiers": True},
}


def make_options(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Options:
    """The options that `mode` stands for, changed by `options`, which may have Inductor's names: what has its like here is followed, for what
    has none there is a warning.

    Raises `UserError` for a mode, an option or a value that is not known, naming those that are.
    """
    if mode is not None and (not isinstance(mode, str) or mode not in MODES):
        raise UserError(f"there is no mode {shown(mode)}{_like(mode, MODES)}", hint=f"known: {', '.join(MODES)}")
    return Options(**{**MODES[mode or "default"], **_by_our_names(options)})


def _by_our_names(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """`options`, those that Inductor has too under their names here. Raises `UserError` for a name that is not known."""
    if options is not None and not isinstance(options, Mapping):
        raise UserError(f"takes a dictionary, got {shown(options)}", location="parameter 'options'")
    known = {f.name: f.default for f in fields(Options)}
    readings = {**dict.fromkeys(PASSES, _as_one), **dict.fromkeys(FX_PASSES, _as_names), "memory_budget": _as_bytes}
    readings |= {name: partial(_as_place, name) for name in ("dump", "replay")}
    given = {name: readings.get(name, lambda x: x)(value) for name, value in (options or {}).items()}
    for name in given.keys() - known.keys():
        value = given.pop(name)
        if not (isinstance(name, str) and is_inductors(name)):
            raise UserError(f"there is no option {shown(name)}{_like(name, known)}", hint=f"known: {', '.join(known)}")
        option, followed = followed_as(name, value, known)
        if option is not None:
            given.setdefault(option, followed)
    return given


def _as_names(given: Any) -> Any:
    """Names in a list, or in a text with commas between them, as a tuple in alphabetical order: options that mean the same are equal."""
    names = [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given
    if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in names):
        return given
    return tuple(sorted(set(names)))


def _as_bytes(given: Any) -> Any:
    """A text such as "6 GiB", "512MiB" or "1.5 GB" as bytes; what is no text as it is. Raises `UserError` for another text."""
    if given is not None and type(given) not in (int, float, str):
        raise UserError(f"{TAKES_BYTES}, got {shown(given)}", location=BUDGET, hint=BYTES)
    if not isinstance(given, str):
        return given
    found = bytes_of(given)
    if found is None:
        raise UserError(
            f"{shown(given)} is no number of bytes",
            location=BUDGET,
            hint="for example '6 GiB', '512 MiB', '1.5 GB' or '100000 B'",
        )
    return found


def _as_place(option: str, given: Any) -> Any:
    """A text that is a path, from the home directory on that it begins with."""
    return user_path(given, f"option '{option}'") if isinstance(given, str) else given


def _as_one(given: Any) -> Any:
    """Passes in a list or a tuple as one; without any, None."""
    if not isinstance(given, list | tuple) or not all(callable(function) for function in given):
        return given
    return InTurn(tuple(given)) if given else None


def options_for(mode: str | None = None, options: Mapping[str, Any] | None = None) -> Options:
    """Calls `make_options`; where `options` leave them open, settings that `INDUCTORS` names and the user's passes are those of
    Inductor's `config`."""
    from .compat.graphs.dynamo import get_debug_dir
    from .compat.inductor.settings import config

    make_options(mode, options)  # what the user gave is refused before it is mixed with anything
    asked = {option: value for setting, (option, value) in INDUCTORS.items() if attrgetter(setting)(config)}
    warn_about_settings({*INDUCTORS, *PASSES, PARTITIONER})
    asked["index_asserts"] = config.assert_indirect_indexing
    if config.trace.enabled:  # TORCH_COMPILE_DEBUG=1
        asked["dump"] = str(Path(get_debug_dir()) / "bascule")
    return make_options(mode, {**asked, **inductors_passes((*PASSES, PARTITIONER)), **_by_our_names(options)})


def inductors_passes(names: tuple[str, ...]) -> dict[str, Callable]:
    """Those of the passes `names` that Inductor's `config` has."""
    from .compat.inductor.settings import config

    return {name: getattr(config, name) for name in names if getattr(config, name, None) is not None}


def list_options() -> dict[str, str]:
    """Option name -> its meaning, its choices and its default."""
    lines = {}
    for f in fields(Options):
        choices = f"; one of {', '.join(f.metadata['choices'])}" if f.metadata["choices"] else ""
        lines[f.name] = f"{f.metadata['meaning']}{choices} (default: {f.default})"
    return lines


def list_modes() -> dict[str, dict[str, Any]]:
    """Mode name -> the options it stands for."""
    return {name: dict(options) for name, options in MODES.items()}


def _like(name: Any, known: Any) -> str:
    close = get_close_matches(name, known, n=1) if isinstance(name, str) else []
    return f" (did you mean '{close[0]}'?)" if close else ""
