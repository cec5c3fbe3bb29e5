"""Collectives of a graph function: what each sends, in which order all ranks begin them, how long they take, what computes meanwhile. Asks and
computes only; the passes move what it decides."""
