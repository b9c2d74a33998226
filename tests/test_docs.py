"""The pages: links lead somewhere, and docs/cases.md names the tests that cover a case.

A comment "// 9, 10: ..." above a test names its rows of docs/cases.md.
usage: test_docs.py ROOT [--update]     with --update the missing test names are added to their rows
"""
import pathlib
import re
import sys

TEST = re.compile(r"TEST(?:_P|_F)?\((\w+), (\w+)\)")
ROW = re.compile(r"^\| (\d+[a-f]?) \|[^|]*\|([^|]*)\|$")


def tests_of(text):
    """(suite.name, case numbers of the comment above) of every test in a source text."""
    numbers = set()
    for line in text.splitlines():
        if match := re.match(r"// (\d+[a-f]?(?:, \d+[a-f]?)*)(?![\w,])", line):
            numbers |= set(match[1].split(", "))
        elif match := TEST.match(line):
            yield f"{match[1]}.{match[2]}", numbers
            numbers = set()
        elif not line.startswith("//"):
            numbers = set()


def main():
    root, update = pathlib.Path(sys.argv[1]), sys.argv[2:] == ["--update"]
    wrong, known, covers = [], set(), {}
    for path in [p for folder in ("src", "bench", "tests") for p in sorted((root / folder).rglob("test_*.c*"))]:
        for name, numbers in tests_of(path.read_text()):
            known.add(name)
            for number in numbers:
                covers.setdefault(number, []).append(name)

    page = root / "docs" / "cases.md"
    lines, rows = page.read_text().splitlines(), set()
    for i, line in enumerate(lines):
        if not (match := ROW.match(line)):
            continue
        rows.add(match[1])
        named = re.findall(r"`(\w+\.\w+)`", match[2])
        missing = sorted(set(covers.get(match[1], [])) - set(named))
        if update and missing:
            text = " ".join(filter(None, [match[2].strip(), *(f"`{name}`" for name in missing)]))
            lines[i] = f"{line[:match.start(2)]} {text} |"
            continue
        wrong += [f"docs/cases.md: {match[1]}: does not name {name}" for name in missing]
        wrong += [f"docs/cases.md: {match[1]}: names {name}, which is no test" for name in named if name not in known]
        if not match[2].strip():
            wrong.append(f"docs/cases.md: {match[1]}: nothing covers it")
    wrong += [f"docs/cases.md: no row {number} for {names[0]}" for number, names in covers.items() if number not in rows]
    if update:
        page.write_text("\n".join(lines) + "\n")

    pages = [p for p in [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.md")]]
    for path in pages:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
            if "://" not in target and not (path.parent / target).exists():
                wrong.append(f"{path.relative_to(root)}: {target} does not exist")
    print("\n".join(wrong) if wrong else f"{len(pages)} pages, {len(rows)} cases, {len(known)} tests")
    return 1 if wrong or not rows or not known else 0


if __name__ == "__main__":
    sys.exit(main())
