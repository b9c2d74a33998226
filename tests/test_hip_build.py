"""What the device compilers made of the AMD kernels, against tests/resources/hip/<name>.txt. No GPU is needed.

A code object is built by way of assembly; this reads the assembly: registers and memory from its metadata, and a census of
the instructions. A table line holds for the compiler that it names (another version gives other numbers); the rules hold
for every compiler:
  - no spills, no scratch memory, no flat or buffer access;
  - "# stream <kernel> <n>": exactly n 16-byte loads and n stores past the caches, none of them waits for an earlier load,
    and nothing waits for one before the first barrier;
  - "# loads <kernel> <n>": exactly n 16-byte loads past the caches, none of which waits for an earlier load, and no store;
  - "# kernels <n>": so many in the object.

usage: test_hip_build.py FOLDER [--out-of-place] [--update]   FOLDER has <name>.<isa>.s; with --update the tables are written
anew. --out-of-place: built with SILT_HIP_OUT_OF_PLACE; no move between lanes is in place, the table does not hold
"""
import pathlib
import re
import sys

TABLES = pathlib.Path(__file__).parent / "resources" / "hip"
# Title and pattern of every column that is counted; the titles are the table's head.
COUNTS = [
    ("ld16nt", r"global_load_dwordx4 .* nt$"), ("st16nt", r"global_store_dwordx4 .* nt$"), ("ld", r"global_load_"),
    ("st", r"global_store_"), ("sld", r"s_load_"), ("dsr", r"ds_read"), ("dsw", r"ds_write"), ("perm", r"ds_b?permute"),
    ("dpp", r".*\brow_\w+:"), ("pk", r"v_pk_"), ("trans", r"v_(exp|log|rcp|rsq)_"), ("bar", r"s_barrier"), ("valu", r"v_"),
    ("all", r"")]
HEAD = "isa     vgpr sgpr   lds waves " + " ".join(f"{title:>6}" for title, _ in COUNTS) + "  kernel"


def instructions(text):
    """(opcode and operands) of a function's text; what stands behind the last s_endpgm is padding."""
    lines = [line.split(";")[0].strip() for line in text.splitlines()]
    lines = [re.sub(r"\s+", " ", line) for line in lines if line and not line.endswith(":") and not line.startswith(".")]
    return lines[:len(lines) - lines[::-1].index("s_endpgm")]


def kernels_of(text):
    """{name: (metadata, instructions)} of an assembly file."""
    metadata = {}
    for block in re.split(r"^  - (?=\.agpr_count)", text[text.index("amdhsa.kernels:"):], flags=re.M)[1:]:
        fields = dict(re.findall(r"\.(\w+): +(\S+)", block))
        metadata[fields["name"]] = fields
    found = {}
    for name, body in re.findall(r"^(\w+):[^\n]*\n(.*?)^\.Lfunc_end", text, re.S | re.M):
        if name in metadata:
            found[name] = (metadata[name], instructions(body))
    return found


def waves_per_simd(vgprs):
    """A SIMD has 512 registers per lane, in steps of 8, and runs at most 8 waves."""
    return min(8, 512 // (-(-max(vgprs, 1) // 8) * 8))


def row(isa, name, fields, code):
    counts = [sum(re.match(pattern, line) is not None for line in code) for _, pattern in COUNTS]
    vgprs = int(fields["vgpr_count"])
    return (f"{isa:<7} {vgprs:>4} {fields['sgpr_count']:>4} {fields['group_segment_fixed_size']:>5} {waves_per_simd(vgprs):>5} "
            + " ".join(f"{count:>6}" for count in counts) + f"  {name}")


def in_place(line):
    match = re.match(r"v_\w+_dpp (v\d+), (?:vcc, )?(v\d+)(?:, (v\d+))?", line)
    return match is not None and match[1] == match[2]


def broken_rules(name, fields, code, rules, out_of_place):
    wrong = []
    for key in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size", "agpr_count"):
        if int(fields[key]) != 0:
            wrong.append(f"{key}: has {fields[key]}, needs 0")
    for line in code:
        if re.match(r"(flat|buffer|scratch)_", line):
            wrong.append(f"has \"{line}\", needs global and local accesses only")
        if out_of_place and in_place(line):
            wrong.append(f"has \"{line}\", needs another destination")
    if name in rules:
        stream, wanted = rules[name]
        wanted_stores = wanted if stream else 0
        loads = [i for i, line in enumerate(code) if re.match(r"global_load_dwordx4 .* nt$", line)]
        stores = [i for i, line in enumerate(code) if re.match(r"global_store_dwordx4 .* nt$", line)]
        if (len(loads), len(stores)) != (wanted, wanted_stores):
            return wrong + [f"streams {len(loads)} loads and {len(stores)} stores, needs {wanted} and {wanted_stores}"]
        first_barrier = next(i for i, line in enumerate(code) if line.startswith("s_barrier"))
        for i, line in enumerate(code[:first_barrier]):
            for count in map(int, re.findall(r"vmcnt\((\d+)\)", line)):
                if i < loads[-1]:
                    wrong.append(f"waits (\"{line}\") before its last streamed load")
                elif stream and count < wanted:
                    wrong.append(f"waits for streamed loads (\"{line}\") before the first barrier")
    return wrong


def compiler_of(text):
    return re.search(r'\.ident\s+"(?:Debian )?(clang version \d+\.\d+\.\d+)', text)[1]


def check_object(folder, table_path, update, out_of_place):
    name = table_path.stem
    old = table_path.read_text()
    comments = [line for line in old.splitlines() if line.startswith("# ") and not line.startswith("# compiler")]
    rules = {m[2]: (m[1] == "stream", int(m[3])) for line in comments
             if (m := re.match(r"# (stream|loads) (\w+) (\d+)$", line))}
    wanted = next(int(m[1]) for line in comments if (m := re.match(r"# kernels (\d+)$", line)))
    known = dict(re.findall(r"^# compiler (\w+) (.*)$", old, re.M))
    wrong, rows, compilers, paths = [], [], [], sorted(folder.glob(f"{name}.*.s"))
    for path in paths:
        isa, text = path.suffixes[0][1:], path.read_text()
        compiler, kernels = compiler_of(text), kernels_of(text)
        if len(kernels) != wanted:
            wrong.append(f"{path.name}: has {len(kernels)} kernels, needs {wanted}")
        wrong += [f"{path.name}: stream rule for {kernel}, which is not there" for kernel in rules if kernel not in kernels]
        for kernel, (fields, code) in sorted(kernels.items()):
            wrong += [f"{path.name}: {kernel}: {text}" for text in broken_rules(kernel, fields, code, rules, out_of_place)]
        now = [row(isa, kernel, fields, code) for kernel, (fields, code) in sorted(kernels.items())]
        before = [line for line in old.splitlines() if line.split()[:1] == [isa]]
        compilers.append(f"# compiler {isa} {compiler}")
        rows += now
        if update or out_of_place:
            continue
        if known.get(isa) != compiler:
            print(f"{path.name}: the table is for {known.get(isa)}, this is {compiler}: rules only")
        elif now != before:
            wrong += [f"{path.name}: differs from {table_path.name}, now:", *now]
    if update:
        table_path.write_text("\n".join([*comments, *compilers, HEAD, *rows]) + "\n")
    return len(paths), wrong


def main():
    folder, options = pathlib.Path(sys.argv[1]), sys.argv[2:]
    update, out_of_place = "--update" in options, "--out-of-place" in options
    files, wrong = 0, []
    tables = sorted(TABLES.glob("*.txt"))
    for table in tables:
        count, more = check_object(folder, table, update, out_of_place)
        files, wrong = files + count, wrong + more
    objects = {path.name.split(".")[0] for path in folder.glob("*.s")}
    wrong += [f"{name}: no table for it in {TABLES}" for name in sorted(objects - {table.stem for table in tables})]
    print("\n".join(wrong) if wrong else f"{files} code objects, {len(tables)} tables: all right")
    return 1 if wrong or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
