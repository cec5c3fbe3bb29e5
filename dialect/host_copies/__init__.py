"""Copies of a graph function to the host and back: which they are, and when each begins and is waited for."""
