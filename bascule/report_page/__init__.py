"""One page to look at: a dump of a compile, with its records, as a file of HTML that needs nothing else."""
