"""A step of training on several ranks: what a profile has of it, in which order hooks begin collectives, and the prediction for the whole."""
