# Everything the project builds, checks and measures; `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
export CGO_ENABLED := 0

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
PREFIX      ?= /usr/local
FUZZTIME    ?= 10s

.PHONY: help build test test-here test-lang vm vm-update lint fuzz bench generate install clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

build: ## ./godtrace, and ./dtrace as a link to it
	$(GO) build -trimpath -ldflags '-s -w' -o godtrace ./cmd/godtrace
	ln -sf godtrace dtrace

test: test-here vm ## every test: on this kernel, then on the kernels of the matrix (root)

# One package at a time (-p 1): tests of the kernel half watch what the whole
# machine has loaded, and several count events per CPU.
test-here: ## every test on this kernel (root for the kernel half)
	$(GO) test -json -p 1 -timeout 20m ./... | $(GO) run ./test/report

test-lang: ## the language half alone: no root, no kernel
	$(GO) test $$(sed -n '/^var LanguageHalf/,/^}/s|.*"\(internal/.*\)",|./\1|p' internal/testkernel/halves.go)

vm: ## the kernel half under Debian's 6.1, 6.12 and 7.2 in QEMU
	GODTRACE_VM=1 $(GO) test -json -count=1 -timeout 52m -run '^TestMatrix$$' ./test/vm | $(GO) run ./test/report

vm-update: ## the same, and rewrite doc/matrix.md
	GODTRACE_VM=1 $(GO) test -count=1 -timeout 52m -run '^TestMatrix$$' ./test/vm -update

lint: ## gofmt, go vet, staticcheck
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt -w wanted for:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

fuzz: ## each fuzz target for FUZZTIME
	@grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -rn1 dirname | sort -u | while read -r d; do \
		for f in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$d"/*_test.go); do \
			echo "$$d $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$d"; \
		done; \
	done

bench: build ## side by side with bpftrace, Oracle's dtrace, strace (root)
	$(GO) run ./bench

generate: ## what is generated and checked in
	$(GO) generate ./...

install: build ## into $(PREFIX)
	install -D -m 755 godtrace $(DESTDIR)$(PREFIX)/sbin/godtrace
	ln -sf godtrace $(DESTDIR)$(PREFIX)/sbin/dtrace
	install -D -m 644 doc/godtrace.1 $(DESTDIR)$(PREFIX)/share/man/man1/godtrace.1
	install -D -m 644 doc/completion/godtrace.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/godtrace
	ln -sf godtrace $(DESTDIR)$(PREFIX)/share/bash-completion/completions/dtrace
	install -D -m 644 doc/completion/_godtrace $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_godtrace

clean: ## what was built
	rm -f godtrace dtrace
