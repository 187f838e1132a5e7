"""The live page: a read-only view of a store that grows, served to browsers on this machine."""

from toposcope.monitor.page.serve import beside, serve

__all__ = ["beside", "serve"]
