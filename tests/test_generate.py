"""silt generate and silt perplexity from outside, on models/k3-mini.

usage: test_generate.py SILT MODEL [unittest arguments]
"""
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SILT, MODEL = sys.argv[1], pathlib.Path(sys.argv[2])
GREEDY = ["--temperature", "0", "--max-tokens", "24", "--quiet"]


def run(*arguments, stdin=subprocess.DEVNULL, **more):
    result = subprocess.run([SILT, *arguments], stdin=stdin, capture_output=True, check=False, timeout=600, **more)
    return result


def generate(*arguments, **more):
    return run("generate", MODEL, *arguments, **more)


class Text(unittest.TestCase):
    def test_the_golden_continuations_in_exact_mode(self):
        """Greedy text of the reference implementation; the margins of p017 and p300 are far beyond rounding."""
        heldout = (MODEL / "heldout.txt").read_bytes()
        samples = re.findall(r"\| goldens/p(\d+)\.safetensors \| `(.*)` \|", (MODEL / "samples.md").read_text())
        offset = {1: 8192, 17: 28672, 64: 32768, 300: 12288}
        prompts = [heldout[offset[int(length)]:][:int(length)] for length, _ in samples]
        self.assertEqual(len(prompts), 4)
        result = generate("--dtype", "fp32", "--temperature", "0", "--max-tokens", "64", "--quiet", *prompts)
        self.assertEqual(result.returncode, 0, result.stderr)
        texts = re.split(rb"(?:^|\n)== \d ==\n", result.stdout)[1:]
        expected = [text.replace("\\n", "\n").encode() for _, text in samples]
        self.assertEqual([text[:64] for text in texts], expected)

    def test_prompts_from_everywhere_give_the_same_text(self):
        expected = generate("The whale", *GREEDY)
        self.assertEqual((expected.returncode, expected.stderr), (0, b""))
        self.assertEqual(len(expected.stdout), 25)
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"The whale")
            file.flush()
            self.assertEqual(generate("--file", file.name, *GREEDY).stdout, expected.stdout)
            with open(file.name, "rb") as stdin:
                self.assertEqual(generate(*GREEDY, stdin=stdin).stdout, expected.stdout)
            with open(file.name, "rb") as stdin:
                self.assertEqual(generate("--file", "-", *GREEDY, stdin=stdin).stdout, expected.stdout)
        self.assertEqual(generate("The whale", "--echo", *GREEDY).stdout, b"The whale" + expected.stdout)

    def test_several_prompts_in_few_slots(self):
        prompts = ["The whale", "[x, y]", "ROMEO:\n"]
        alone = [generate(prompt, *GREEDY).stdout for prompt in prompts]
        together = generate(*prompts, "--slots", "2", "--chunk", "3", *GREEDY)
        headings = b"".join(b"== %d ==\n" % (i + 1) + text for i, text in enumerate(alone))
        self.assertEqual(together.stdout, headings, together.stderr)

    def test_sampling(self):
        def sampled(*more):
            return generate("The whale", "--max-tokens", "40", "--quiet", *more).stdout

        self.assertEqual(sampled("--seed", "3"), sampled("--seed", "3"))
        self.assertNotEqual(sampled("--seed", "3"), sampled("--seed", "4"))
        self.assertEqual(sampled("--top-k", "1"), sampled("--temperature", "0"))
        self.assertEqual(sampled("--top-p", "0.00001"), sampled("--temperature", "0"))

    def test_stop_and_any_bytes(self):
        whole = generate("The whale", *GREEDY).stdout
        stop = whole[5:8]
        result = generate("The whale", "--stop", stop, "--stop", "never there", "--temperature", "0", "--max-tokens", "24")
        self.assertEqual(result.stdout, whole[:whole.index(stop)] + b"\n")
        self.assertIn(b"stopped  stop", result.stderr)
        self.assertEqual(generate(b"\xff\xfe\x80", *GREEDY).returncode, 0)

    def test_summary(self):
        result = generate("The whale", "--max-tokens", "8", "--threads", "1")
        lines = result.stderr.decode()
        self.assertRegex(lines, r"model +.*k3-mini: kimi_k3, 9 layers, 8\.2 M values, bf16\n")
        self.assertRegex(lines, r"prefill +10 tokens, [\d.]+ tokens/s\n")
        self.assertRegex(lines, r"decode +7 tokens, [\d.]+ tokens/s\n")
        for op in ["attn_res", "kda_decode", "kda_prefill"]:
            self.assertRegex(lines, rf"{op} cpu_\w+: \d+ calls\n")
        self.assertRegex(lines, r"stopped +.* after 8 tokens\n")

    def test_progress_on_a_terminal(self):
        reader, writer = pty.openpty()
        try:
            process = subprocess.run([SILT, "generate", MODEL, "The whale " * 40, "--chunk", "8", "--max-tokens", "1"],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer, check=False)
            os.close(writer)
            shown = os.read(reader, 1 << 16).decode()
        finally:
            os.close(reader)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(shown, r"loading .*k3-mini: \d+ %")
        self.assertRegex(shown, r"prefill: \d+ of 401 tokens")


class Output(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_file_is_complete(self):
        path = self.folder / "text"
        path.write_text("old")
        link = self.folder / "link"
        link.symlink_to(path)
        expected = generate("The whale", *GREEDY).stdout
        result = generate("The whale", "--output", link, *GREEDY)
        self.assertEqual((result.returncode, result.stdout), (0, b""), result.stderr)
        self.assertEqual(path.read_bytes(), expected)
        self.assertTrue(link.is_symlink())
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["link", "text"])

    def test_what_cannot_be_written(self):
        for path, reason in [(self.folder, "Is a directory"), (self.folder / "no" / "text", "No such file or directory")]:
            result = generate("The whale", "--output", path, *GREEDY)
            self.assertEqual((result.returncode, result.stdout), (2, b""))
            line = rf"^silt generate: --output: {path}\S* cannot be \w+: {reason}, needs a file that can be written\n$"
            self.assertRegex(result.stderr.decode(), line)
        result = generate("The whale", "--output", "/dev/full", *GREEDY)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"--output: /dev/full was not written: No space left on device", result.stderr)
        with open("/dev/full", "wb") as full:
            result = subprocess.run([SILT, "generate", MODEL, "The whale", *GREEDY], stdin=subprocess.DEVNULL, stdout=full,
                                    stderr=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, 1)

    def test_an_error_leaves_the_old_file(self):
        path = self.folder / "text"
        path.write_text("old")
        result = generate("The whale" * 10, "--context", "8", "--output", path, *GREEDY)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual([(p.name, p.read_text()) for p in self.folder.iterdir()], [("text", "old")])

    def test_an_interrupt_leaves_nothing(self):
        process = subprocess.Popen([SILT, "generate", MODEL, "The whale", "--max-tokens", "1000000", "--ignore-end",
                                    "--context", "1048576", "--output", self.folder / "text"],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while not any(self.folder.iterdir()) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(list(self.folder.iterdir()), [])


class WrongUse(unittest.TestCase):
    def refused(self, result, text, code=2):
        self.assertRegex(result.stderr.decode(), rf"^silt {text}\n$")
        self.assertEqual((result.returncode, result.stdout), (code, b""))

    def test_options(self):
        for option, value, needs in [
                ("--threads", "0", r"a whole number in 1\.\.4096"),
                ("--max-tokens", "0", "a whole number, at least 1"),
                ("--slots", "0", r"a whole number in 1\.\.65536"),
                ("--context", "-5", "a whole number, at least 1"),
                ("--chunk", "1.5", r"a whole number in 1\.\.2147483647"),
                ("--temperature", "-1", "a number, at least 0"),
                ("--temperature", "nan", "a number, at least 0"),
                ("--top-p", "1.5", r"a number in 1e-06\.\.1"),
                ("--top-p", "0", r"a number in 1e-06\.\.1"),
                ("--top-k", "-1", r"a whole number in 0\.\.2147483647"),
                ("--dtype", "fp16", "bf16 or fp32"),
        ]:
            self.refused(generate("x", f"{option}={value}"), f'generate: {option}: has "{value}", needs {needs}')
        self.refused(generate("x", "--stop", ""), 'generate: --stop: has "", needs at least one character')

    def test_prompts(self):
        self.refused(generate(""), "generate: PROMPT 1: is empty, needs at least one byte")
        self.refused(generate("a", ""), "generate: PROMPT 2: is empty, needs at least one byte")
        self.refused(generate(), "generate: PROMPT 1: is empty, needs at least one byte")  # an empty standard input
        self.refused(generate("--file", "/no/file"), "generate: --file: /no/file cannot be read: No such file or directory")
        self.refused(generate("--file", "/"), "generate: --file: / cannot be read: Is a directory")

    def test_models(self):
        self.refused(run("generate"), "generate: MODEL: missing, needs a folder with .*")
        result = run("generate", "/no/model", "x")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(b"/no/model", result.stderr)

    def test_a_prompt_that_does_not_fit(self):
        result = generate("The whale", "--context", "5", *GREEDY)
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


class Perplexity(unittest.TestCase):
    def test_bits_per_byte_of_the_first_windows(self):
        golden = json.loads((MODEL / "goldens" / "heldout.json").read_text())["bits_per_window_fp32"]
        text = (MODEL / "heldout.txt").read_bytes()[:2048]
        with tempfile.NamedTemporaryFile() as file:
            file.write(text)
            file.flush()
            for dtype, tolerance in [("fp32", 0.0005), ("bf16", 0.02)]:  # the whole text stands nearer than two windows
                result = run("perplexity", MODEL, file.name, "--dtype", dtype)
                self.assertEqual(result.returncode, 0, result.stderr)
                match = re.match(rb"([\d.]+) bits per byte \(2048 bytes, 2 windows of 1024 tokens\)\n$", result.stdout)
                self.assertIsNotNone(match, result.stdout)
                self.assertAlmostEqual(float(match[1]), sum(golden[:2]) / 2048, delta=tolerance)

    def test_wrong_use(self):
        for arguments, text in [
                ([MODEL], b"FILE: missing, needs a text file"),
                ([MODEL, "/no/file"], b"FILE: /no/file cannot be read: No such file or directory"),
                ([MODEL, "/dev/null"], b"FILE: /dev/null is empty, needs at least one byte"),
                ([MODEL, MODEL / "heldout.txt", "--window", "0"], b'--window: has "0", needs a whole number in 1..2147483647'),
        ]:
            result = run("perplexity", *arguments)
            self.assertEqual((result.returncode, result.stdout), (2, b""))
            self.assertEqual(result.stderr, b"silt perplexity: " + text + b"\n")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
