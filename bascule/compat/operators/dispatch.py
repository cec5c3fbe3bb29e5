"""The dispatcher: its keys, and the modes that stand before it. Checked on torch 2.11 to 2.14."""

from torch._C import DispatchKey, DispatchKeySet
from torch._C import _AutoDispatchBelowAutograd as AutoDispatchBelowAutograd
from torch._C import _ExcludeDispatchKeyGuard as ExcludeDispatchKeyGuard
from torch._C import _len_torch_dispatch_stack as dispatch_modes
from torch._dispatch.python import enable_python_dispatcher
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._python_dispatch import _disable_current_modes as without_dispatch_modes

__all__ = [
    "AutoDispatchBelowAutograd",
    "DispatchKey",
    "DispatchKeySet",
    "ExcludeDispatchKeyGuard",
    "TorchDispatchMode",
    "dispatch_modes",
    "enable_python_dispatcher",
    "is_traceable_wrapper_subclass",
    "without_dispatch_modes",
]
