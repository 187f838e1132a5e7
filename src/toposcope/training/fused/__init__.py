"""Forward and backward of the GPT family for small widths on a CPU, without autograd."""
