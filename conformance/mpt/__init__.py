"""Plays the IMAP dialogues of Apache James' test suite against a server.

The scripts are fetched when the tests run and are not part of this repository. They were written for one server.
Therefore responses are compared by meaning and not by wording: see `meaning`.
"""
