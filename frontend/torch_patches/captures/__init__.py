"""What Dynamo spares while it captures for Bascule."""
