"""The pipeline of passes over FX graphs: the table of their names, and what runs them."""
