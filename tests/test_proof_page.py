"""docs/proof.md, coverage: which test shows a row of docs/cases.md for which kernel.

Read from the sources, so that the page is the same on every machine: a comment "// 9, 10: ..." above a test names its rows
(tests/test_docs.py), and what a test's suite is instantiated with says which kernels it walks. A cell without a test needs
a reason in tests/proof_reasons.txt. With a build, every claim about a kernel that runs here is compared with what the test
programs list.

usage: test_proof_page.py ROOT SILT [BUILD] [--update]     --update writes the part of the page between its two marks
"""
import collections
import fnmatch
import pathlib
import re
import subprocess
import sys

from test_docs import ROW, tests_of

BEGIN, END = "<!-- coverage: tests/test_proof_page.py --update -->", "<!-- end of coverage -->"
# Folders of tests, the operators whose lists they walk; a file's own name and its suites' parameters go before.
OPERATORS = {
    "src/attn_res/test": ["attn_res"],
    "src/attn_res/two_phase/test": ["attn_res_partials", "attn_res_merge"],
    "src/kda/decode/test": ["kda_decode"],
    "src/kda/prefill/test": ["kda_prefill"],
    "src/kda/conv_update/test": ["causal_conv1d_update"],
    "src/kda/recurrence/test": ["kda_recurrence"],
    "src/kda/gated_norm/test": ["rms_norm_gated"],
}
KDA = ["kda_decode", "kda_prefill", "causal_conv1d_update", "kda_recurrence", "rms_norm_gated"]
# Suites that walk something of one kernel, and the kernel; others that their tests name are what it is compared with.
OF_ONE_KERNEL = {("src/kda/decode/test/test_kda_decode_cuda.cpp", "Schedules"): "cuda_sm90_heads"}
# What a chain of operators shows, it shows of each of them.
CHAINS = {"src/kda/test": KDA, "src/kda/shared/test": KDA}


def kernel_lists(silt):
    """{operator: [kernel, ...]} as the program tells them."""
    text = subprocess.run([silt, "info"], capture_output=True, text=True, check=True).stdout
    lists = collections.OrderedDict()
    for line in text[text.index("kernels, fastest first"):].splitlines()[1:]:
        if match := re.fullmatch(r"  (\w+)", line):
            lists[match[1]] = []
        elif match := re.fullmatch(r"    ((?:cpu|cuda|hip)_\w+) +(?:built|not built.*)", line):
            lists[list(lists)[-1]].append(match[1])
        elif not line.startswith("    "):
            break
    return lists


def operators_of(path, text, suite, everything):
    """The operators a suite of a file speaks of."""
    constant = re.search(r'kOp = "(\w+)"', text)
    for match in re.finditer(r"INSTANTIATE_TEST_SUITE_P\(\w+, (\w+),\s*testing::ValuesIn\(\w+\((?:\"(\w+)\"|(kOp))\)\)", text):
        if match[1] == suite and path.parent.as_posix() not in CHAINS:
            return [match[2] or constant[1]]
    folder = path.parent.as_posix()
    named = [op for op in OPERATORS.get(folder, []) if path.stem == f"test_{op}"]
    return named or OPERATORS.get(folder) or CHAINS.get(folder) or everything


def covered_kernels(path, suite, body, kernels):
    """Of an operator's kernels: those of the file's device; where a test of one device names kernels, these."""
    if one := OF_ONE_KERNEL.get((path.as_posix(), suite)):
        return [one]
    device = next((name for name in ("cuda", "hip") if f"_{name}" in path.stem), None)
    if device is None:
        return kernels
    own = [kernel for kernel in kernels if kernel.startswith(device)]
    return [kernel for kernel in own if kernel in body] or own


def coverage(root, lists):
    """{(row, operator, kernel): {test, ...}}, and the titles of the rows."""
    cells, titles, named = collections.defaultdict(set), collections.OrderedDict(), {}
    for line in (root / "docs" / "cases.md").read_text().splitlines():
        if match := ROW.match(line):
            titles[match[1]] = line.split("|")[2].strip()
            named[match[1]] = re.findall(r"`(\w+\.\w+)`", match[2])
            if "case table" in match[2]:
                for op, kernels in lists.items():
                    for kernel in kernels:
                        cells[match[1], op, kernel].add("Numerics")
    # A test that the page names without a comment above it is meant where there is one of that name.
    files = {file.relative_to(root): file.read_text() for file in sorted((root / "src").rglob("test_*.c*"))}
    count = collections.Counter(name for text in files.values() for name, _ in tests_of(text))
    for path, text in files.items():
        if "model" in path.parts:  # the decoder: no kernels of its own
            continue
        for name, numbers in tests_of(text):
            if count[name] == 1:
                numbers = numbers | {row for row, names in named.items() if name in names}
            suite, test = name.split(".")
            start = re.search(rf"^TEST(?:_P|_F)?\({suite}, {test}\)", text, re.M).start()
            body = text[start:text.find("\n}\n", start)]
            for op in operators_of(path, text, suite, list(lists)) if numbers else []:
                for kernel in covered_kernels(path, suite, body, lists[op]):
                    for number in numbers:
                        cells[number, op, kernel].add(name)
    return cells, titles


def read_reasons(root):
    """[(rows, operator pattern, kernel pattern, reason)]"""
    reasons = []
    for line in (root / "tests" / "proof_reasons.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            rows, op, kernel, reason = (part.strip() for part in line.split("|"))
            reasons.append((rows.split(), op.split(), kernel.split(), reason))
    return reasons


def reason_for(reasons, used, row, op, kernel):
    for i, (rows, ops, kernels, text) in enumerate(reasons):
        if row in rows and any(fnmatch.fnmatch(op, p) for p in ops) and any(fnmatch.fnmatch(kernel, p) for p in kernels):
            used.add(i)
            return text
    return None


def page_of(cells, titles, lists, reasons, wrong):
    """One table an operator; kernels whose cells are the same share a column."""
    out, used, empty, full = [], set(), 0, 0
    for op, kernels in lists.items():
        columns = collections.OrderedDict()
        for kernel in kernels:
            column = []
            for row in titles:
                tests = sorted(cells.get((row, op, kernel), ()))
                text = " ".join(f"`{test}`" for test in tests)
                # The case table goes for every operator, so a row that is not for this one says why.
                if tests in ([], ["Numerics"]) and (reason := reason_for(reasons, used, row, op, kernel)):
                    text, empty = f"*{reason}*", empty + 1
                elif tests:
                    full += 1
                else:
                    wrong.append(f"{op}: {kernel}: row {row} of docs/cases.md has no test, and tests/proof_reasons.txt gives no reason")
                column.append(text)
            columns.setdefault(tuple(column), []).append(kernel)
        out += [f"### {op}", "", "| # | " + " | ".join(" ".join(names) for names in columns.values()) + " |",
                "|---|" + "---|" * len(columns)]
        for i, row in enumerate(titles):
            out.append(f"| {row} | " + " | ".join(column[i] for column in columns) + " |")
        out.append("")
    wrong += [f"tests/proof_reasons.txt: no cell needs: {reasons[i][3]}" for i in range(len(reasons)) if i not in used]
    out[:0] = [f"{len(titles)} rows, {sum(map(len, lists.values()))} kernels of {len(lists)} operators: {full} cells with a test, {empty} "
               "with a reason why there is none, 0 empty.", ""]
    return "\n".join(out)


def listed_tests(build):
    """{(test, kernel)} of every test program of a build."""
    listed = set()
    for program in sorted(pathlib.Path(build).glob("src/**/test_*")):
        if program.is_dir() or program.suffix or "_cuda" in program.name:
            continue
        suite = ""
        for line in subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout.splitlines():
            if not line.startswith(" "):
                suite = line.split("/")[-1].rstrip(".").split(".")[0]
            elif match := re.match(r"  (\w+)/(\w+)", line):
                listed.add((program.name, f"{suite}.{match[1]}", match[2]))
    return listed


def compare_with_build(root, lists, build, wrong):
    """A test that walks the kernels of a list must be there for every kernel that any test of its program is there for."""
    claims = 0
    by_program = collections.defaultdict(lambda: collections.defaultdict(set))
    for program, test, kernel in listed_tests(build):
        by_program[program][test].add(kernel)
    for op, kernels in lists.items():
        tests = by_program.get(f"test_{op}", {})
        here = {kernel for found in tests.values() for kernel in found if kernel in kernels}
        for test, found in tests.items():
            if test.startswith("Numerics."):
                continue
            claims += len(here)
            wrong += [f"{op}: {test} is not instantiated for {kernel}" for kernel in sorted(here - found)]
        if not here:
            wrong.append(f"{op}: {build} has no test of any kernel")
    return claims


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--update"]
    root, silt = pathlib.Path(arguments[0]), arguments[1]
    wrong, lists = [], kernel_lists(silt)
    cells, titles = coverage(root, lists)
    text = page_of(cells, titles, lists, read_reasons(root), wrong)
    page = root / "docs" / "proof.md"
    before, rest = page.read_text().split(BEGIN)
    made = f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}"
    if "--update" in sys.argv:
        page.write_text(made)
    elif made != page.read_text():
        wrong.append("docs/proof.md: the coverage is not that of the sources (tests/test_proof_page.py --update writes it)")
    claims = compare_with_build(root, lists, arguments[2], wrong) if len(arguments) > 2 else 0
    print("\n".join(wrong) if wrong else f"{text.splitlines()[0]} {claims} claims found in the test programs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
