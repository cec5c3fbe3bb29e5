"""Operators and what decides how one runs: schemas, custom operators, dispatch, decompositions, the state of a thread."""
