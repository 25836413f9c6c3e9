"""Settings of a job whose sources are topics: `TopicTablesJob` and its section; its sink is that of `model.Job`."""

from __future__ import annotations

from typing import Literal

from binlog_streaming.settings.model import Metrics, Section, Sink, TableRule
from binlog_streaming.settings.publish_model import Security


class TopicSource(Section, frozen=True):
    """`[source]`: the brokers, and topics that `publish` has written, with schemas.

    Attributes:
        kind: What kind of source this is.
        bootstrap_servers: Some of the brokers: `host:port,host:port`.
        topics: Comma separated regular expressions, each for the whole name of a topic.
        security: How brokers are trusted, and who we are for them.
    """

    kind: Literal["kafka"]
    bootstrap_servers: str
    topics: str
    security: Security = Security()


class TopicTablesJob(Section, frozen=True):
    """A job file whose source are topics and whose sink are tables.

    Attributes:
        name: What the job is called in messages and metrics; default: the file's name.
        checkpoint: Folder, or URL, that holds how far the job has come.
    """

    source: TopicSource
    sink: Sink
    checkpoint: str
    name: str = "binlog-stream"
    metrics: Metrics = Metrics()
    tables: tuple[TableRule, ...] = (TableRule(),)
