"""The linear engine: mixture, statistics, families, passes, EM, search and selection."""
