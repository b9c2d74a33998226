"""The C++ example of README.md, as it stands there: compiled, run, and its output compared with the block behind it.

usage: test_readme.py README LIBSILT CXX_COMPILER [CXX_FLAG...]
"""
import pathlib
import re
import subprocess
import sys
import tempfile

README, LIBRARY, COMPILER, *FLAGS = sys.argv[1:]


def main():
    readme = pathlib.Path(README)
    blocks = re.findall(r"```cpp\n(.*?)```.*?```text\n(.*?)```", readme.read_text(), re.S)
    if len(blocks) != 1:
        sys.exit(f"{README}: has {len(blocks)} C++ examples with an output, needs 1")
    code, expected = blocks[0]
    library = pathlib.Path(LIBRARY).resolve()
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder) / "example.cpp", pathlib.Path(folder) / "example"
        source.write_text(code)
        command = [COMPILER, "-std=c++20", "-Wall", "-Wextra", "-Werror", *FLAGS, f"-I{readme.parent / 'include'}",
                   str(source), "-o", str(program), str(library), f"-Wl,-rpath,{library.parent}"]
        subprocess.run(command, check=True)
        out = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    if out != expected:
        sys.exit(f"README.md says\n{expected}\nthe example prints\n{out}")
    print(f"{len(code.splitlines())} lines, prints what README.md says")


main()
