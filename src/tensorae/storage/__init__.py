"""What outlives a process: fitted models and the states of long fits, in files without code."""
