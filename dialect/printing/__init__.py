"""Modules as text: MLIR's forms, and the pretty one, with names of values from the operators. Who reads it parses it as any other
text."""
