"""The linear model of section 2, solved exactly: starts -> loop (sweep, update) -> the best run."""
