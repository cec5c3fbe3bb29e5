"""Rules of operators that stay calls: left to ATen, random numbers, effects, assertions."""
