# make demo   build, rebuild a published experiment, say where the plots are
# make test   everything that CI checks

CARGO ?= cargo
# A release build with the recorded profile (docs/HACKING.md); plain cargo builds without.
RELEASE := RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/profile/rustc.sh $(CARGO) build --release --locked
BIN := target/release/ackwright

.PHONY: all demo test needs fmt lint docs docs-test site unit swarm debug determinism examples experiments conformance conformance-kernel \
  conformance-so live-test service-test live-bench web view-test pictures wheel python-test notebooks licences packages \
  api api-renew cross dist dist-test mutants coverage bench clean

all:
	$(RELEASE) -p ackwright

demo: all
	$(BIN) reproduce lost-retransmit --quick --out out

# Prints the time of each step, and what was skipped here and why.
test:
	@scripts/steps.py needs fmt lint docs api unit swarm determinism examples experiments docs-test site conformance live-test view-test \
	  python-test licences packages

# What tests need beyond Rust and Python.
needs:
	scripts/needs.sh

fmt:
	$(CARGO) fmt --all -- --check

# Also that each mutant still has its place in the code (mutants/README.md).
lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	scripts/mutants.py --check

# The library's documentation.
docs:
	RUSTDOCFLAGS="-D warnings" \
	  $(CARGO) doc --workspace --no-deps --locked --quiet

# What the pages for newcomers promise: their commands are run, and their output and pictures compared.
DOCS_PAGES := README.md docs/tutorial.md docs/cookbook.md docs/congestion.md docs/experiments.md
docs-test: all
	scripts/docs_test.py $(BIN) $(DOCS_PAGES)

# The documentation as a site, into target/site. A broken link, anchor or picture is an error (but not with --quiet,
# which keeps MkDocs from counting warnings).
site: all
	@if [ -x .venv/bin/mkdocs ]; then NO_MKDOCS_2_WARNING=1 ACKWRIGHT=$(BIN) .venv/bin/mkdocs build; \
	else echo "SKIPPED: site: MkDocs is not there (make needs)"; fi

unit:
	FLENT=$(CURDIR)/.venv/bin/flent PERFETTO=$(CURDIR)/.venv/bin/python $(CARGO) test --workspace --locked

# The swarm tester's fixed seeds, optimised and with every assertion on (docs/TESTING.md).
swarm:
	$(CARGO) test --profile checked --locked -p ackwright-swarm --test fixed_seeds -- --nocapture

# The program and the examples as the tests have built them: another selection of packages would
# choose other features of dependencies and build these again.
debug:
	$(CARGO) test --workspace --locked --no-run

# Debug and release builds, any number of threads: the same bytes.
determinism: all debug
	scripts/determinism.sh target/debug/ackwright $(BIN)

examples: debug
	scripts/examples.sh

experiments: all
	@for file in experiments/*.toml; do \
	  $(BIN) check $$file || exit 1; \
	done

# Our packetdrill scripts, in every variant; `unit` runs them and the negatives as tests as well.
conformance: all
	$(BIN) drill conformance/tcp --ip-version all

# The same scripts against the kernel of this machine: make conformance-kernel PACKETDRILL=PATH (root).
conformance-kernel:
	scripts/conformance_kernel.sh $(PACKETDRILL)

# Two runners, one stack: ours, and Google's packetdrill with our shared object.
# make conformance-so PACKETDRILL=PATH [SCRIPTS=FOLDER]
SCRIPTS ?= conformance/tcp
conformance-so:
	$(RELEASE) -p ackwright -p ackwright-drill-so
	scripts/conformance_so.py $(PACKETDRILL) $(SCRIPTS)

# Real packets of real programs through `ackwright shape`, and the kernel's TCP against ours, in namespaces of
# their own (root, or unprivileged user namespaces): docs/live.md.
live-test: all
	scripts/live_test.py $(BIN)
	scripts/live_device_test.py $(BIN)
	scripts/live_run_test.py $(BIN)
	scripts/endpoint_test.py $(BIN)
	scripts/route_test.py $(BIN)
	scripts/service_test.py $(BIN)

# The service's own tests alone.
service-test: all
	scripts/service_test.py $(BIN)

# The page of `ackwright view`, from web/ into the crate that holds it (Node 20 or later).
web:
	cd web && npm ci --no-audit --no-fund --silent && npm run --silent build

# Whether the crate holds what web/ makes, and whether a real browser shows what the files say: docs/view.md.
view-test: all
	scripts/view_test.sh $(BIN)

# The documentation's pictures of the viewer, taken anew: docs/view.md.
pictures: all
	PICTURES=take scripts/view_test.sh $(BIN) test/pictures.test.mjs

# The longer figures: rates through CAKE, latency under load beside the kernel's tbf; packets per second beside the
# kernel's forwarding; our TCP beside the kernel's and smoltcp's.
live-bench: all
	scripts/live_bench.py $(BIN)
	scripts/live_bench.py $(BIN) --soak
	SCALE=32 scripts/endpoint_test.py $(BIN) both_roles loss reordering duplication ecn super_packets
	$(CARGO) build --release --locked -p ackwright-live --example bump
	scripts/live_bench.py target/release/examples/bump --speed --seconds 4
	scripts/endpoint_bench.py $(BIN)
	$(CARGO) bench --locked -p ackwright-live --bench tcp

# The Python package as it is given out, into target/wheels: docs/python.md.
wheel:
	scripts/python.py wheel

# The package in an environment of its own below target/: tests, every example, the notebooks, types.
python-test:
	scripts/python.py test

# Pages of the notebooks, with their plots: docs/notebooks.
notebooks:
	target/python/venv/bin/python scripts/notebooks.py

licences:
	python3 scripts/licences.py

# Whether every crate that is to be published can be (its manifest, what its package holds); `dist` builds the packages.
packages:
	scripts/packages.py

# Whether the public interface of the library is the one that api/ holds; and that written anew.
api:
	scripts/api.py check

api-renew:
	scripts/api.py renew

# That everything but `live` is sound Rust on macOS, all of it on another processor and with another C library (rustup target add
# TARGET), and the library without the program. Nothing is linked, so the one part in C, the allocator, is left out.
CROSS := $(CARGO) check --workspace --locked --exclude ackwright-python --target-dir target/cross
cross:
	CC_aarch64_unknown_linux_gnu=true AR_aarch64_unknown_linux_gnu=true $(CROSS) --target aarch64-unknown-linux-gnu
	CC_aarch64_apple_darwin=true AR_aarch64_apple_darwin=true $(CROSS) --target aarch64-apple-darwin --exclude ackwright-live
	CC_x86_64_unknown_linux_musl=true AR_x86_64_unknown_linux_musl=true $(CROSS) --target x86_64-unknown-linux-musl
	$(CARGO) check --locked -p ackwright --no-default-features --lib --examples --target-dir target/cross

# What is given out, into target/dist: static program, Debian package, wheel, crates, checksums (docs/HACKING.md).
dist:
	scripts/dist.py

# Each of it on a clean root (root; debootstrap for the Debian package and the wheel).
dist-test:
	scripts/dist_test.py

# Known mistakes, one at a time (docs/TESTING.md): `make mutants 1..20`, or without a range what is known.
mutants:
	@scripts/mutants.py $(filter-out $@,$(MAKECMDGOALS))
ifneq ($(filter mutants,$(MAKECMDGOALS)),)
$(filter-out mutants,$(MAKECMDGOALS)): mutants ; @:
endif

# Which lines swarm runs reach (docs/TESTING.md).
coverage:
	scripts/coverage.py

bench: all
	$(BIN) bench

clean:
	$(CARGO) clean
	rm -rf out
