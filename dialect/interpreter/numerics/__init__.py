"""How exactly the interpreter computes, and how near to each other the results of two runs have to be."""
