"""Rules that convert ATen operators to the dialect, a folder a family."""
