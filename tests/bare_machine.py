"""A machine as it is before anything is installed on it for tests: `pytest -p tests.bare_machine`.

MariaDB, Maven, Chromium and container engines are not found, neither on PATH nor where the program looks besides, and
nothing has been fetched with Maven. A test that needs one of them must skip. (Java is there: `make setup` sees to it.)
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from pathlib import Path

_HIDDEN = re.compile(r"(maria|my(sql|isam)|aria_|innochecksum|mvn|chrom|google-chrome|docker|podman).*")
_IS_BARE = "BARE_MACHINE"


def _hide() -> None:
    from binlog_lab.demo.mariadb import installed
    from binlog_lab.demo.servers import fetch
    from tests import servers

    vars(installed)["EXTRA_FOLDERS"] = ()
    vars(servers)["FETCHED"] = ()
    for name in ("S3PROXY", "REST_CATALOG", "KAFKA", "SPARK_KAFKA", "DEBEZIUM"):
        object.__setattr__(getattr(fetch, name), "folder", Path("/nowhere"))
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
    os.environ[_IS_BARE] = "1"


_hide()
