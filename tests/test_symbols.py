"""What libsilt exports: names of silt and nothing else.

usage: test_symbols.py LIBSILT
"""
import re
import subprocess
import sys

OWN = re.compile(r"^[A-Za-z] (silt::|silt_|(vtable|typeinfo|typeinfo name) for silt::)")


def main():
    out = subprocess.run(["nm", "-DC", "--defined-only", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    symbols = [line.split(" ", 1)[1] for line in out.splitlines()]
    foreign = [symbol for symbol in symbols if not OWN.match(symbol)]
    needed = ["silt::attn_res(", "silt::kernels(", "silt_attn_res", "silt_last_error"]
    missing = [name for name in needed if not any(name in symbol for symbol in symbols)]
    for symbol in foreign:
        print(f"exported, but not of silt: {symbol}")
    for name in missing:
        print(f"not exported: {name}")
    print(f"{len(symbols)} symbols")
    return 1 if foreign or missing else 0


sys.exit(main())
