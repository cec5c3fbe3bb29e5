"""Rules of views, rearrangements, creation and copies: what moves elements and computes none."""
