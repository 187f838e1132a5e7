"""From the store's tables to result tables: trends, phases, scaling, forecasts."""
