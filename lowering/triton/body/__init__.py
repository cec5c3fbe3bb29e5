"""The body of a kernel in TTIR: expressions, addresses, memory, random numbers, assertions."""
