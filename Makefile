# What a person types about hosts. `make help` lists the targets; `fab --list` is about runs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

INVENTORY ?= $(or $(REGATTA_INVENTORY),inventory/lab)
NODES ?= 3
LAB ?= lab
LAB_EGRESS ?= yes
TOPOLOGY ?= flat
NODE ?=
ARGS ?=
ONLY ?=

PY := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export REGATTA_INVENTORY := $(INVENTORY)

# $(call regatta,COMMAND,FLAGS): a command about hosts, with those of its flags whose variables are given.
regatta = REGATTA_TYPED=make $(PY) -m regatta.provisioning.commands $(1) --inventory $(INVENTORY) $(foreach one,$(2),$(flag-$(one))) $(ARGS)
given = $(if $($(2)),--$(1) "$$$(2)")
switch = $(if $(filter-out yes no,$($(2))),$(error $(2) is 'yes' or 'no', not '$($(2))'))$(if $(filter yes,$($(2))),--$(1))
flag-node = $(if $(NODE),--node $(NODE))
flag-bundle = $(call given,bundle,BUNDLE)
flag-out = $(call given,out,OUT)
flag-suite = $(call given,suite,SUITE)
flag-machine = $(call given,machine,MACHINE)
flag-project = $(call given,project,PROJECT)
flag-data = $(call given,data,DATA)
flag-lease = $(call given,lease,LEASE)
flag-confirm = $(call given,confirm,CONFIRM)
flag-force = $(call switch,force,FORCE)
flag-verbose = $(if $(filter-out no 0,$(VERBOSE)),--verbose)
flag-yes = $(if $(filter yes,$(CONFIRM)),--yes)

.PHONY: help docs docs-site fuzz test-faults test-whole setup setup-node setup-tests lab lab-down lab-status provision check verify teardown add-node remove-node forget rotate-secrets rebuild rollback support-bundle bundle hdfs-restore-metadata demo test test-lab coverage lint bench locks torch-lock audit

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-21s %s\n", $$1, $$2}'

setup: ## Install what Regatta needs on this machine: system packages and .venv; BUNDLE=file does so without a network
	@tools/setup.sh controller

setup-node: setup ## Also make .venv-node: torch and Ray, for inventory/local
	@tools/setup.sh node

setup-tests: setup-node
	@tools/setup.sh tests

lab: setup ## Make temporary hosts here: NODES=3 LAB=lab LAB_EGRESS=yes|no TOPOLOGY=flat|private SUITE=trixie; CORES=1: a core for each (0.4: a part)
	@$(PY) -m lab up --name $(LAB) --nodes $(NODES) --egress $(LAB_EGRESS) --topology $(TOPOLOGY) $(if $(SUITE),--suite $(SUITE)) $(if $(CORES),--cores $(CORES))

lab-down: ## Destroy them and everything that belongs to them: LAB=lab
	@$(if $(wildcard $(PY)),$(PY),python3) -m lab down --name $(LAB)

lab-status: ## Show the labs of this machine
	@$(if $(wildcard $(PY)),$(PY),python3) -m lab status

provision: setup ## Bare hosts -> cluster: INVENTORY=inventory/NAME; BUNDLE=file downloads nothing; FORCE=yes cancels runs in its way; VERBOSE=yes: Ansible's output
	@$(call regatta,provision,force bundle lease verbose)

check: setup ## Say what provisioning would change, change nothing
	@$(call regatta,check,bundle verbose)

verify: setup ## Prove the cluster: SSH between nodes, versions, all-reduce, Ray, its token, HDFS
	@$(call regatta,verify,lease verbose)

teardown: setup ## Remove what provisioning made but HDFS's data, and prove it (asks; CONFIRM=yes does not; DATA=destroy; FORCE=yes cancels runs)
	@$(call regatta,teardown,force data confirm lease verbose)

add-node: setup ## Make a host that you added to the inventory a member: NODE=name
	@$(call regatta,add-node,node force bundle lease verbose)

remove-node: setup ## Move a node's HDFS data away, then remove its services: NODE=name
	@$(call regatta,remove-node,node force lease verbose)

forget: setup ## Drop the pinned host key of a host and pin the one it shows now (asks; CONFIRM=yes does not): NODE=name
	@$(call regatta,forget,node yes)

rotate-secrets: setup ## New secrets of all services, new keys between the nodes, everywhere (not while runs are in progress; FORCE=yes cancels them)
	@$(call regatta,rotate-secrets,force lease verbose)

rebuild: setup ## Provision a host that was reinstalled: pins its new host key (asks); its data comes from the other hosts: NODE=name
	@$(call regatta,rebuild,node force bundle yes lease verbose)

rollback: setup ## Back to the Python environment that was there before, on every node (Ray restarts; FORCE=yes cancels its runs)
	@$(call regatta,rollback,force lease)

support-bundle: setup ## One archive with versions, states, logs and configuration of all nodes, without secrets
	@$(call regatta,support-bundle,out)

bundle: setup ## Everything that provision would download, in one archive: OUT=regatta-bundle.tar SUITE=bookworm MACHINE=x86_64; PROJECT=dir: its packages too
	@$(call regatta,bundle,out suite machine project verbose)

hdfs-restore-metadata: setup ## Rebuild the NameNode from the newest copy of its metadata (asks; CONFIRM=yes does not)
	@$(call regatta,hdfs-restore-metadata,force bundle yes lease verbose)

demo: ## Everything: hosts, provision, verify, a timed run, the comparison
	@LAB=$(LAB) tools/demo.sh $(if $(filter command line environment,$(origin INVENTORY)),$(INVENTORY))

test: setup-tests ## Lint, types, unit tests, a cluster's life on hosts made here; ONLY=lint|unit|local|lab: one part
	@$(PY) tools/test.py first $(if $(ONLY),--only $(ONLY))

test-lab: setup-tests ## This machine alone, workloads under real frameworks, and the lab tests beyond `make test`; CI runs both
	@$(PY) tools/test.py rest

test-whole: setup-tests ## The tests that take too long for CI, but the faults, and all of provisioning again
	@$(PY) tools/test.py whole

coverage: setup-tests ## Branch coverage of regatta/ and workloads/ by the unit tests
	@tools/coverage.sh

lint: setup ## Lint and types
	@tools/lint.sh

test-faults: setup-tests ## Strike every fault of docs/results/faults.md on hosts made for it, and write its table
	@rm -f tests/lab/faults/outcomes.json
	@REGATTA_FAULTS=tests/lab/faults/outcomes.json $(PY) -m pytest -q tests/lab/faults || code=$$?; \
	$(PY) tests/lab/faults/outcomes.py; exit $${code:-0}

docs: setup ## Write what is made from declarations: pages of docs/reference, schemas, tables in roles' READMEs
	@$(PY) -m tools.reference
	@$(PY) -m tools.role_readmes

docs-site: setup ## Make the site of the docs, with search: build/docs/index.html
	@tools/docs_site.sh

fuzz: setup-tests ## 10,000 cases for each parser of what comes from outside; takes some minutes
	@$(PY) -m pytest -q --hypothesis-profile=thorough --timeout=0 tests/unit/test_fuzz.py
	@.venv-node/bin/python -m pytest -q --hypothesis-profile=thorough --timeout=0 tests/unit/workloads/test_fuzz.py

bench: setup ## Measure the figures of docs/results/overhead.md on a lab of 3 hosts
	@$(PY) -m benchmarks.cluster

locks: setup ## Resolve requirements/*.in again, with the SHA-256 of every file; UPGRADE=yes takes the newest versions
	@UV=$(CURDIR)/.venv/bin/uv requirements/compile.sh

torch-lock: setup ## The SHA-256 of a build of torch with a local label, from PyTorch's index: BUILD=cpu (cu126, ...)
	@UV=$(CURDIR)/.venv/bin/uv requirements/compile.sh torch $(BUILD)

audit: setup ## Known advisories for the versions in the locks, without a network: DB=all.zip, OSV's export of PyPI
	@$(PY) -m regatta.provisioning.audit $(if $(DB),"$(DB)")
