"""From a study's tables to curves to forecast, and back to tables."""
