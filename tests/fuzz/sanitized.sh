#!/bin/sh
# sanitized.sh SOURCE BUILD LIBTORCH [FUZZ-OPTION …]: sets up and builds the fuzz program with AddressSanitizer, LeakSanitizer, UBSan and
# the assertions of the standard library, in the folder BUILD (what is there is used again), and runs it: its TAP is printed. CXX: the compiler.
source=$1
build=$2
libtorch=$3
shift 3
again=''
[ ! -f "$build/build.ninja" ] || again=--reconfigure
if ! {
  meson setup ${again:+"$again"} "$build" "$source" -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false -Ddocs=disabled \
    "-Dlibtorch=$libtorch" \
    '-Dcpp_args=-g1 -D_GLIBCXX_ASSERTIONS -fsanitize=float-cast-overflow' && meson compile -C "$build" -j 1 fuzz
} > "$build.log" 2>&1; then
  tail -n 40 "$build.log" | sed 's/^/# /'
  printf 'not ok 1 - the fuzz program is built under sanitizers\n1..1\n'
  exit 1
fi
exec "$build/tests/fuzz/fuzz" "$@"
