# Two commands: `make demo` verifies a bundled family, `make test` runs every test.
# Both need nothing but Python 3.11 or newer, make and git. `make docs` makes the site of docs/.

PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3 2>/dev/null))
VENV ?= .venv
DEV ?= .venv-test
SITE ?= .venv-docs
PROGRAMS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(PROGRAMS)
DEVBIN := $(DEV)/$(PROGRAMS)
SITEBIN := $(SITE)/$(PROGRAMS)
PIP := pip install --quiet --disable-pip-version-check -c constraints.txt
CHECK := test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..."; exit 1; }
EXAMPLE := examples/breast_cancer
DEMO := build/demo
EXTRAS := forests,graphs,train,gurobi,pulp,ortools,scip,export,docs,serve,attest

# Tests start hundreds of processes of the program: each would compile its modules anew.
unexport PYTHONDONTWRITEBYTECODE

SEED ?= 1
MINUTES ?= 60

.PHONY: demo test snapshots fuzz docs check lint types imports wheel clean

demo: $(VENV)/.ready
	@mkdir -p $(DEMO)
	$(BIN)/leaveout verify $(EXAMPLE)/breast_cancer.spec --json $(DEMO)/result.json
	@echo
	$(BIN)/leaveout report $(DEMO)/result.json --data $(EXAMPLE)/patients.csv -o $(DEMO)/report.html
	@echo
	@echo "A logistic regression of the same patients: all 569 members from one fit, no training"
	@echo
	@rm -rf $(DEMO)/logistic
	$(BIN)/leaveout linear train $(EXAMPLE)/patients.csv --label diagnosis -o $(DEMO)/logistic
	$(BIN)/leaveout verify $(DEMO)/logistic/linear.spec
	$(BIN)/leaveout guard $(DEMO)/logistic --epsilon 0.2 $(EXAMPLE)/patients.csv -o $(DEMO)/labels.csv
	@echo
	@echo "The same for a random forest, all in examples/forest/walk.py:"
	@echo
	@rm -rf $(DEMO)/forest
	$(BIN)/python examples/forest/walk.py $(DEMO)/forest
	@echo "Every number above is for scikit-learn's breast-cancer data; row = patient."
	@echo "Open $(DEMO)/report.html in a browser: the same as a page, with every patient on it."
	@echo "Next: read $(EXAMPLE)/breast_cancer.spec, change it, and run make demo again"
	@echo "Train a family of your own: $(BIN)/pip install -e '.[train]' && $(BIN)/leaveout train --help"

test: $(DEV)/.ready
	$(DEVBIN)/python -m pytest -n 2 --dist worksteal

# The wordings that tests keep in __snapshots__, as they are now.
snapshots: $(DEV)/.ready
	$(DEVBIN)/python -m pytest -n 2 --dist worksteal -m syrupy_snapshot --snapshot-update

# Random cases of another seed than the tests: readers, the language, the server, then verdicts.
fuzz: $(DEV)/.ready
	$(DEVBIN)/python -m pytest -n 2 --hypothesis-profile fuzz --hypothesis-seed $(SEED) \
		tests/trees tests/specs tests/models/test_npz.py tests/models/test_archive.py \
		tests/guard/test_server_protocol.py tests/checker/test_forged.py
	$(DEVBIN)/python benchmarks/campaign.py --minutes $(MINUTES) --seed $(SEED) --found build/found

docs: $(SITE)/.ready
	$(SITEBIN)/python -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/site
	@echo "open build/site/index.html"

check: lint types imports wheel

lint: $(DEV)/.ready
	$(DEVBIN)/ruff check .
	$(DEVBIN)/ruff format --check .

types: $(DEV)/.ready
	$(DEVBIN)/mypy

imports: $(DEV)/.ready
	$(DEVBIN)/lint-imports

wheel: $(DEV)/.ready
	rm -rf dist && $(DEVBIN)/python .ci/build_dist.py dist
	$(DEVBIN)/python .ci/wheel_contents.py dist
	.ci/kernel_wheel.sh $(DEVBIN)

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(CHECK)
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "installing leaveout, its libraries and scikit-learn into $(VENV)"
	@$(BIN)/$(PIP) -e '.[forests]'
	@$(BIN)/leaveout warm points trees forest_leaks forest_guard
	@touch $@

$(DEV)/.ready: pyproject.toml constraints.txt
	@$(CHECK)
	@test -d $(DEV) || $(PYTHON) -m venv $(DEV)
	@echo "installing leaveout, every extra and the test tools into $(DEV)"
	@$(DEVBIN)/$(PIP) -e '.[$(EXTRAS),test]'
	@$(DEVBIN)/leaveout warm
	@touch $@

$(SITE)/.ready: pyproject.toml constraints.txt
	@$(CHECK)
	@test -d $(SITE) || $(PYTHON) -m venv $(SITE)
	@echo "installing leaveout and what makes the site into $(SITE)"
	@$(SITEBIN)/$(PIP) -e '.[forests,docs]'
	@touch $@

clean:
	rm -rf $(VENV) $(DEV) $(SITE) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
