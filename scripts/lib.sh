# Shared parts of the scripts: where the repository is, Debian packages, configuring and building.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)

# What compiles everything; the list of reasons is docs/dependencies.md.
build_packages=(g++ cmake ninja-build python3 libhwy-dev libdnnl-dev ocl-icd-opencl-dev nlohmann-json3-dev libcli11-dev
  libfmt-dev libspdlog-dev libgtest-dev libbenchmark-dev)

say() { printf '%s\n' "$*"; }
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
