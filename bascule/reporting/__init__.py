"""Reports of a compile: its record, summaries, counters, logs, warnings, errors on their way through Dynamo."""
