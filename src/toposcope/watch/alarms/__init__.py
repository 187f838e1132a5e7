"""The alarms of a watch: one file each, one line each in `registry`, one protocol in `base`."""
