# Two commands do the main jobs: `make demo-nfs` and `make test`. Each installs what it needs.

CARGO ?= cargo
# Where scripts/rust.sh installs Rust, if it has to.
CARGO_BIN := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin
export PATH := $(if $(findstring :$(CARGO_BIN):,:$(PATH):),$(PATH),$(CARGO_BIN):$(PATH))
# What needs no more than the program takes one that TRACKIOPS_BIN names.
BUILDS := $(if $(TRACKIOPS_BIN),,setup)

.PHONY: help demo demo-nfs tutorial tutorial-nfs test test-levels test-long lint unit notebooks science guest guest-kernels guest-service guest-container vm-archive matrix storm ebpf ebpf-check kernel-facts bench-overhead bench-levels bench-contention bench-store bench-query bench-page bench-captures faults faults-short compare fuzz test-guests guest-workloads release dist dist-check repositories crates packages aarch64 deny setup python web web-check browser kubernetes docs

help:
	@sed -n 's/^## //p' Makefile

## make demo-nfs    record a real workload on real NFS in a small emulated machine, then ask about it
demo-nfs: setup
	@$(FAST_RELEASE) scripts/demo.sh nfs

## make demo        the same workload on an ext4 of its own on this machine, in under a minute; with TRACKIOPS_BIN= without Rust
demo: $(BUILDS)
	@$(FAST_RELEASE) scripts/demo.sh native

## make tutorial    run each command of docs/tutorial.md beside a real incident on this machine, and renew its output; CHECK=1 only compares
tutorial: $(BUILDS)
	@$(FAST_RELEASE) scripts/tutorial.sh $(if $(CHECK),--check) native

## make tutorial-nfs  the same on real NFS in a small emulated machine
tutorial-nfs: setup
	@$(FAST_RELEASE) scripts/tutorial.sh $(if $(CHECK),--check) nfs

## make test        format, lints, kernel object, unit and integration tests, one test in a guest
test: lint unit guest-workloads
	@echo "==> all tests passed; \`make test-guests\` runs those in guests"

## make test-guests tests in guests: real kernels with a real NFS server
test-guests: guest
	@echo "==> all tests in guests passed"

## make test-levels tests of levels on this host itself, with loop devices of ext4, XFS and Btrfs
test-levels: setup
	@echo "==> levels on this host"
	@{ command -v fio && command -v mkfs.xfs && command -v mkfs.btrfs; } >/dev/null || scripts/install.sh fio xfsprogs btrfs-progs
	@$(TEST) --test program -- --ignored --nocapture --test-threads=1 block:: endings::

## make test-long   make test and test-guests with every cell, fault and kernel, and what takes longer
test-long: export TRACKIOPS_TEST_LONG = 1
test-long: test test-guests test-levels guest-kernels vm-archive ebpf-check aarch64 deny

lint: setup
	@echo "==> format and lints"
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets --locked --features $(FUZZED) -- -D warnings
	@$(CARGO) metadata --manifest-path fuzz/Cargo.toml --locked --format-version 1 >/dev/null
	@echo "==> words of what was written last"
	@scripts/words.sh
	@echo "==> the committed kernel object belongs to its sources"
	@collector-ebpf/build.sh check-sources

# What fuzz targets call, which is in no other program.
FUZZED = trackiops-capture/fuzzing,trackiops-collector/fuzzing,trackiops-query/fuzzing,trackiops-store/fuzzing

unit: setup
	@echo "==> unit and integration tests; writers that are killed, and threads that panic, at every step"
	$(TEST)

# One build for all tests: without the variables that name them, fail points do nothing.
TEST = $(CARGO) test --locked --features fail-points --workspace
# What guests and demos run is built once, and sooner with few optimizations and no LTO. Tests wait for guests, of which few run at once (tests/guest/run.rs).
FAST_RELEASE = CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
# Published results are about the release.
matrix storm test-long: FAST_RELEASE =
GUEST = TRACKIOPS_BIN="$$($(FAST_RELEASE) scripts/release.sh)" TRACKIOPS_PYTHON="$$(scripts/python.sh)" \
	$(TEST) --test guest -- --ignored --test-threads=200 --nocapture

guest: setup python
	@echo "==> tests in guests: real kernels, real NFS"
	@$(GUEST) --skip container:: $(if $(TRACKIOPS_TEST_LONG),,--skip panics::) $(SKIP:%=--skip %)

guest-workloads: setup python
	@echo "==> a workload on real NFS in a guest"
	@$(GUEST) workloads::

# With their usual lengths: what is long is on 6.12, or on every kernel, in `guest` already.
OTHER_KERNELS = $(filter-out 6.12,$(notdir $(wildcard collector/tests/kernels/*)))

guest-kernels: setup python
	@for kernel in $(OTHER_KERNELS); do \
		echo "==> tests in guests that run on 6.12 otherwise: $$kernel"; \
		env -u TRACKIOPS_TEST_LONG TRACKIOPS_TEST_KERNEL=$$kernel $(GUEST) workloads:: calls:: latency:: lifecycle:: errors:: filters:: hang:: ops:: requests:: names:: mounts:: block:: || exit 1; \
	done

# Those of names, mounts and totals where the recorder is a service, and may do no more than its unit allows.
guest-service: setup python
	@echo "==> tests in guests where the recorder is a service"
	@TRACKIOPS_TEST_SERVICE=1 $(GUEST) names:: mounts:: workloads::

test-long: guest-service

guest-container: setup python
	@echo "==> tests in a guest where the recorder is in a container"
	@$(GUEST) container::

test-long: guest-container

vm-archive: setup
	@echo "==> cargo vm where packages have left the archive, and without one"
	$(CARGO) test --locked --package trackiops-vm -- --ignored

# Beside their targets above.
test: notebooks
test-long: science

notebooks: setup python
	@echo "==> the recipes of docs/guide/notebooks.md: DuckDB, Polars, pandas; contrib/trackiops.sql and contrib/python; queries and reports against what DuckDB computes from single requests"
	TRACKIOPS_PYTHON="$$(scripts/python.sh)" $(TEST) --test program -- --ignored --nocapture report_numbers_of recipes_of every_answer_is every_answer_of_duckdb every_answer_of_the_module duckdb_polars trackiops_sql
	TRACKIOPS_PYTHON="$$(scripts/python.sh tests/science/least.txt)" $(TEST) --test program -- --ignored --nocapture trackiops_sql
	TRACKIOPS_PYTHON="$$(scripts/python.sh)" $(TEST) --test single_requests -- --ignored --nocapture

## make science     the recipes of docs/guide/notebooks.md with PySpark as well, which needs Java
science: setup
	@command -v java >/dev/null || scripts/install.sh default-jre-headless
	@echo "==> the recipes of docs/guide/notebooks.md, PySpark among them"
	TRACKIOPS_PYTHON="$$(scripts/python.sh tests/science/requirements.txt)" $(TEST) --test program -- --ignored --test-threads=1 notebooks:: doors::

## make matrix      every kernel, NFS version, kind of I/O and mount option; rewrites docs/results/matrix.md
matrix: setup
	@TRACKIOPS_TEST_LONG=1 TRACKIOPS_WRITE_DOCS=1 $(GUEST) matrix::guest

## make storm       everything at once under recorders that come and go, half an hour on each kernel; rewrites the table of docs/results/harm.md
storm: setup python
	@TRACKIOPS_TEST_LONG=1 TRACKIOPS_WRITE_DOCS=1 $(GUEST) storm::

## make release     the binary for any Linux of this architecture, or of TARGET=aarch64, and its licences; prints its path
release: setup
	@binary=$$(scripts/release.sh $(TARGET)) && scripts/third-party.py notices "$$binary" >"$${binary%/*}/THIRD-PARTY.md" && echo "$$binary"

## make dist        archives, .deb, .rpm, container images, lists of contents, a chart for Helm, the module for Python and SHA256SUMS, into target/dist; then make repositories
dist: setup
	@scripts/dist.sh

## make dist-check  make dist in a second checkout as well, at another path, and compare bytes
dist-check: setup
	@scripts/dist.sh --check

## make crates      what `cargo install trackiops` takes from a registry, into target/crates; INSTALL=1 also builds the program from it
crates: setup
	@scripts/crates.sh $(if $(INSTALL),--install) target/crates

## make repositories  an apt and a dnf repository of target/dist, into target/repositories; signed with TRACKIOPS_SIGNING_KEY=
repositories:
	@scripts/repositories.sh target/repositories target/dist

## make packages    apt and dnf on repositories; the life of the packages of make dist in guests: Debian 12 on 6.1 and 13 on 6.12, with systemd
packages: dist
	@command -v dnf >/dev/null || scripts/install.sh dnf
	@echo "==> repositories, and packages in guests: installed, rebooted, upgraded, removed, purged"
	@$(TEST) --test program -- --ignored --test-threads=1 --nocapture repositories:: packages::

test-long: packages

## make aarch64     the release for aarch64, and all tests that need no kernel of it, emulated
aarch64: setup
	@scripts/test-aarch64.sh

## make ebpf        rebuild the kernel objects, installing the toolchain that it needs
ebpf:
	@collector-ebpf/build.sh build

## make ebpf-check  rebuild the kernel object and compare bytes, where the recorded toolchain can be had
ebpf-check:
	@collector-ebpf/build.sh check

## make kernel-facts  renew what the tests know of the kernels: boots all, or those of KERNELS="6.12 ..."
kernel-facts: setup
	@scripts/kernel-facts.sh $(KERNELS)

## make bench-overhead  what tracing costs, counted in guests, on 6.12 and newest or those of KERNELS="..."
bench-overhead: setup
	@bench/overhead.sh $(KERNELS)

## make bench-levels  instructions that recording levels adds to reads and writes on ext4, in guests
bench-levels: setup
	@bench/levels.sh

## make bench-contention  whether tracing makes CPUs wait for locks: profiles 64 threads in guests
bench-contention: setup
	@bench/contention.sh $(KERNELS)

## make bench-store  what a synthetic day takes on disk and of a processor: a tenth of it, or FILES=4000
bench-store: setup
	@bench/store.sh

## make bench-query  questions to a synthetic day, beside DuckDB and Polars: 100 files, or FILES=400, a tenth, or 4000
bench-query: setup
	@bench/query.sh

## make bench-page  what the page of `trackiops serve` takes in a browser, over a synthetic day of 200 files, or FILES=
bench-page: setup
	@scripts/browser.sh
	@bench/page.sh

## make bench-captures  importing a capture of 1 GB beside nfstrace and tshark, and sequentiality of 100 M requests; CAPTURE= names a capture to repeat
bench-captures: setup
	@bench/captures.sh

## make compare     compare the answers with those of another build of the program, BEFORE=
compare: setup
	@[ -n "$(BEFORE)" ] || { echo "error: BEFORE= names no program: give the path of another build of trackiops" >&2; exit 2; }
	@TRACKIOPS_BEFORE="$(BEFORE)" $(TEST) --test program -- --ignored --nocapture another_build

## make faults      damage 120000 stores, fail and kill a recorder's system calls, cut its power, forge files; MUTANTS=, CUTS=, BOMBS=, SEED=, KEEP=directory
faults: setup
	@bench/faults.sh

# A few minutes of it.
test-long: faults-short

faults-short: setup
	@echo "==> damaged stores, system calls that fail, and power cuts"
	@SHORT=1 bench/faults.sh

## make fuzz        fuzz what reads bytes from elsewhere, a minute for each target; FUZZ_SECONDS=, FUZZ_TARGETS=
fuzz: setup
	@echo "==> fuzz targets"
	@scripts/fuzz.sh

test-long: fuzz

## make deny        licences, sources, bans and known vulnerabilities of all dependencies
deny: setup
	@scripts/deny.sh

## make web         build the page of `trackiops serve` from web/ into web/dist; needs Node
web:
	@scripts/web.sh

## make web-check   build the page elsewhere and compare with web/dist
web-check:
	@echo "==> the committed page belongs to its sources"
	@scripts/web.sh --check

## make browser     the page of `trackiops serve` in Chromium, against the answers of `trackiops query`; also over a recorder in a guest
browser: setup
	@scripts/browser.sh
	@echo "==> the page in a browser"
	@demo=; [ -d demo/out/store ] || demo="--skip what_the_demo_recorded"; \
	TRACKIOPS_BIN="$$($(FAST_RELEASE) scripts/release.sh)" $(TEST) --test program -- --ignored --nocapture --test-threads=1 browser:: $$demo; status=$$?; \
	[ -z "$$demo" ] || echo "==> skipped: the page over what the demo recorded; \`make demo-nfs\` records it"; exit $$status

# The demo comes first: what it records is shown, too.
test-long: web-check demo browser

## make kubernetes  the manifests of contrib/kubernetes against the schemas of several releases; renews trackiops.yaml
kubernetes:
	@echo "==> manifests for Kubernetes"
	@scripts/check-kubernetes.sh

## make docs        docs/ as a site in target/book, with search and a dark theme; checks its links
docs:
	@echo "==> the docs as a site"
	@scripts/docs.sh

setup:
	@scripts/setup.sh

python: setup
	@scripts/python.sh >/dev/null
