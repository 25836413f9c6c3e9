# binlog-stream. `make demo` runs the main job, `make test` passes the tests; both set everything up first.
# Everything lands in .venv; a missing Java runtime is installed through apt when that is possible.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# The oldest PySpark that CI runs; `make test-compat PYSPARK=4.0.5` tries another one.
PYSPARK ?= 4.1.4
COMPAT := .venv-pyspark-$(PYSPARK)
COMPAT_INSTALLED := $(COMPAT)/.installed
WHEEL := .venv-wheel
WHEEL_INSTALLED := $(WHEEL)/.installed
# What tests need beside the packages, without their roots.
WHEEL_TREE := build/wheel-tree
SOURCE ?= workload
SINK ?= delta
STORE ?= folder
PYTEST_ARGS ?=
# Processes of pytest: `tests/conftest.py` says which tests run in one. They are more than processors: tests that start
# processes wait for them, and two processes have tests that mostly wait for a Kafka broker.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + $(WAITING_JOBS))
WAITING_JOBS := 1
test test-thorough test-rest: WAITING_JOBS := 2
PARALLEL = -n $(JOBS) --dist loadscope --no-loadscope-reorder
KERNELS := $(VENV)/.kernels
CLASSES := $(VENV)/spark-classes.jsa
COLLECTED := $(VENV)/.collected
FETCHED := $(VENV)/.servers
# Fast tests, and those of servers, which skip where there is none.
BARE := "not spark and not thorough and (server or not slow)"
# Tests of pages, manifests and the demo: they are about a checkout, so a wheel has nothing to do with them.
OF_CHECKOUT := tests/docs tests/deploy tests/streaming/demo/test_demo.py
BARE_TESTS ?=
DEMO_LINES ?=
FUZZ_SECONDS ?= 60
FUZZ_SEED ?=
FUZZING = --seconds $$(( $(FUZZ_SECONDS) / 3 )) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED)) $(FUZZ_TARGETS)
FUZZ_TARGETS ?=
# Empty: compiled kernels are not fuzzed.
FUZZ_COMPILED ?= 1
# Of `make fuzz-servers`. Bash has a SECONDS of its own, which may be in the environment: only the one given to make counts.
SERVERS_SECONDS := $(if $(filter command,$(origin SECONDS)),$(SECONDS),120)
SEED ?= 1
# Of `make simulate`.
SEEDS ?= 1000
STEPS ?=
CANARIES ?=
# Of `make soak`.
KILLS ?=
MINUTES ?= 60
SERVER ?=

.DEFAULT_GOAL := help

# Java finds the classes of Spark in half of the time in a record of them; without one it starts all the same.
# (Of one that another PySpark has made it would warn.)
export SPARK_SUBMIT_OPTS := $(SPARK_SUBMIT_OPTS) -XX:SharedArchiveFile=$(abspath $(CLASSES)) -Xlog:disable

# Maven copies files: compiling itself as well as it can takes as long again.
MAVEN_OPTS ?= -XX:TieredStopAtLevel=1
export MAVEN_OPTS

# A process that may not keep what it has compiled of our modules compiles them at each start, and the tests start many.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help check setup prepare java demo demo-logs docs kafka servers old-servers test test-all test-thorough test-rest test-fast test-bare test-wheel test-demo test-compat soak fuzz fuzz-servers simulate check-beside lint format bench bench-peers clean

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "binlog-stream needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@echo "Setting up $(VENV) (once, about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "No virtual environment could be made; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	@touch $@

java:
	@deploy/ensure-java.sh

setup: $(INSTALLED) java ## Make the virtual environment and see that Java is there

demo: setup ## Run the main job on a live log, kill it, and compare every table with the truth (SOURCE=mariadb, SINK=iceberg or kafka, STORE=s3)
	@$(BIN)/binlog-stream demo --source $(SOURCE) --sink $(SINK) --store $(STORE)

# Kernels are compiled once, not by every process of pytest; the cache that they go to is beside their source.
$(KERNELS): $(INSTALLED) $(shell find format connector -name '*.py')
	@echo "Compiling kernels (when their source has changed)"
	@$(BIN)/python -m tests.warm_kernels
	@touch $@

# Modules of tests, too: pytest keeps what it has compiled, with what a failed assertion shows, beside their source.
$(COLLECTED): | $(INSTALLED)
	@nice $(BIN)/python -m pytest --collect-only --quiet >/dev/null
	@touch $@

$(CLASSES): $(INSTALLED) | java $(KERNELS)
	@echo "Recording which classes Spark loads (once, half a minute)"
	@rm -f $@ $@.part
	@SPARK_SUBMIT_OPTS="-XX:ArchiveClassesAtExit=$(abspath $@).part -Xlog:disable" \
		timeout 300 $(BIN)/python -m tests.spark_classes || true
	@test ! -f $@.part || mv $@.part $@ # whole, or not at all: Java does not survive half of one

demo-logs: setup ## Write a live structured log into a Delta table, kill the job, and compare every event
	@$(BIN)/binlog-stream demo-logs

servers: setup ## Fetch the S3 server, the Iceberg REST catalog and the Kafka broker that tests and the demo use, and MySQL and a newer MariaDB
	@$(BIN)/python -m binlog_lab.demo.servers.fetch
	@for kind in mysql mariadb; do deploy/fetch-server.sh $$kind $(VENV)/server-$$kind || true; done

old-servers: setup ## Fetch servers of earlier years, 5.6 to 11.4, for make fuzz-servers SERVERS=old (Maven and npm; 450 MB)
	@$(BIN)/python -m binlog_lab.demo.mariadb.old_servers

# Debian's unstable suite may change between its list and a download.
$(VENV)/server-mysql $(VENV)/server-mariadb: $(VENV)/server-%: | $(INSTALLED)
	@for attempt in 1 2 3; do if deploy/fetch-server.sh $* $@; then exit; fi; done; exit 1

# Kernels are compiled by one process, on which the classes wait: what is made beside them yields to it (nice).
prepare: setup $(KERNELS) $(COLLECTED) $(CLASSES) $(FETCHED) $(WHEEL_INSTALLED) $(COMPAT_INSTALLED) $(VENV)/server-mysql $(VENV)/server-mariadb ## Make all that CI's tests need, best side by side (make --jobs=4 prepare)

# Tests that need a server which cannot be fetched are left out.
$(FETCHED): $(wildcard deploy/rest-catalog/* deploy/kafka/* deploy/spark-kafka/* deploy/debezium/*) | setup
	@$(BIN)/python -m binlog_lab.demo.servers.fetch && touch $@ || true

test: setup $(KERNELS) $(CLASSES) $(FETCHED) ## Run the tests, the same inputs each time: ten minutes on two cores
	@$(BIN)/python -m pytest $(PARALLEL) -m "not thorough" --ignore=tests/tidy $(PYTEST_ARGS)

test-thorough: setup $(KERNELS) $(CLASSES) $(FETCHED) ## Run the long tests, which `make test` leaves out
	@$(BIN)/python -m pytest $(PARALLEL) -m thorough $(PYTEST_ARGS)

test-rest: setup $(KERNELS) $(CLASSES) $(FETCHED) ## Run the long tests, and all properties with random inputs
	@$(BIN)/python -m pytest $(PARALLEL) -m "thorough or hypothesis" --hypothesis-profile=random $(PYTEST_ARGS)

test-all: ## Run everything, with random inputs, fuzz for ten minutes, and judge old servers for twenty: each night, and before a release
	@$(MAKE) test
	@$(MAKE) test-rest
	@$(MAKE) fuzz FUZZ_SECONDS=600
	@$(MAKE) old-servers
	@$(MAKE) fuzz-servers SERVERS=old SECONDS=1200

test-fast: setup ## Run the tests that need neither Spark nor a server nor long, on all cores
	@$(BIN)/python -m pytest $(PARALLEL) -m "not spark and not server and not slow and not thorough" $(PYTEST_ARGS)

test-bare: setup ## Run the fast tests, and those that need a server, as where no MariaDB, Java, Maven and Chromium are: none may fail
	@CI= $(BIN)/python -m pytest -p tests.bare_machine $(PARALLEL) -m $(BARE) \
		--ignore=tests/tidy $(BARE_TESTS) $(PYTEST_ARGS)

# The pip of $(VENV) installs here, too: to make another one, and a newer one of that, takes seconds.
$(WHEEL_INSTALLED): pyproject.toml $(shell find format connector streaming lab -name '*.py') | $(INSTALLED)
	@echo "Setting up $(WHEEL) with the built wheel (a minute the first time)"
	@rm -rf build/wheel && $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	@test -x $(WHEEL)/bin/python || $(PYTHON) -m venv --without-pip $(WHEEL)
	@nice $(BIN)/python -m pip --python $(WHEEL)/bin/python install --quiet --no-deps --force-reinstall build/wheel/*.whl
	@nice $(BIN)/python -m pip --python $(WHEEL)/bin/python install --quiet --no-compile \
		"$$(echo build/wheel/*.whl)[all]" --group test
	@touch $@

# With what pytest has compiled of the tests, and their times, without which it would compile them anew (-a).
test-wheel: $(WHEEL_INSTALLED) $(KERNELS) java ## Run what `make test-bare` runs against the built wheel, with the roots out of the way
	@rm -rf $(WHEEL_TREE) && mkdir -p $(WHEEL_TREE) && cp -a tests bench conf docs deploy *.md *.toml Makefile $(WHEEL_TREE)
	@cd $(WHEEL_TREE) && CI= ../../$(WHEEL)/bin/python -m tests.warm_kernels $(CURDIR)
	@cd $(WHEEL_TREE) && CI= ../../$(WHEEL)/bin/python -m pytest -p tests.bare_machine $(PARALLEL) \
		-m $(BARE) --ignore=tests/tidy $(addprefix --ignore=,$(OF_CHECKOUT)) $(PYTEST_ARGS)

test-demo: setup $(KERNELS) $(FETCHED) ## Run each demo of the README, small
	@$(BIN)/python -m pytest tests/docs/test_demo_lines.py $(if $(DEMO_LINES),-k "$(DEMO_LINES)") $(PYTEST_ARGS)

$(COMPAT_INSTALLED): pyproject.toml
	@echo "Setting up $(COMPAT) (once, about a minute)"
	@test -x $(COMPAT)/bin/python || $(PYTHON) -m venv $(COMPAT)
	@$(COMPAT)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@nice $(COMPAT)/bin/python -m pip install --quiet --no-compile --editable '.[all]' 'pyspark==$(PYSPARK)' --group test
	@touch $@

test-compat: $(COMPAT_INSTALLED) $(FETCHED) java ## Run the tests of the Spark source, and of Spark's Delta and Iceberg beside our writer, on an older PySpark (PYSPARK=4.1.4)
	@PYSPARK_EXPECTED=$(PYSPARK) $(COMPAT)/bin/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder \
		-m "spark and not thorough" tests/connector tests/streaming/tables/lake/test_spark_tables.py $(PYTEST_ARGS)

soak: setup java ## Let everything fail for an hour: jobs of Delta, Iceberg and Kafka, servers, broker, S3 (MINUTES=..., SEED=..., SERVER=mysql; KILLS=50: kill the Spark driver alone; SINK=kafka: a publisher 30 times, and all else that can happen to it, or with SNAPSHOT=log while snapshots run; SNAPSHOT=log, SNAPSHOT=read: a snapshot, its job and its server 30 times)
ifeq ($(SINK),kafka)
	@$(BIN)/python -m binlog_lab.demo.servers.fetch
	@$(BIN)/python -m tests.soak.$(if $(SNAPSHOT),topic_snapshots,topics) $(if $(KILLS),--kills $(KILLS))
else ifdef SNAPSHOT
	@$(BIN)/python -m tests.soak.snapshots --method $(SNAPSHOT) $(if $(KILLS),--kills $(KILLS))
else ifneq ($(KILLS),)
	@$(BIN)/python -m tests.soak.kills --kills $(KILLS)
else
	@$(BIN)/python -m binlog_lab.demo.servers.fetch
	@$(BIN)/python -m tests.soak.lake --minutes $(MINUTES) $(if $(SERVER),--server $(SERVER)) \
		$(if $(filter command,$(origin SEED)),--seed $(SEED))
endif

fuzz: setup ## Fuzz all that reads bytes with checks of all bounds, a minute (FUZZ_SECONDS=..., FUZZ_TARGETS=..., FUZZ_SEED=...)
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m tests.fuzz $(FUZZING)
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m tests.fuzz --engine atheris $(FUZZING)
	@$(if $(FUZZ_COMPILED),NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/numba-checked $(BIN)/python -m tests.fuzz $(FUZZING))

fuzz-servers: setup ## Live random histories on servers, and see that each table is equal or named, and its messages right, two minutes (SECONDS=..., SERVERS=mariadb,FOLDER,old,..., SEED=..., ROUNDS=...; PAIRS=1: every type into every other; REPLICA=1: the log of a replica)
	@$(BIN)/python -m tests.judge --seconds $(SERVERS_SECONDS) --servers '$(SERVERS)' --seed $(SEED) \
		$(if $(PAIRS),--pairs) $(if $(REPLICA),--replica) $(if $(ROUNDS),--rounds $(ROUNDS))

simulate: setup $(KERNELS) ## Live a thousand lives of a server, a log, a faulty disk and a job, each from a seed (SEEDS=..., SEED=... tells one, STEPS=..., CANARIES=1: known bugs must be found)
	@$(BIN)/python -m binlog_lab.simulator.run --seeds $(SEEDS) $(if $(CANARIES),--canaries) \
		$(if $(filter command,$(origin SEED)),--seed $(SEED)) $(if $(STEPS),--steps '$(STEPS)')

# What CI does beside each other, the longest first: but for the wheel's tests, none of it has work for both processors
# all the time, and those have work whenever the others wait.
check-beside: WAITING_JOBS := 0
check-beside: BARE_TESTS := $(OF_CHECKOUT)
check-beside: PYTEST_ARGS := --quiet
check-beside: DEMO_LINES := not part
check-beside: ROUNDS := 2
# More than the rounds take, however much is done beside them.
check-beside: SERVERS_SECONDS := 900
# A commit is judged by the same inputs each time; `make test-all` tries others each night.
check-beside: FUZZ_SEED := 1
# All kernels would be compiled once more, with checks of bounds: in its time it came to three of the targets.
check-beside: FUZZ_COMPILED :=
check-beside: test-wheel fuzz-servers test-demo test-compat test-bare simulate fuzz

check: ## Run what CI runs (.ci/run); it installs servers through apt where they are missing
	@.ci/run

lint: $(INSTALLED) ## Check style, types and the shape of the source tree
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@nice $(BIN)/mypy
	@$(BIN)/python -m pytest --quiet tests/tidy

format: $(INSTALLED) ## Format the code
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

docs: $(INSTALLED) ## Make the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo "build/site/index.html"

bench: setup ## Measure speed; results go to bench/results/latest.json
	@$(BIN)/python -m bench

bench-peers: setup ## Measure other decoders beside this one over a real server's file (needs mariadb-server; see bench/peers)
	@$(BIN)/python -m bench.peers

clean: ## Remove what was built (not the virtual environment)
	@rm -rf build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
