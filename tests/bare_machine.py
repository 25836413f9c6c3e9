"""A machine as it is before anything is installed on it for tests: `pytest -p tests.bare_machine`.

MariaDB, Java, Maven, Chromium and container engines are not found, neither on PATH nor where the program looks besides,
and nothing has been fetched with Maven. A test that needs one of them must skip.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from pathlib import Path

_HIDDEN = re.compile(r"(java|maria|my(sql|isam)|aria_|innochecksum|mvn|chrom|google-chrome|docker|podman).*")
_IS_BARE = "BARE_MACHINE"


def _hide() -> None:
    from binlog_lab.demo.mariadb import installed
    from binlog_lab.demo.servers import fetch
    from tests import servers

    vars(installed)["EXTRA_FOLDERS"] = ()
    vars(servers)["FETCHED"] = ()
    for fetched in [one for one in vars(fetch).values() if isinstance(one, fetch.Fetched)]:
        object.__setattr__(fetched, "folder", Path("/nowhere"))
    if _IS_BARE in os.environ:  # a process of pytest-xdist has the PATH of the first one
        return
    folder = Path(tempfile.mkdtemp(prefix="bare-machine-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if not (_HIDDEN.match(program.name) or link.is_symlink()):
                link.symlink_to(program.absolute())
    os.environ["PATH"] = str(folder)
    os.environ.pop("JAVA_HOME", None)
    os.environ[_IS_BARE] = "1"


_hide()
