"""Memory of a running graph: arenas, pools of result blocks, donated inputs, allocation, extents."""
