"""Small files that jobs keep their state in, in a folder or an object store: `StateFolder(directory)`."""

from __future__ import annotations

from pyarrow import fs


class StateFolder:
    """A directory of such files; it need not be there.

    Args:
        directory: Folder or URL.
    """

    def __init__(self, directory: str) -> None:
        if "://" in directory:
            self._files, root = fs.FileSystem.from_uri(directory)
            self._root = str(root).rstrip("/")
        else:
            self._files, self._root = fs.LocalFileSystem(), directory.rstrip("/")

    def read(self, name: str) -> bytes | None:
        """Content of a file; None: it is not there."""
        path = f"{self._root}/{name}"
        if self._files.get_file_info(path).type is not fs.FileType.File:
            return None
        with self._files.open_input_stream(path) as stream:
            return bytes(stream.read())

    def write(self, name: str, content: bytes) -> None:
        """Make a file, or put *content* in the place of what it holds; the directory is made when it is not there.

        Raises:
            OSError: It cannot be written; what was there before is there still.
        """
        self._files.create_dir(self._root, recursive=True)
        path = f"{self._root}/{name}"
        # Whole or not at all, also when the disk is full.
        with self._files.open_output_stream(f"{path}.new") as stream:
            stream.write(content)
        self._files.move(f"{path}.new", path)

    def names(self, folder: str) -> list[str]:
        """What is in a folder of it; nothing where that is not there."""
        found = self._files.get_file_info(fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True))
        return [str(info.base_name) for info in found]

    def forget(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self._files.get_file_info(f"{self._root}/{name}").type is fs.FileType.File:
            self._files.delete_file(f"{self._root}/{name}")

    def remove(self) -> None:
        """Remove the directory and all that is in it, if it is there."""
        if self._files.get_file_info(self._root).type is fs.FileType.Directory:
            self._files.delete_dir(self._root)
