"""The study of known exponents: can topology predict the scaling exponents of simulated families."""
