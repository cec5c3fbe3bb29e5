"""A compiled graph as an object: called at once or when it is ready, serialized, handed to AOTAutograd."""
