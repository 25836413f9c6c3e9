"""Row events that MariaDB 12.3 has cut into fragments (`binlog_row_event_fragment_threshold`), and made whole again."""
