# Every target installs its requirements if it is permitted to (scripts/need), and builds with one profile
# (docs/building.md). Every build selects the whole workspace: for other selections cargo compiles many dependencies
# again, because they have other features. `make help` lists the targets.

CARGO := scripts/cargo
TARGET := $(or $(CARGO_TARGET_DIR),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/doublet/target)
DOUBLET := $(TARGET)/release/doublet
DATA ?= $(HOME)/.local/share/doublet/demo

.DEFAULT_GOAL := help
.PHONY: help build run test check conformance bench soak

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-12s %s\n", $$1, $$2 }'

build: ## compile the program and the load generator
	@scripts/need build
	$(CARGO) build --release --locked --workspace --bin doublet --bin doublet-bench

run: build ## start a demo server: domain demo.test with users and mail (DATA=folder)
	"$(DOUBLET)" demo --data "$(DATA)"

test: build ## run every test in its short form
	@scripts/need test
	conformance/run "$(DOUBLET)" crash faults replication cluster notesbench acknowledged worst --seconds 15 --messages 2000 --bound-ms 1000
	scripts/test

check: ## check format, lints, docs, licences, house rules and advisories, fuzz briefly, list newer dependencies
	@scripts/need test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --release --locked --workspace --no-deps --quiet
	$(CARGO) test --release --locked --workspace --test tidy
	$(CARGO) run --release --locked --bin doublet-fuzz -- --iterations 20000
	@scripts/advisories
	@scripts/behind

conformance: build ## run third-party test suites and real clients against the server
	@scripts/need conformance
	conformance/run "$(DOUBLET)"

bench: build ## measure against Postfix, Dovecot and others, write docs/performance.md
	@scripts/need bench
	$(CARGO) build --release --locked --workspace --example view_cost
	$(CARGO) build --release --locked --workspace --example full_text_cost
	$(CARGO) build --release --locked --workspace --example churn_cost
	$(CARGO) build --release --locked --workspace --example search_cost
	scripts/bench "$(DOUBLET)"

soak: build ## run the long forms: crash loop, N8Mail with kills, faults, replication, worst requests, thousands of seeds, long fuzzing
	@scripts/need soak
	DOUBLET_SOAK=1 conformance/run "$(DOUBLET)" crash acknowledged faults replication cluster http-attack web worst --seconds 600
	DOUBLET_SOAK=1 scripts/test
	$(CARGO) run --release --locked --bin doublet-fuzz -- --iterations 2000000
