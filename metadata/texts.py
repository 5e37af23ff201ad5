"""Texts for people, made fit for the metadata database."""


def storable(text: str) -> str:
    """Make one line of a text that may quote anything: PostgreSQL's text holds no NUL and no half characters."""
    return " ".join(text.encode("utf-8", "replace").decode().replace("\0", " ").split())
