# Everything a person or CI runs. Each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test check format bench bench-learning bench-critics bench-risk bench-hedging bench-memory bench-rewards bench-options bench-plasticity bench-market faults docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch -e '.[dev,market,hourly]'
	touch $@

demo: setup  ## train a risk-neutral and a CVaR agent to hedge an option, beside classical rules
	$(BIN)/surefoot demo --out runs/demo

test: setup  ## the tests, within six minutes on two cores
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: setup  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.peers: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[peers,mujoco]'
	touch $@

bench: $(VENV)/.peers  ## speed beside the peers, into benchmarks/results/throughput.md and market_speed.md
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/market_speed.py

bench-learning: $(VENV)/.peers  ## learning beside Stable-Baselines3, into benchmarks/results/learning.md
	$(BIN)/python benchmarks/learning.py --system all --task all

bench-memory: $(VENV)/.peers  ## memory and factored actions, into benchmarks/results/memory.md
	$(BIN)/python benchmarks/memory.py

bench-critics: $(VENV)/.peers  ## distributional critics beside the scalar one, into benchmarks/results/critics.md
	$(BIN)/python benchmarks/learning_critics.py

bench-risk: setup  ## limits on worlds with known answers, into benchmarks/results/risk.md
	$(BIN)/python benchmarks/risk_limits.py

bench-hedging: setup  ## hedging agents beside classical rules and published figures, into benchmarks/results/hedging.md
	$(BIN)/python benchmarks/hedging_agents.py --jobs 2

bench-options: $(VENV)/.peers  ## robustness, imitation, noisy gradients, into benchmarks/results/options.md
	$(BIN)/python benchmarks/options.py

bench-plasticity: $(VENV)/.peers  ## optimizers on tasks that change, into benchmarks/results/plasticity.md
	$(BIN)/python benchmarks/plasticity.py

bench-market: setup  ## what is learned on markets, into benchmarks/results/market.md
	$(BIN)/python benchmarks/market_learning.py

bench-rewards: setup  ## rewards of any size with the defaults, into benchmarks/results/reward_scales.md
	$(BIN)/python benchmarks/reward_scales.py

faults: setup  ## the long fault suites, into docs/reliability.md
	cd tests && ../$(BIN)/python -m faults.report

docs: setup  ## regenerate the documents that are made from data and figures
	$(BIN)/python docs/generate_pitfalls.py
	$(BIN)/python docs/generate_metrics.py
	$(BIN)/python docs/generate_risk_table.py
	$(BIN)/python docs/generate_market_data.py
	$(BIN)/python benchmarks/learning.py --report
	$(BIN)/python benchmarks/memory.py --report
	$(BIN)/python benchmarks/market_learning.py --report

clean:
	rm -rf $(VENV) runs
