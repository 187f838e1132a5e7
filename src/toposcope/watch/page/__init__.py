"""The live page: a read-only view of a store that grows, served to browsers on this machine."""
