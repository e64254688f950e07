"""The load of the crash loop and of the faults: mail is sent and changed, with a model of what the server must have."""
