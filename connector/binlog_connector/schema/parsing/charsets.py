"""Names of character sets as statements write them: `charset_name`, `charset_of_collation_name`, `decode_statement`."""

from __future__ import annotations

from binlog_format.events.charsets import decode_text, is_known

BINARY = "binary"
UTF8MB4 = "utf8mb4"
NATIONAL = "utf8mb3"
"""Character set of NATIONAL CHAR (both vendors, until now)."""

_ALIASES = {"utf8": "utf8mb3"}


def charset_name(text: str) -> str:
    """The name that the server has for a character set: `UTF8` is `utf8mb3`."""
    name = text.lower()
    return _ALIASES.get(name, name)


def charset_of_collation_name(text: str) -> str | None:
    """Character set of a collation; None for one that goes with several (`uca1400_ai_ci`)."""
    name = charset_name(text.lower().partition("_")[0])
    return name if name == BINARY or is_known(name) else None


def decode_statement(text: bytes, charset: str | None) -> str:
    """A statement as text.

    Args:
        text: As it is in the log.
        charset: Of the client that sent it; None: UTF-8.

    Returns:
        Where the bytes are no text in *charset*, they are taken for UTF-8, and those that are not that either become
        U+FFFD: keywords are ASCII in every character set that a client can have.
    """
    try:
        return decode_text(text, charset or UTF8MB4)
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace")
