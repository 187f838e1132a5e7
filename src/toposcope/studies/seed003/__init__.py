"""The embedding report again: from its stored rows, or on your own series."""
