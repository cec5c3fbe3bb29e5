"""A graph written down as a program, run again, compared with eager, drawn and minified."""
