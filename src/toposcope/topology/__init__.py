"""Arrays in, diagrams and numbers out; everything enters through one gate."""
