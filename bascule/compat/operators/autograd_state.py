"""The state of a thread that autograd and operators look at: hooks, autocast, settings, context variables. Checked on torch 2.11 to 2.14."""

from torch._C import _autocast_supported_devices as autocast_devices
from torch._C import _DisableAutocast as DisableAutocast
from torch._C import _get_deterministic_algorithms as deterministic_algorithms
from torch._C import _get_mkldnn_enabled as mkldnn_enabled
from torch._C import _get_obj_in_tls as thread_local
from torch._C import _is_key_in_tls as has_thread_local
from torch._C import _set_grad_enabled as set_grad_enabled
from torch._C._autograd import _get_current_graph_task_keep_graph as keeps_graph

__all__ = [
    "DisableAutocast",
    "autocast_devices",
    "deterministic_algorithms",
    "has_thread_local",
    "keeps_graph",
    "mkldnn_enabled",
    "set_grad_enabled",
    "thread_local",
]
