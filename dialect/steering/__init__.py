"""Decisions of passes that a plug-in may take instead: what it is asked, and how the passes ask."""
