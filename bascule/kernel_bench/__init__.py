"""`bascule bench DIR`: the kernels of a dump, each timed by itself as the program launches it.
Reading order: `dumps` (what is read), `launches` (where a kernel is stopped at), `timing`, `limits`, `checks`, `bench` (all of it), `table`."""
