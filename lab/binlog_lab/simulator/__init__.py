"""The simulator: lives of a server, its log, a faulty disk, a broker and a job, in one process, each from one seed.

A life (`life.Life`) is a script (`script.Script`) of steps with seeds of their own, so that steps can be left out:

    model server  ->  its files  ->  what a reader sees  ->  the job  ->  tables  ->  verdict
    server.py         server_log     visible_folder.py      (real)       (real)      verdict.py

* `server.ModelServer`: tables as dictionaries; its tables after each group are the expected ones. Its log is written by
  the encoders and the writers of the laboratory: classic files of both vendors, `.ibb` files with out-of-band data.
  Transactions (`statements.Draft`) have savepoints, end in ROLLBACK, or are prepared by XA; tables are dropped and
  renamed; the log is reset; a replica with other files takes over.
* `visible_folder.VisibleFolder`: the reader's folder gets the server's files late, torn at any byte, names before
  contents, purges late.
* The job is the product's own `TablesJob`, or `TopicsJob`, with all that it calls: tailer, planner, readers, plan,
  modes, the Delta writer, publisher, job record, checkpoint. Seams are those that are there anyway: the session that a
  job may be given (`scheduler.ModelSession` in place of Spark's), the clients of Kafka (`topics.lived_topics`) and of
  object stores (`stores.model_bucket`), calls of the operating system (`disk.Disk`), the clock, ids and executors
  (`machine.one_machine`). The product knows nothing of it.
* `disk.Disk`: real files, below /dev/shm; each call that changes one can end the process, fail, or lose the power of
  the machine, with all that was not forced to the disk. Calls that read the log let the server go on meanwhile.
* `topics.model_broker.ModelBroker`: a broker in memory, with requests and replies that are lost or late.
* `stores.model_bucket.ModelBucket`: an object store in memory, whose requests are refused, late, or done unanswered.
* After each run that ended: tables and topics are those of the server at the job's GTID. After an error: it is named,
  and what it states is true of this life. When faults end, the job reaches the end of the log within three runs.
* `canaries`: known bugs put into the product; each must be found. `run.WANTED`: what a thousand lives must reach.

A seed is one life on every machine: no wall clock, no order of hashes, no threads.
"""
