"""Loop of all kinds of jobs (`job_run.JobRun`), their progress, and their state between runs."""
