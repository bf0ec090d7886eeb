"""The meta-algorithm of section 3: any autoencoder, once per cluster."""
