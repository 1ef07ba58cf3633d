# SPDX-License-Identifier: GPL-2.0
#
# O=DIR        build folder (build)
# BASE=NAME    another base than the newest, as named in the file "base"
# LINUX=DIR    a kernel tree of your own as the base, instead of Debian's package
# K=KERNEL     plain, debug, arm64 or arm64-debug only
# T=NAME       only tests with NAME in their name
# ALL=1        test: as many on other kernels as on plain; bisect: more configs; check: slow scripts, too
# MINUTES=N    how long make stress takes (2)
# CONFIG=FILE  the kernel config for make deb (that of the running kernel)
# V=N          version of the series that make series writes (1)

O ?= build
MINUTES ?= 2
override O := $(abspath $(O))
# Empty without BASE, or with the newest
override BASE := $(filter-out $(shell awk '!/^\#/ { print $$1; exit }' base),$(BASE))
export O BASE LINUX K T ALL
unexport V CONFIG

# Kernels without an architecture in their name are for x86_64.
KERNELS = $(or $(K),plain$(if $(BASE),, debug arm64$(if $(ALL), arm64-debug)))
x86_64 = $(filter-out arm64%,$(KERNELS))
arm64 = $(patsubst arm64-%,%,$(patsubst arm64,arm64-plain,$(filter arm64%,$(KERNELS))))

# PARTS lists what a target builds, so that deps and tree can check at once that there is room.
# Here "kernels" stands for the kernels of each architecture.
parts = $(foreach arch,x86_64 arm64,$(if $($(arch)),$(addprefix $(arch)/,$(subst kernels,$($(arch)),$(1)))))

# Do not pass the variables of this make on to the kernel's. make ci runs make, which would print
# the directories in the middle of lists that scripts read.
MAKEOVERRIDES :=
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

.DEFAULT_GOAL := help
.PHONY: help run test stress sanitize shell check ci bisect series baseline bench deb installed tree refresh port deps room kernel perf selftests guest clean

help: ## Show this text
	@sed -nE 's/^([a-z]+):.*## (.*)/\1 \2/p' Makefile | while read -r name text; do \
		printf '  make %-10s %s\n' "$$name" "$$text"; done
	@sed -nE 's/^# ([A-Z]+=[A-Z0-9]+) +(.*)/  \1 \2/p' Makefile | while read -r name text; do \
		printf '  %-15s %s\n' "$$name" "$$text"; done

run: PARTS = plain perf selftests guest
run: tree ## Show sessions in the guest: record, count, run programs, read, stop
	@scripts/build $(PARTS)
	@vm/run --add vm/demo -- sh /root/demo

test: PARTS = $(call parts,kernels perf selftests guest) $(if $(filter plain,$(KERNELS)),$(if $(BASE),,readers))
test: tree ## Run all tests, on plain and debug kernels
	@scripts/build $(PARTS)
	@tests/run $(KERNELS)

stress: KERNELS = $(or $(K),$(if $(BASE),plain,debug))
stress: PARTS = $(call parts,kernels perf selftests guest)
stress: tree ## Run the stress test for MINUTES, on the debug kernel
	@scripts/build $(PARTS)
	@PERSISTENT_STRESS_SECONDS=$$(($(MINUTES) * 60)) T=persistent_stress tests/run $(KERNELS)

sanitize: PARTS = plain perf selftests guest sanitized
sanitize: tree ## Run perf's tests with a perf that is built with ASan and UBSan
	@scripts/build $(PARTS)
	@tests/run sanitized

shell: KERNELS = $(or $(K),plain)
shell: PARTS = $(call parts,kernels perf selftests guest)
shell: tree ## Boot the guest with a shell at your terminal
	@scripts/build $(PARTS)
	@vm/run $(if $(arm64),--arch arm64) --kernel $(x86_64)$(arm64)

check: PARTS = $(if $(BASE),,plain perf selftests guest)
check: MORE = $(if $(ALL),check)
check: tree ## Check the series with the kernel's own scripts, and the scripts here; ALL=1: with more of them
	@scripts/build $(PARTS)
	@tests/run check

ci: ## Run test, stress and check, and on the other base test and check
	@tests/ci

bisect: PARTS = bisect
bisect: MORE = $(if $(ALL),clang)
bisect: tree ## Build what each commit of the series touches; with ALL=1 in more configs, and boot it
	@scripts/bisect

series: tree ## Write the series as mails to build/mail: a folder for each part, and all in one file; BASE: the file
	@scripts/mail $(if $(V),-v $(V))

# Both use the newest base.
baseline bench: override BASE :=
baseline: PARTS = selftests base
baseline: tree ## Without the series: run perf's own suites, and see if each fix's test fails
	@scripts/build $(PARTS)
	@O=$(O)/base vm/run --timeout 3000 --add tests/suites -- sh /root/suites >$(O)/suites.base
	@mv $(O)/suites.base tests/suites.base
	@tests/unfixed

bench: PARTS = $(addprefix arm64/,plain off perf selftests guest bench base)
bench: tree ## Measure the costs, compared with the base: bench/results.md
	@scripts/build $(PARTS)
	@bench/run arm64

# These need more packages.
deb installed: MORE = deb
deb: PARTS = deb
deb: tree ## Build Debian packages of the kernel and perf, for a machine of your own
	@CONFIG='$(CONFIG)' scripts/build $(PARTS)

installed: PARTS = machine
installed: tree ## Install, use, upgrade and remove such packages on Debian with systemd
	@scripts/build $(PARTS)
	@tests/run installed

# perf, the selftests and the new files are those of the newest base, for any base.
tree: deps ## Make or update the kernel tree with the series as a branch, in the build folder
	@$(if $(BASE),BASE= LINUX= scripts/tree make)
	@scripts/tree make

refresh: ## Write that branch back into patches/ and the new files
	@scripts/tree refresh

port: deps ## Port the changes of the newest base's series to BASE
	@BASE= LINUX= scripts/tree make
	@scripts/tree port

deps: room ## Install the Debian packages that are missing
	@scripts/deps $(MORE)

room: ## Check that the disk has room; every build starts with this
	@CONFIG='$(CONFIG)' scripts/build --room $(PARTS)

kernel: PARTS = $(call parts,kernels)
kernel: tree ## Build the kernels
	@scripts/build $(PARTS)

perf: PARTS = $(call parts,perf)
perf: tree ## Build perf
	@scripts/build $(PARTS)

selftests: PARTS = $(call parts,selftests)
selftests: tree ## Build the selftests
	@scripts/build $(PARTS)

guest: PARTS = $(call parts,perf selftests guest)
guest: tree ## Build the guest's file system, with perf and the selftests
	@scripts/build $(PARTS)

clean: ## Remove what was built, but not the kernel tree
	rm -rf $(O)/x86_64 $(O)/arm64 $(O)/[0-9]* $(O)/log
