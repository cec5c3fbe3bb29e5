"""Questions about buffers: who writes them, how long they live, where they lie, what may be in place."""
