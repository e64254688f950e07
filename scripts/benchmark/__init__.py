"""What `make bench` is made of: the peers, our server, the works that both do, and the report."""
