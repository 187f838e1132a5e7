"""Published claims about the topology of networks, tested again on models that are trained here."""
