"""Constants of machines that decide what is fused, cut and scheduled: one TOML file a machine, read by `measures.py`."""
