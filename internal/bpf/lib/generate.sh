#!/bin/sh
# generate.sh compiles the routines: every C file twice, for kernels that have
# may_goto (6.9) and for those that have only the helper bpf_loop. The result
# depends on nothing but the sources and clang's version. The objects go to obj,
# or to the folder that is the argument.
set -eu
cd "$(dirname "$0")"
out=$(realpath "${1:-obj}")
clang=${CLANG:-clang-14} objcopy=${OBJCOPY:-llvm-objcopy-14}
cd c
for c in *.c; do
	for variant in MAY_GOTO BPF_LOOP; do
		o=$out/${c%.c}.$(echo $variant | tr A-Z_ a-z-).o
		$clang -O2 -target bpf -mcpu=v3 -g0 -Wall -Werror -Wno-unused-variable -Wno-unused-function \
			-D$variant -c $c -o $o
		$objcopy --strip-unneeded --discard-all --remove-section=.llvm_addrsig $o
	done
done
