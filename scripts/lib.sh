# Shared parts of the scripts: where the repository is, Debian packages, configuring and building.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)

# What compiles everything; the list of reasons is docs/dependencies.md.
build_packages=(g++ cmake ninja-build python3 libhwy-dev nlohmann-json3-dev libcli11-dev
  libfmt-dev libspdlog-dev libgtest-dev libbenchmark-dev)

# What builds the Python package, and what tests it, from PyPI.
python_packages=(nanobind==3.1.0 scikit-build-core==1.1.2 numpy==2.4.6 ml_dtypes==0.6.0 pytest==9.2.0)

say() { printf '%s\n' "$*"; }
note() { say "-- $*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# need_packages NAME...: installs the Debian packages that are missing, and says which.
need_packages() {
  local missing=() name
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || missing+=("$name")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  command -v apt-get >/dev/null || fail "needs the Debian packages: ${missing[*]}"
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || fail "neither root nor sudo; please install: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get -qq update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}" >/dev/null
}

# quietly COMMAND...: its output only where it fails.
quietly() {
  local output
  output=$("$@" 2>&1) || { printf '%s\n' "$output" >&2; return 1; }
}

# build FOLDER PRESET [TARGET...] [-- CMAKE_OPTION...]: progress on a terminal, only complaints elsewhere.
build() {
  local folder=$1 preset=$2 targets=() quiet=()
  shift 2
  while [[ $# -gt 0 && $1 != -- ]]; do targets+=("$1"); shift; done
  [[ $# -eq 0 ]] || shift
  [[ -t 1 ]] || quiet=(--quiet)
  quietly cmake --preset "$preset" -B "build/$folder" "$@"
  ninja "${quiet[@]}" -j "$jobs" -C "build/$folder" "${targets[@]}"
}

# fuzzer NAME BUILD: the program, and the room that it and its corpus belong to.
fuzzer() {
  case $1 in
    operators) echo "$2/src/proof/fuzz_$1 src/proof/fuzz/corpus/$1" ;;
    safetensors | config) echo "$2/src/model/fuzz_$1 src/model/fuzz/corpus/$1" ;;
    *) fail "NAME: has \"$1\", needs operators, safetensors or config" ;;
  esac
}

# run_fuzzer NAME BUILD SECONDS: a search from the corpus in the repository; what is found new stays in the build folder.
run_fuzzer() {
  local program corpus longest=4096
  [[ $1 != operators ]] || longest=128 # what a line and its header use
  read -r program corpus < <(fuzzer "$1" "$2")
  mkdir -p "$2/found-$1"
  "$program" -max_total_time="$3" -max_len="$longest" -print_final_stats=1 -artifact_prefix="$2/$1-" "$2/found-$1" "$corpus"
}

# inputs_of LOG: how many inputs a search ran.
inputs_of() { sed -n 's/^stat::number_of_executed_units: *//p' "$1"; }

# An nvcc that the CUDA kernels can be built with.
find_nvcc() {
  local nvcc
  for nvcc in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    [[ -x $nvcc && $("$nvcc" --version) =~ release\ ([0-9]+) && ${BASH_REMATCH[1]} -ge 13 ]] || continue
    echo "$nvcc"
    return
  done
  return 1
}

# build_release [TARGET...] [-- CMAKE_OPTION...]: sets preset to that of the release build here.
build_release() {
  local nvcc
  preset=release
  if nvcc=$(find_nvcc); then
    note "with the CUDA kernels: $nvcc"
    preset=cuda
    export PATH="${nvcc%/*}:$PATH"
  else
    note "without the CUDA kernels: no nvcc of version 13 or newer"
  fi
  build "$preset" "$preset" "$@"
}

# install_package VENV BUILD: the Python package, linked with the library of BUILD, into a virtual environment.
install_package() {
  quietly env CMAKE_BUILD_PARALLEL_LEVEL="$jobs" "$1/bin/python" -m pip install -q --no-build-isolation --no-deps --force-reinstall \
    --config-settings=build-dir="$PWD/build/python/{wheel_tag}" --config-settings=cmake.define.SILT_BUILD_TREE="$PWD/$2" ./bindings/python
}

# test_package VENV BUILD: what is compared is the library and the program of BUILD.
test_package() {
  SILT_LIBRARY=$PWD/$2/src/libsilt.so SILT_PROGRAM=$PWD/$2/bin/silt "$1/bin/python" -B -m pytest -p no:cacheprovider -rs bindings/python
}
