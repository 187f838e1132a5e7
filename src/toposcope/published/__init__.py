"""What papers published and an analysis can use: their rules for forecasts and for phases."""
