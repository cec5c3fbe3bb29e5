"""Calls of a graph of Dynamo's, before AOTAutograd traces it: their operators, the memory they write, the values that are the same at every
run."""
