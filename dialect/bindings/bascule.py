"""MLIR's bindings import this when they first meet an op of the `bascule` dialect; its classes are in `dialect/ir`."""
