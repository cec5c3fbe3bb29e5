"""One traced graph to a function: prepared, whole or split, frozen; what runs it where it does not compile."""
