"""`max_autotune`: what is measured on a GPU while a graph is compiled, within how many seconds: products beside ATen's calls, kernels."""
