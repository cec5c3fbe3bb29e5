"""Where an FX graph is split, by what operators, and how the pieces are made."""
