"""`bascule-lsp`: a language server for files of MLIR with our dialect. Positions come from tokens; what needs MLIR is asked of a
process apart, which may die."""
