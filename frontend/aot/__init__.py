"""AOTAutograd: how a graph is traced, decomposed, found in the cache, started again."""
