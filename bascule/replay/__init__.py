"""A compile that begins at files of a dump that were edited: which ones those are, what may not change, the inputs kept beside them."""
