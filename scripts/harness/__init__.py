"""What the conformance tests and the measurements share: starting servers, ours among them, and watching what they cost."""
