"""Command-line tools that need PyTorch: `bascule-import`."""
