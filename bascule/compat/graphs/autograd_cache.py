"""AOTAutograd's cache of traces, and what it takes. Checked on torch 2.11 to 2.14."""

from torch._functorch._aot_autograd.autograd_cache import (
    AOTAutogradCache,
    BypassAOTAutogradCache,
    check_cacheable,
    should_bundle_autograd_cache,
    should_use_local_autograd_cache,
    should_use_remote_autograd_cache,
)
from torch._functorch._aot_autograd.schemas import AOTAutogradCacheInfo, SerializableAOTDispatchCompiler

__all__ = [
    "AOTAutogradCache",
    "AOTAutogradCacheInfo",
    "BypassAOTAutogradCache",
    "SerializableAOTDispatchCompiler",
    "check_cacheable",
    "should_bundle_autograd_cache",
    "should_use_local_autograd_cache",
    "should_use_remote_autograd_cache",
]
