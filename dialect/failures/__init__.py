"""Failures of passes: whose pass it was, at which op, and a file that shows it again; and what keeps a mistake in one from
ending the process."""
