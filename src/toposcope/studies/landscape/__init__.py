"""The study of landscapes: does the shape of the loss surface follow the loss beyond the trend."""
