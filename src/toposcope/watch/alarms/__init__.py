"""The alarms of `watch`: each has its own file and a line in `registry`; `base` defines the protocol."""
