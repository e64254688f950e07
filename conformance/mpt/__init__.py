"""Plays the IMAP dialogues of Apache James' test suite against a server.

The scripts are fetched when the tests run and are not part of this repository. They were written for one server, so what
they say is compared in what it means and not in how it is worded: see `meaning`.
"""
