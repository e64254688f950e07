"""Shared by the conformance tests and the measurements: starting servers (also Doublet) and measuring their cost."""
