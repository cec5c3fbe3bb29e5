"""PyTorch to the dialect: AOTAutograd's graphs, passes over FX graphs, import into the torch dialect, conversion to `bascule`."""
