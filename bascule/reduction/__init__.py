"""`bascule-reduce`: the smallest module, and the shortest pipeline, that still fails as the given one does."""
