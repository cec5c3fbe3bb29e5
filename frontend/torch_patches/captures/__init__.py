"""Work that Dynamo spares while it captures for Bascule: one kind a file."""
