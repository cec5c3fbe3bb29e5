"""The layer between a caller and compiled graphs at run time: direct calls, hooks of saved tensors, tangents."""
