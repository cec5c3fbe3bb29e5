"""`bascule-opt` and what command lines share: parsing, output, diagnostics, and the reference of passes and ops."""
