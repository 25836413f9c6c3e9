"""What `spark-submit` is given: it runs `binlog-stream` with the arguments that follow."""

from binlog_streaming.cli import main

main()
