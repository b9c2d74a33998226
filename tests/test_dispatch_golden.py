"""The chooser's answer for every known device, against tests/dispatch/<device>.txt.

usage: test_dispatch_golden.py SILT [--update]     with --update the files are written anew: read the difference before a commit
"""
import difflib
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent / "dispatch"


def silt(*arguments):
    return subprocess.run([SILT, *arguments], capture_output=True, text=True, check=False)


def table(device, lines):
    """What explain prints for every line; a problem that no kernel takes is an answer too."""
    text = ""
    for line in lines:
        result = silt("explain", line, "--device", device)
        if result.returncode not in (0, 1) or not result.stdout:
            sys.exit(f"explain \"{line}\" --device {device}: exit {result.returncode}: {result.stderr}")
        # Kernels of other backends, and what this build lacks, are no part of the choice.
        text += re.sub(r"^.* refuses: device: .*\n| \(not built here: .*\)$", "", result.stdout, flags=re.M)
        text += re.sub(r"^silt explain: ", "  ", result.stderr) + "\n"
    return text


def main():
    update = sys.argv[2:] == ["--update"]
    lines = [line for line in (HERE / "lines.txt").read_text().splitlines() if line and not line.startswith("#")]
    known = silt("explain", lines[0], "--device", "?").stderr
    devices = [name for name in known.split("needs one of ")[1].strip().split(", ") if ":" not in name and name != "cpu"]
    operators = re.findall(r"^  (\w+)$", silt("info").stdout, re.M)
    missing = [op for op in operators if not any(line.split()[0] == op for line in lines)]
    wrong = [f"{HERE / 'lines.txt'}: no line for {op}" for op in missing]
    for device in devices:
        path, now = HERE / f"{device}.txt", table(device, lines)
        if update:
            path.write_text(now)
            continue
        written = path.read_text() if path.exists() else ""
        wrong += difflib.unified_diff(written.splitlines(), now.splitlines(), str(path), "now", "", "", n=3, lineterm="")
    print("\n".join(wrong) if wrong else f"{len(devices)} devices, {len(lines)} lines: as written")
    return 1 if wrong or not devices or not operators else 0


if __name__ == "__main__":
    SILT = sys.argv[1]
    sys.exit(main())
