"""The silt program from outside: exit codes, texts, files.

usage: test_cli.py SILT SILT_WITH_A_WRONG_KERNEL SANITIZE [unittest arguments]     SANITIZE: "none" where there is none
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SILT, WRONG_SILT, SANITIZE = sys.argv[1:4]
COMMANDS = ["generate", "check", "explain", "bench", "dump-launch", "info", "perplexity"]


def run(*arguments, program=SILT, stdin=subprocess.DEVNULL, **more):
    return subprocess.run([program, *arguments], stdin=stdin, capture_output=True, text=True, check=False, timeout=300, **more)


class Help(unittest.TestCase):
    def test_every_command_has_an_example(self):
        for command in COMMANDS:
            result = run(command, "--help")
            self.assertEqual(result.returncode, 0)
            self.assertIn(f"Example:\n  silt {command}", result.stdout)

    def test_the_program_lists_its_commands(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for command in COMMANDS:
            self.assertRegex(result.stdout, rf"\n  {command} +\w")

    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^\d+\.\d+\.\d+\n$")


class WrongUse(unittest.TestCase):
    """One line, exit code 2, nothing on standard output."""

    def refused(self, arguments, text):
        result = run(*arguments)
        self.assertEqual(result.stderr, f"silt{text}\n")
        self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)

    def test_command(self):
        self.refused([], ": no command given (silt --help lists them)")
        self.refused(["--fast"], ": --fast: unknown option (silt --help lists them)")
        self.refused(["chekc"], ": chekc: unknown command, needs one of " + ", ".join(COMMANDS))

    def test_options(self):
        self.refused(["info", "--all"], " info: --all: unknown option (silt info --help lists them)")
        self.refused(["info", "more"], " info: more: one argument too many (silt info --help lists them)")
        self.refused(["check", "--seed", "x"], ' check: --seed: has "x", needs a whole number, at least 0')
        self.refused(["check", "--seed=-1"], ' check: --seed: has "-1", needs a whole number, at least 0')
        self.refused(["check", "--op"], " check: --op: 1 required NAME missing")

    def test_filters_that_match_nothing(self):
        result = run("check", "--op", "attn_ras")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r'^silt check: --op: has "attn_ras", needs one of attn_res.*\n$')
        result = run("check", "--op", "attn_res", "--kernel", "cpu_refrence")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r'^silt check: --kernel: has "cpu_refrence", needs one of .*cpu_reference.*\n$')

    def test_explain(self):
        self.refused(["explain"], ' explain: LINE: missing, needs a problem line such as "attn_res t=64 n=8 d=7168"')
        self.refused(["explain", "attn_res t=4"], " explain: attn_res: n: missing, needs a number")
        result = run("explain", "attn_res t=4 n=2 d=64", "--device", "h2000")
        self.assertRegex(result.stderr, r'^silt explain: --device: has "h2000", needs one of cpu, .*h200, .*zen4.*\n$')
        self.assertEqual(result.returncode, 2)
        result = run("explain", "attn_ras t=4 n=2 d=64")
        self.assertRegex(result.stderr, r'^silt explain: operator: has "attn_ras", needs one of attn_res.*\n$')
        self.assertEqual(result.returncode, 2)


class Check(unittest.TestCase):
    @unittest.skipIf(SANITIZE != "none", "the same lines on the same kernels as the rooms' tests, half a minute of them")
    def test_every_kernel_and_operator(self):
        result = run("check")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        listed = re.findall(r"^(\w+) +(\w+) +cpu .* cases .* refused .* of its bound   right$", result.stdout, re.M)
        info = run("info").stdout
        built = []
        for line in info[info.index("kernels, fastest first"):].splitlines():
            if match := re.fullmatch(r"  (\w+)", line):
                op = match[1]
            elif match := re.fullmatch(r"    (cpu_\w+) +built", line):
                built.append((op, match[1]))
        self.assertTrue(built)
        for kernel in built:
            idle = f"{kernel[0]:<22} {kernel[1]:<22} cpu        0 cases" in result.stdout  # another CPU's instructions
            self.assertTrue(kernel in listed or idle, kernel)
        self.assertRegex(result.stdout, r"\n\d+ kernels, \d+ cases: all right\n$")

    def test_one_kernel(self):
        result = run("check", "--op", "attn_res", "--kernel", "cpu_reference", "--verbose")
        self.assertEqual(result.returncode, 0)
        self.assertIn("right cpu_reference attn_res t=5 n=3 d=7168 write=3: worst error", result.stdout)
        self.assertRegex(result.stdout, r"\n1 kernels, \d+ cases: all right\n$")

    def test_random_problems(self):
        result = run("check", "--op", "rms_norm_gated", "--fuzz", "6", "--seed", "3")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"\nrms_norm_gated +cpu_reference +cpu +6 cases +0 refused .* right\n")
        result = run("check", "--op", "rms_norm_gated", "--fuzz", "1", "--seed", "3", program=WRONG_SILT)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"WRONG cpu_reference --fuzz 1 --seed 3: rms_norm_gated t=\d+ .*: planted\n")

    def test_a_wrong_kernel_is_told(self):
        result = run("check", "--op", "attn_res", program=WRONG_SILT)
        self.assertEqual(result.returncode, 1)
        self.assertIn("WRONG cpu_reference attn_res t=5 n=0 d=7168 delta=0 write=0: planted", result.stdout)
        self.assertRegex(result.stdout, r"cases: [1-9]\d* wrong\n$")


class Explain(unittest.TestCase):
    def test_this_machine(self):
        result = run("explain", "attn_res t=64 n=8 d=7168", "--device", "cpu")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^attn_res t=64 n=8 d=7168 on .*\n(  cpu_\w+ .*\n|  cuda_\w+ .*\n|  hip_\w+ .*\n)+$")
        self.assertEqual(result.stdout.count("chosen"), 1)

    def test_words_need_no_quotes(self):
        quoted, bare = run("explain", "attn_res t=64 n=8 d=7168"), run("explain", "attn_res", "t=64", "n=8", "d=7168")
        self.assertEqual(quoted.stdout, bare.stdout)

    def test_a_required_kernel(self):
        result = run("explain", "attn_res t=64 n=8 d=7168", "--device", "zen4", "--kernel", "cpu_reference")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"\n  cpu_reference +chosen\n")


class Info(unittest.TestCase):
    def test_what_it_says(self):
        result = run("info", env={**os.environ, "SILT_LOG": "error"})
        self.assertEqual(result.returncode, 0)
        for text in ["\ncpu ", "\ncuda ", "\nhip ", "cpu_reference", "SILT_KERNEL", "SILT_LOG_FILE"]:
            self.assertIn(text, result.stdout)
        self.assertRegex(result.stdout, r"SILT_LOG +error")

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([SILT, "info"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "silt: standard output: cannot be written: No space left on device\n")


class Bench(unittest.TestCase):
    def test_hands_everything_over(self):
        with tempfile.TemporaryDirectory() as folder:
            silt, bench = f"{folder}/silt", f"{folder}/silt-bench"
            shutil.copy(SILT, silt)
            environment = {**os.environ, "LD_LIBRARY_PATH": library_folder()}
            result = run("bench", "--list", program=silt, env=environment)
            self.assertEqual(result.returncode, 2)
            self.assertRegex(result.stderr, r"^silt bench: .*/silt-bench: not found; it is built with .*\n$")
            with open(bench, "w", encoding="utf-8") as script:
                script.write('#!/bin/sh\nprintf "%s|" "$@"\nexit 7\n')
            os.chmod(bench, 0o755)
            result = run("bench", "--list", "-x", "a b", "--", "--help", program=silt, env=environment)
            self.assertEqual((result.returncode, result.stdout), (7, "--list|-x|a b|--|--help|"), result.stderr)


def library_folder():
    """Where the program under test finds libsilt: a copy of it has another $ORIGIN."""
    listing = subprocess.run(["ldd", SILT], capture_output=True, text=True, check=True).stdout
    return os.path.dirname(re.search(r"libsilt\.so\S* => (\S+)", listing)[1])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
