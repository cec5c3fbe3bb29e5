"""Whose numbers are wrong in a model that runs: which graph, which pass over it, which fusion that the pass left."""
