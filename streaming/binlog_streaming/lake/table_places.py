"""Places of tables: `target_uri` by their names, `store_at(uri, options)` for their files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError
from binlog_streaming.lake.folder_store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_streaming.lake.store import Store
    from binlog_streaming.settings import Mode

_UNUSUAL = re.compile(r"[^A-Za-z0-9_$-]")


def store_at(uri: str, options: Mapping[str, str], *, is_private: bool = False) -> Store:
    """The store of the table at *uri*.

    Args:
        uri: A folder, or a URL of an object store: `s3://`, `gs://`, `az://` and what obstore knows beside them.
        options: Access to the object store, under the names that its own tools have for it (`AWS_ENDPOINT_URL` ...).
        is_private: Whether files in a folder are for this user alone.
    """
    if "://" in uri:
        from binlog_streaming.lake.bucket_store import bucket_at  # obstore takes a moment to load

        return bucket_at(uri, options)
    return FolderStore(uri, is_private=is_private)


def store_by_environment(setting: str, place: str) -> Store:
    """The store at *place*, an object store with what the environment has for it. *setting*: names it in errors."""
    try:
        return store_at(place, {})
    except OptionError as error:
        raise OptionError(
            "INVALID_VALUE",
            f"{setting}: {place} cannot be reached: {error.reason}",
            hint="Access to object stores is set in the environment: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL ...",
        ) from error


def target_uri(directory: str, template: str, *, database: str, table: str, mode: Mode) -> str:
    """Place of a table.

    ASCII letters, digits, `_`, `-` and `$` of names stay; all else is `@` and four hexadecimal digits, as in MariaDB.
    """
    names = {"database": database, "table": table, "mode": str(mode)}
    filled = template.format(**{key: path_part(name) for key, name in names.items()})
    return f"{directory.rstrip('/')}/{filled.strip('/')}"


def path_part(name: str) -> str:
    """A name as part of a path."""
    # Not percent-encoding: deltalake takes a path for a URL here and for a path there, and decodes it in one of them.
    return _UNUSUAL.sub(lambda match: "".join(f"@{unit:04x}" for unit in _utf16(match[0])), name)


def _utf16(text: str) -> memoryview:
    return memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]
