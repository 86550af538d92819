#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build a program that uses the original ExecuTorch runtime, for comparisons by bench.py.
#
#     tests/bench/peer.sh PROGRAM.cpp     prints the path of the built program
#
# PROGRAM.cpp is the runner that comes with the material beside the checkout (../shared/peer/runner.cpp), or peer_cache.cpp
# here. It is compiled against the PyPI wheel `executorch`, which is installed without its dependencies into a virtual
# environment in ${XDG_CACHE_HOME:-~/.cache}/inferd/peer. Existing environments and programs are used again.
set -euo pipefail

VERSION=1.5.1
source=${1:?usage: tests/bench/peer.sh PROGRAM.cpp}
place=${XDG_CACHE_HOME:-$HOME/.cache}/inferd/peer
runner=$place/$(basename "$source" .cpp)-$VERSION
if [ -x "$runner" ] && [ ! "$source" -nt "$runner" ]; then
	echo "$runner"
	exit
fi
mkdir -p "$place"
if [ ! -e "$place/venv-$VERSION/done" ]; then
	rm -rf "$place/venv-$VERSION"
	python3 -m venv "$place/venv-$VERSION" >&2
	"$place/venv-$VERSION/bin/pip" install --quiet --no-deps "executorch==$VERSION" >&2
	touch "$place/venv-$VERSION/done"
fi
wheel=$("$place/venv-$VERSION/bin/python" -c \
	'import importlib.util as u; print(u.find_spec("executorch").submodule_search_locations[0])')
${CXX:-g++} -std=c++17 -O2 -DC10_USING_CUSTOM_GENERATED_MACROS -I"$wheel/include" \
	-I"$wheel/include/executorch/runtime/core/portable_type/c10" "$source" -o "$runner.new" -L"$wheel/lib" \
	-Wl,--no-as-needed -lexecutorch -lexecutorch_backend_xnnpack -lexecutorch_kernels_optimized \
	-lexecutorch_kernels_quantized -lexecutorch_threadpool -Wl,-rpath,"$wheel/lib" >&2
mv "$runner.new" "$runner"
echo "$runner"
