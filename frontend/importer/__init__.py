"""An FX graph to the torch stage of the IR: nodes, types, symbols, locations."""
