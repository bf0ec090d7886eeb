"""Anomaly scores of rows, their calibration, and which features explain them."""
