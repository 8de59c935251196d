# The face of the build: every target is the one command that it prints. Settings: BUILD=FOLDER, DEPS=FOLDER (where LibTorch and the
# test oracles are or go; clones may share one), MESON_OPTIONS='-Doption=value …' (of a new build folder).
BUILD ?= build
export LOCKSTEP_BUILD_FOLDER := $(BUILD)
SANITIZERS := -Db_sanitize=address,undefined -Db_lundef=false -Ddocs=disabled '-Dcpp_args=-g1 -D_GLIBCXX_ASSERTIONS'
.PHONY: help setup setup-test build programs quickstart check test test-full format lint sanitize debug bench compare gpu-bundle docs install clean
.DEFAULT_GOAL := help

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup:  ## install what building and running need: Debian packages, and LibTorch into deps/ (DEPS=FOLDER shares it)
	scripts/setup

setup-test:  ## the same, and what the tests compare with: PyTorch, transformers, h5py, tokenizers, …
	scripts/setup --test

$(BUILD)/build.ninja:
	meson setup $(BUILD) $(MESON_OPTIONS)

$(BUILD)-debug/build.ninja:
	meson setup $(BUILD)-debug -Ddebug=true -Doptimization=0 $(MESON_OPTIONS)

build: $(BUILD)/build.ninja  ## compile everything; the programs are build/tools/*
	meson compile -C $(BUILD)

programs: $(BUILD)/build.ninja  ## compile the five programs and nothing else
	meson compile -C $(BUILD) programs

quickstart:  ## set up and build if need be, then train, stop, resume, inspect, reshard and export a small model (7 min from nothing, 1 when built)
	@[ -e deps ] || $(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory programs
	TOOLS=$(BUILD)/tools scripts/quickstart

check: $(BUILD)/build.ninja  ## the quick tests: all but whole jobs (10 min on 2 cores)
	scripts/test --no-suite full --no-suite e2e

test: $(BUILD)/build.ninja  ## all tests but the campaigns (36 min on 2 cores); the last line is "N passed, N failed"
	scripts/test --no-suite full

test-full: $(BUILD)/build.ninja  ## everything, campaigns included (some hours on 2 cores)
	scripts/test --no-suite share

format:  ## rewrite C++ as .clang-format says and Python as .ruff.toml does (needs setup-test; the tests check it)
	find lib man tests tools '(' -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' ')' -exec deps/python/bin/clang-format -i {} +
	deps/python/bin/ruff check --fix --quiet
	deps/python/bin/ruff format

lint: $(BUILD)/build.ninja  ## format, shell scripts, manual pages, and clang-tidy where it is installed
	scripts/lint

sanitize:  ## unit and MPI tests under AddressSanitizer and UBSan, in build-sanitize/ (everything is compiled again)
	[ -e $(BUILD)-sanitize/build.ninja ] || meson setup $(BUILD)-sanitize $(SANITIZERS) $(MESON_OPTIONS)
	LOCKSTEP_BUILD_FOLDER=$(BUILD)-sanitize LOCKSTEP_TEST_CASE_TIMEOUT=2400 LOCKSTEP_TEST_TIMEOUT=7150 \
	  scripts/test --suite unit --suite mpi --timeout-multiplier 4

debug: $(BUILD)-debug/build.ninja  ## compile everything without optimisation and with symbols, into build-debug/
	meson compile -C $(BUILD)-debug

bench: $(BUILD)/build.ninja  ## every benchmark once, against tuned PyTorch and other baselines (needs setup-test)
	meson test -C $(BUILD) --benchmark --verbose

compare: programs  ## whether this build computes the same bits as another: OLD=REVISION or OLD=FOLDER (some minutes)
	scripts/compare-builds '$(OLD)' $(BUILD)

gpu-bundle: programs  ## pack programs, tests and benchmarks for a machine with a GPU and PyTorch: build/lockstep-gpu-bundle.tar.xz
	meson compile -C $(BUILD) lockstep-cuda fake-device mpi-compositions
	scripts/gpu-bundle $(BUILD)

docs: $(BUILD)/build.ninja  ## manual pages and completions, from the declarations, into build/man
	meson compile -C $(BUILD) docs

install: build  ## into the prefix of the build folder (MESON_OPTIONS=--prefix=FOLDER), under DESTDIR if set
	meson install -C $(BUILD) --no-rebuild

clean:  ## remove the build folder
	rm -rf $(BUILD)
