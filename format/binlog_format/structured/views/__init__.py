"""View `logs`: one row for each event of a structured log; start with `view.LogsView`."""
