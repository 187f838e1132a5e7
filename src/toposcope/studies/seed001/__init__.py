"""The research plan, carried out: its runs, hypotheses and tables."""
