"""Questions that passes ask about the IR: index arithmetic, costs, captures, remarks. Nothing here changes a program."""
