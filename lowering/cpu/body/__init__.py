"""The body of a kernel on a CPU: its schedule as read, emission op by op, guards, loops that repeat."""
