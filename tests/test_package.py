"""Installs silt into a temporary prefix, builds a consumer against it with find_package(silt), and runs both.

usage: test_package.py BUILD_FOLDER CXX_COMPILER [CXX_FLAG...]
"""
import pathlib
import subprocess
import sys
import tempfile

BUILD, COMPILER, *FLAGS = sys.argv[1:]
CMAKE_LISTS = """
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(silt 0.1 REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE silt::silt)
"""
MAIN = """
#include <cstdio>
#include <silt/choose.hpp>
#include <silt/silt.h>
int main() {
  silt::DeviceFacts facts;
  silt::Explanation explanation;
  if (!silt::canned_facts("zen4", &facts).ok()) return 1;
  if (!silt::explain("attn_res t=4 n=2 d=64", facts, {}, &explanation).ok()) return 2;
  std::printf("%s %s", silt_version(), explanation.kernel.c_str());
}
"""


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        prefix, source, build = (pathlib.Path(folder) / name for name in ("prefix", "source", "build"))
        run("cmake", "--install", BUILD, "--prefix", prefix)
        version = run(prefix / "bin" / "silt", "--version").strip()  # finds libsilt by its own $ORIGIN
        links = {p.name for p in prefix.rglob("libsilt.so*")}
        expected = {"libsilt.so", "libsilt.so." + version.rsplit(".", 1)[0], "libsilt.so." + version}
        if links != expected:
            sys.exit(f"installed libraries: {sorted(links)}, needs {sorted(expected)}")
        (library,) = prefix.rglob("libsilt.so." + version)
        if f"[libsilt.so.{version.rsplit('.', 1)[0]}]" not in run("readelf", "-d", library):
            sys.exit("SONAME: needs major and minor version")
        if BUILD in run("readelf", "-d", prefix / "bin" / "silt"):
            sys.exit("the installed program still points into the build folder")
        source.mkdir()
        (source / "CMakeLists.txt").write_text(CMAKE_LISTS)
        (source / "main.cpp").write_text(MAIN)
        run("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DCMAKE_CXX_FLAGS={' '.join(FLAGS)}")
        run("cmake", "--build", build)
        out = run(build / "consumer").split()
        if out[0] != version or not out[1].startswith("cpu_"):
            sys.exit(f"the consumer printed {out}")
        print(f"silt {version}: installed, found, linked; chose {out[1]}")


main()
