"""The parts of `make bench`: the peers, the Doublet server, the works that both do, and the report."""
