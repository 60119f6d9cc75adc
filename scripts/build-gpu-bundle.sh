#!/bin/sh
# Builds the GPU tests, the examples and the benches, and collects them, stripped, in carry/bin, from where
# scripts/gpu.sh runs them on a machine that has a GPU but no Rust.
#
#   scripts/build-gpu-bundle.sh                    # without NVTX
#   NVTX=1 scripts/build-gpu-bundle.sh             # and the example and tests of NVTX ranges; needs libclang
#
#   TUTORIALS=1 scripts/build-gpu-bundle.sh        # the tutorials, and nothing else: both together are too much to carry
#   PACK=1 scripts/build-gpu-bundle.sh             # as carry/bin.tar.gz, less than half as large
#
# Other arguments go to cargo too. CUPTI libraries to try each in turn belong in carry/cupti (one file or folder each).
set -eu
cd "$(dirname "$0")/.."
bin=carry/bin
limit_mib=64

mkdir -p "$bin"
rm -f "$bin"/* "$bin.tar.gz"
json=$(mktemp)
trap 'rm -f "$json"' EXIT

# collect SUFFIX CARGO-ARGUMENTS…: builds, and copies what can be run to NAME, tests to NAME SUFFIX.
collect() {
    suffix=$1
    shift
    cargo build --release --message-format=json-render-diagnostics "$@" > "$json"
    # A shared library is not an "executable" to cargo.
    sed -n 's/.*"filenames":\["\([^"]*\/examples\/lib[^"]*\.so\)".*/\1/p' "$json" | while read -r file; do
        strip -o "$bin/$(basename "$file")" "$file"
    done
    # One line a built target; those that can be run name their file. Tests and benches have a hash in the name.
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$json" | sort -u | while read -r file; do
        name=$(basename "$file" | sed 's/-[0-9a-f]\{16\}$//')
        case "$file" in
            */examples/*) strip -o "$bin/$name" "$file" ;;
            */deps/*) strip -o "$bin/$name$suffix" "$file" ;;
            *) ;; # a package's own binaries come along with its tests
        esac
    done
}

# Apart, because with the feature each of the crate's ranges costs an NVTX range too, which the bench must not see.
# The words of lists are split on purpose.
# shellcheck disable=SC2046
if [ -n "${TUTORIALS:-}" ]; then
    collect "" $(cd examples && printf -- '--example %s ' $(basename -s .rs tutorial_*.rs)) "$@"
else
    collect "" --test gpu --bench launch_cost --bench counters_proof --bench bench_proof --bench kernels \
        --example quickstart --example graphs --example threads --example read_parquet --example sweep --example doctor "$@"
fi
if [ -n "${NVTX:-}" ]; then
    collect _nvtx --features nvtx --test gpu --example nvtx_ranges --example nvtx_plugin "$@"
fi

echo
ls -l "$bin" | awk 'NR > 1 { printf "%8.1f MiB  %s\n", $5 / 1048576, $NF }'
if [ -n "${PACK:-}" ]; then
    tar -C "$bin" -czf "$bin.tar.gz" .
    rm -r "$bin"
    ls -l "$bin.tar.gz" | awk '{ printf "%8.1f MiB  %s\n", $5 / 1048576, $NF }'
fi
total=$(du -sm carry | cut -f1)
echo "carry/ has $total MiB of at most $limit_mib"
[ "$total" -le "$limit_mib" ] || { echo "that is too much" >&2; exit 1; }
