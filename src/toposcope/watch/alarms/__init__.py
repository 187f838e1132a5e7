"""The alarms of `watch`: each has a file and a line in `registry`; `base` has their protocol."""
