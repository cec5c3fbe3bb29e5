"""The min-cut partitioner of forward and backward, and what it must save or may compute again."""
