"""Faults: a loaded server is killed, stopped, starved of space, files and memory, and its files are damaged."""
