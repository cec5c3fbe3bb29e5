"""Rules over windows and grids of images: pooling, padding, interpolation, sampling."""
