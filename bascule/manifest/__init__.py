"""The manifest of a compiled graph: JSON records of its kernels and of its program. `docs/reports.md` has the schema."""
