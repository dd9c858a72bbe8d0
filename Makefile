# Everything there is to run. Each target gets what it needs by itself; the work is in scripts/.
#
# Out: target/release/host, target/components/NAME.wasm (the examples), target/components/library/NAME.wasm (libraries for handlers),
# target/components/tests/NAME.wasm (the tests' guests).

SHELL := bash
# The scripts, the tests and the documentation rely on the place, so the user's does not apply.
export CARGO_TARGET_DIR := $(CURDIR)/target

# Where `make install` puts the program.
PREFIX ?= $(HOME)/.local
# Arguments for `make bench`, such as BENCH="--seconds 10".
BENCH ?=
# Arguments for `make peers`, such as PEERS="--windows 5".
PEERS ?=
# Arguments for `make fuzz`: a target and seconds.
FUZZ ?=
# Arguments for `make gpu-check`, such as GPU_CHECK="--seconds 10".
GPU_CHECK ?=

TEST := cargo test --release --workspace --config "target.'cfg(all())'.runner=['$(CURDIR)/scripts/test-runner.sh']"
UNOPTIMISED := --config profile.release.package.host.opt-level=0 --config profile.release.package.host.codegen-units=64 \
	$(foreach crate,base models project sandbox stores telemetry,--config profile.release.package.modelhost-$(crate).opt-level=0)
# Clippy in the compiler's place. It compiles what the tests run anyway; `cargo clippy` has every dependency checked besides.
CLIPPY := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings
# What the tests and the guests are compiled by: `make ci` takes what its `lint` has compiled.
COMPILER :=

.DEFAULT_GOAL := help
# Cargo uses every core by itself; two of them side by side would only wait for each other.
.NOTPARALLEL:
.PHONY: help setup build install dist wheel deb image library python sdks host examples libraries wasi-wheels guests demo test reference bench peers gpu-check soak fuzz ci fmt lint doc supply-chain kube-check tensorflow man clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: host examples ## build, serve the iris example, send it a request, stay until Ctrl-C
	@scripts/onnxruntime.sh
	@scripts/demo.sh

install: host examples libraries ## the program, its libraries, manual and completions below PREFIX (~/.local), and ONNX Runtime for you
	@scripts/onnxruntime.sh
	@scripts/package.sh tree target/release/host $(PREFIX)
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "hint: add $(PREFIX)/bin to PATH" ;; esac

build: host examples libraries guests ## target/release/host and every component under target/components/

dist: examples ## target/dist/host, optimised as a whole and by a profile: what to ship; takes half an hour to build
	@scripts/require.sh
	@scripts/onnxruntime.sh
	@scripts/clients.sh --python
	@scripts/dist.sh host target/clients/bin/python scripts/exercise.py

wheel: dist ## target/packages/modelhost-….whl: the host of `make dist` for pip, see docs/install.md
	@scripts/package.sh wheel target/dist/host target/packages --symbols target/packages/modelhost.debug

deb: dist libraries ## target/packages/modelhost_….deb: the same for Debian, with a service, see docs/install.md
	@scripts/package.sh deb target/dist/host target/packages --symbols target/packages/modelhost.debug

image: dist libraries ## target/packages/modelhost-….oci.tar: a container image with ONNX Runtime, see docs/install.md
	@scripts/onnxruntime.sh
	@scripts/package.sh image target/dist/host target/packages --symbols target/packages/modelhost.debug

library: libraries ## target/packages/modelhost_library-….whl: the libraries for pip, see docs/libraries.md
	@scripts/package.sh library target/components/library target/packages

python: wasi-wheels ## target/packages/modelhost_python-….whl: native packages for handlers in Python, for pip, see docs/python-packages.md
	@scripts/package.sh python target/wasi-wheels target/packages

wasi-wheels: ## target/wasi-wheels: wheels of native packages for handlers in Python, numpy among them; takes minutes once
	@scripts/wasi-wheels.sh

sdks: ## target/packages: the SDKs as packages of their languages, see docs/languages.md
	@scripts/sdks.sh

test: build doc ## set up, build, run every test
	@scripts/onnxruntime.sh
	@scripts/tensorflow.sh
	@scripts/example-models.sh
	@scripts/clients.sh
	@scripts/openapi.sh
	@scripts/types.sh
	@scripts/browser.sh
	@scripts/redis.sh
	@scripts/prometheus.sh
	@scripts/s3.sh
	@scripts/zig.sh
	@scripts/wasi-wheels.sh --tests
	@echo "==> running the tests"
	@# In release, so that the dependencies are compiled once for host and tests; but the host's unit tests, which compile
	@# five times as fast without optimisation.
	$(COMPILER) $(TEST) --lib $(UNOPTIMISED)
	$(TEST) --bins
	$(COMPILER) $(TEST) --test it

reference: ## write the tables of docs/reference.md that come from the code: settings, error codes, a trial's parameters
	UPDATE_REFERENCE=1 cargo test --release --workspace --lib $(UNOPTIMISED) -- reference

bench: build dist ## measure the host against a native server without WebAssembly
	@scripts/bench.sh $(BENCH)

peers: build dist ## measure the host beside FastAPI, LitServe, BentoML and Triton's Python backend
	@scripts/onnxruntime.sh
	@scripts/peers.sh $(PEERS)

gpu-check: ## everything that needs a GPU: tests and measurements, see docs/gpu.md
	@scripts/gpu-check.sh $(GPU_CHECK)

soak: build ## minutes of swaps, shadows and hostile handlers under full load; wants a machine of its own
	@scripts/onnxruntime.sh
	@echo "==> soaking"
	cargo test --release --workspace --test it -- --ignored --nocapture --test-threads 1 soak::

fuzz: ## fuzz what reads bytes of strangers, see tests/fuzz/README.md
	@scripts/fuzz.sh $(FUZZ)

ci: COMPILER := $(CLIPPY)
ci: fmt-check supply-chain host-and-setup lint test ## what has to pass before a change goes in

fmt: ## format all Rust code
	@scripts/require.sh fmt
	cargo fmt --all

lint: host ## clippy on all Rust code, guests included; warnings are errors
	@scripts/require.sh clippy
	@echo "==> clippy"
	@# Cargo says again what the compiler said of the program: what only tests use is dead code there.
	@! cargo build --release --workspace --bin host 2>&1 | grep -A 12 '^warning'
	$(CLIPPY) $(TEST) --no-run --lib $(UNOPTIMISED)
	$(CLIPPY) $(TEST) --no-run --test it
	$(CLIPPY) scripts/build-guests.sh

doc: host ## build the documentation, private items included, and run its examples; warnings are errors
	@echo "==> documentation"
	RUSTDOC=$(CURDIR)/scripts/rustdoc.sh $(TEST) --doc

supply-chain: ## licences of the dependencies, and advisories where cargo-deny is installed
	@scripts/require.sh
	@scripts/supply-chain.sh

kube-check: ## the chart and the manifests for Kubernetes, against the schemas; needs no cluster, see docs/kubernetes.md
	@scripts/kube-check.sh

tensorflow: ## get TensorFlow's library (270 MB), which only SavedModels need
	@scripts/tensorflow.sh

man: host ## write the manual to target/man, a page for each command
	@rm -rf target/man
	@target/release/modelhost man target/man

setup: ## get everything that the other targets need, ahead of time
	@scripts/setup.sh

clean: ## remove everything that was built or downloaded into target/
	rm -rf target

# The parts of `build`.

host:
	@scripts/require.sh
	@echo "==> building target/release/host (the first time takes several minutes)"
	@# `--workspace` although only the host is wanted: cargo then settles on the same features of the dependencies as
	@# `cargo test --workspace` does, and does not compile wasmtime a second time.
	cargo build --release --workspace --bin host
	@# Under the name that it is installed by.
	@ln -f target/release/host target/release/modelhost

examples:
	@$(COMPILER) scripts/build-guests.sh examples

libraries: ## target/components/library: components that `modelhost build` puts into handlers; and QuickJS for those in JavaScript
	@$(COMPILER) scripts/build-guests.sh libraries
	@scripts/build-quickjs.sh

guests:
	@$(COMPILER) scripts/build-guests.sh tests
	@scripts/build-guests-py.sh
	@scripts/build-guests-js.sh

.PHONY: host-and-setup
# Fetching waits for the network, and compiling the program leaves a core idle at times: one beside the other.
host-and-setup:
	@mkdir -p target
	@scripts/setup.sh >target/setup.log 2>&1 & setup=$$!; \
		$(MAKE) --no-print-directory host; built=$$?; \
		wait $$setup; ready=$$?; cat target/setup.log >&2; [ $$built = 0 ] && [ $$ready = 0 ]

.PHONY: fmt-check
fmt-check:
	@scripts/require.sh fmt
	@echo "==> format"
	cargo fmt --all --check
