"""Rules that read or write at indices: gathers, scatters, embeddings, masks, histograms."""
