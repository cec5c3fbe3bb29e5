"""Rules of reductions, scans, normalizations, softmax and losses."""
