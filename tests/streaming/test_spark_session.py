"""What Java is started with."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from binlog_streaming.spark_session import local_session
spark = local_session("test", settings=dict(argument.split("=", 1) for argument in sys.argv[1:]))
beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
print(*sorted(bean.getName() for bean in beans), sep="|")
"""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "collectors"),
    [
        pytest.param("", "PS MarkSweep|PS Scavenge", id="ours"),
        pytest.param("-Xss4m -XX:+UseSerialGC", "Copy|MarkSweepCompact", id="the user's"),
    ],
)
def test_a_user_s_garbage_collector_stands_alone(options: str, collectors: str) -> None:
    command = [sys.executable, "-c", SCRIPT, f"spark.driver.extraJavaOptions={options}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert printed.strip() == collectors
