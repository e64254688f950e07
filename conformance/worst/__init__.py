"""The search for the requests that keep a worker of the server longest (docs/building.md, "The worst requests")."""
