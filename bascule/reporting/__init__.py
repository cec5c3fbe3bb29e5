"""What a compile tells: its record, summaries, counters, logs, warnings, errors on their way through Dynamo."""
