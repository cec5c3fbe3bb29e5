"""Helpers over FX nodes, operators and storages that many rooms of the frontend need."""
