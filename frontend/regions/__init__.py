"""Repeated regions, the layers of a model: found in Dynamo's graph, traced by AOTAutograd once, and put into the joint graph wherever they
were. Nothing after the trace knows of them."""
