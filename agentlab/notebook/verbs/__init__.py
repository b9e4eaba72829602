"""The verbs. Every module here is imported when the verbs are first needed; a new file is all that a new verb takes."""
