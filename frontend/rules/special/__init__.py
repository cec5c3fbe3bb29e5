"""Rules of special functions: gamma, Bessel, zeta, orthogonal polynomials."""
