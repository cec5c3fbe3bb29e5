"""From a function to graphs: Dynamo, AOTAutograd with its cache and its partitioner, expressions of sizes, logs."""
