# Two commands: `make demo` and `make test`.  Each sets itself up in .venv; Python 3.11 or newer is all they need.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow test-plain screenshots lint types bench bench-full bench-rows bench-programs bench-baselines bench-memory bench-figures guard fuzz hpc study-acs clean
demo: .venv/installed
	$(BIN)/gpuanon demo

test: .venv/installed-test
	@rm -f .venv/compiled-tests
	GPUANON_TESTS_COMPILED=.venv/compiled-tests $(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow"

# The tests of the last `make test` that reached compiled functions, again without these.
test-plain: .venv/installed-test
	@test -s .venv/compiled-tests || { echo "no test reached compiled functions: run make test first, with numba" >&2; exit 2; }
	GPUANON_COMPILED=0 $(BIN)/python -m pytest -n 2 --dist worksteal -q @.venv/compiled-tests

# Real clusters, kills, broken kernels, browsers, statistical confirmations, every method in every way, most random cases.
test-slow: .venv/installed-test
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m slow

# The pages as a browser shows them, for the README.
screenshots: .venv/installed-test
	GPUANON_SCREENSHOTS=bench/screenshots $(BIN)/python -m pytest -q tests/report/test_browser.py

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-test
	$(BIN)/mypy

# Time and quality of every kernel and method, in less than ten minutes; bench-full adds the large sizes (hours).
BENCH = $(BIN)/python -m pytest bench -o addopts= -p no:cacheprovider --benchmark-only --benchmark-columns=min,rounds -q
bench: .venv/installed-test
	@mkdir -p bench/results
	$(BENCH) --benchmark-json=bench/results/bench.json
	$(BIN)/python bench/figures.py

bench-full: .venv/installed-test
	@mkdir -p bench/results
	$(BENCH) --full --benchmark-json=bench/results/bench-full.json
	$(BIN)/python bench/figures.py

# Time against rows up to ten million, of every method and grouping that works in blocks.
bench-rows: .venv/installed-test
	@mkdir -p bench/results
	$(BENCH) --full -k "blocked_methods or default_groups or other_groups" --benchmark-json=bench/results/bench-rows.json
	$(BIN)/python bench/figures.py

# Programs of families that print their own figures.
bench-programs: .venv/installed-test
	for program in bench/bench_*.py; do $(BIN)/python $$program || exit 1; done

# Other tools, in environments of their own in .bench; what cannot be installed is passed over.
bench-baselines: .venv/installed-test
	$(BIN)/python bench/baselines.py
	$(BIN)/python bench/figures.py

# The public benchmark of synthetic census tables; GPUANON_DATA names the folder of its files.  Six minutes.
study-acs: .venv/installed-test
	$(BIN)/python bench/studies/acs.py bench/results/acs_lines.md

# Peak memory of every method, each in a process of its own.
bench-memory: .venv/installed-test
	$(BIN)/python bench/memory.py
	$(BIN)/python bench/figures.py

# Tables and plots of bench/README.md from bench/results.
bench-figures: .venv/installed-test
	$(BIN)/python bench/figures.py

# No hot path may be 1.5 times slower than it was, relative to a reference computation of the same run.
guard: .venv/installed-test
	$(BIN)/python bench/guard.py

# Random tables and recipes, as many as one likes: make fuzz CASES=100000 FIRST=1000000
CASES ?= 20000
FIRST ?= 2000
fuzz: .venv/installed-test
	$(BIN)/python -m tests.support.fuzz $(CASES) $(FIRST)

# The MPI and Slurm roads on this machine; a road whose programs are not installed says so and is passed over.
hpc: .venv/installed-test
	-$(BIN)/python -m pip install --quiet --editable '.[hpc,mpi]'
	for road in mpi slurm; do BIN=$$PWD/$(BIN) bench/hpc/$$road.sh || [ $$? = 77 ] || exit 1; done

.venv/python-ok:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one: make PYTHON=/path/to/python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

# Compiled to bytecode, as pip does with what is not editable: some machines are set to write none later.
.venv/installed: .venv/python-ok pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[report]'
	$(BIN)/python -m compileall -q gpuanon
	@touch $@

.venv/installed-test: .venv/python-ok pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	$(BIN)/python -m compileall -q gpuanon
	@touch $@ .venv/installed

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
