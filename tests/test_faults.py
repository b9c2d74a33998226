"""What the world does to the program: files that shrink, no memory, full disks, readers that go, signals, company.

usage: test_faults.py SILT MODEL BENCH SANITIZE [unittest arguments]     BENCH, SANITIZE: "none" where there is none
"""
import fcntl
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

SILT, MODEL, BENCH, SANITIZE = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
GREEDY = ["--temperature", "0", "--threads", "1"]
ENDLESS = [*GREEDY, "--max-tokens", "1000000", "--ignore-end", "--context", "1048576"]
DISK = b"No space left on device"


def run(*arguments, program=SILT, **more):
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.run([program, *arguments], check=False, timeout=300, **streams)


def start(*arguments, **more):
    return subprocess.Popen([SILT, *arguments], stdin=subprocess.DEVNULL, **more)


def wait_until(condition, what):
    limit = time.monotonic() + 120
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError(what)
        time.sleep(0.01)


def wait_until_blocked(process, needs=lambda: True):
    """Sleeping, several times in a row: with one thread, only in a write to a terminal that was stopped."""
    def blocked():
        state = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state == "S" and needs()

    seen = 0

    def for_long():
        nonlocal seen
        seen = seen + 1 if blocked() else 0
        return seen > 10

    wait_until(for_long, "the program does not wait for the terminal")


class Terminal:
    """A pty whose output can be held, as by Ctrl-S: who writes to it waits."""

    def __init__(self):
        self.reader, self.writer = pty.openpty()

    def hold(self):
        termios.tcflow(self.writer, termios.TCOOFF)

    def let_go(self):
        termios.tcflow(self.writer, termios.TCOON)

    def text(self):
        """All of it, once every writer has gone."""
        os.close(self.writer)
        out = b""
        try:
            while block := os.read(self.reader, 1 << 16):
                out += block
        except OSError:  # EIO: no writer is left
            pass
        os.close(self.reader)
        return out


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def copy_model(self):
        model = self.folder / "model"
        model.mkdir()
        for path in MODEL.glob("*.*"):
            shutil.copy(path, model)
        return model


class Files(InFolder):
    def test_a_file_that_shrinks_while_it_is_loaded(self):
        model = self.copy_model()
        shard = model / "model-00001-of-00002.safetensors"
        size = shard.stat().st_size
        (self.folder / "text").write_text("The whale")
        for command in (["generate", model, "The whale", *GREEDY], ["perplexity", model, self.folder / "text"]):
            shutil.copy(MODEL / shard.name, shard)
            terminal = Terminal()
            terminal.hold()
            process = start(*command, stdout=subprocess.PIPE, stderr=terminal.writer)

            def all_open():
                handles = pathlib.Path(f"/proc/{process.pid}/fd")
                return sum(os.readlink(handle).endswith(".safetensors") for handle in handles.iterdir()) == 2

            wait_until_blocked(process, all_open)  # at the first line of progress
            os.truncate(shard, 100000)
            terminal.let_go()
            out = process.communicate(timeout=120)[0]
            self.assertEqual((process.returncode, out), (2, b""))
            line = f"silt {command[0]}: {shard}: has 100000 bytes, needs {size} (what it had when it was opened)\r\n"
            self.assertTrue(terminal.text().endswith(b"\033[K" + line.encode()))

    def test_two_processes_on_a_folder_that_nobody_writes(self):
        model = self.copy_model()
        for path in (*model.iterdir(), model):
            path.chmod(0o555 if path.is_dir() else 0o444)
        self.addCleanup(model.chmod, 0o755)

        def tree():
            return sorted((str(p), p.stat().st_size, p.stat().st_mtime_ns, p.stat().st_mode) for p in (model, *model.iterdir()))

        before = tree()
        arguments = ["generate", model, "The whale", "ROMEO:", "--temperature", "0.8", "--seed", "5", "--max-tokens", "40", "--quiet"]
        both = [start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
        results = [(*process.communicate(timeout=120), process.returncode) for process in both]
        self.assertEqual(results[0][1:], (b"", 0))
        self.assertEqual(results[0], results[1])
        self.assertEqual(results[0][0], run(*arguments).stdout)
        self.assertEqual(tree(), before)


@unittest.skipIf(SANITIZE != "none", "a sanitizer reserves terabytes of addresses")
class Memory(unittest.TestCase):
    def limited(self, kib, *arguments):
        return run(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (kib << 10, kib << 10)))

    def test_less_and_less_of_it(self):
        """From a limit that is too small for the program to start up to one where the text comes."""
        arguments = ["generate", MODEL, "The whale", "--temperature", "0", "--max-tokens", "8", "--quiet", "--threads", "2"]
        whole = run(*arguments).stdout
        low, high = 4 << 10, 1 << 20
        while high - low > 64:
            middle = (low + high) // 2
            low, high = (low, middle) if self.limited(middle, "--version").returncode == 0 else (middle, high)
        refused, done, limit = set(), 0, high + 128
        while done < 3:
            result = self.limited(limit, *arguments)
            errors = [line for line in result.stderr.decode().splitlines() if not line.startswith("silt warning: threads: ")]
            if result.returncode == 0:
                self.assertEqual((result.stdout, errors), (whole, []))
                done += 1
            else:
                self.assertEqual((result.returncode, result.stdout, len(errors)), (1, b"", 1), (limit, result.stderr))
                match = re.fullmatch(r"silt generate: (.+): has no memory (for \d+ bytes.*|left)", errors[0])
                self.assertIsNotNone(match, errors[0])
                refused.add(match[1].split(":")[0].split(" ")[0])
                done = 0
            limit += max(97, (limit - high) // 40)
            self.assertLess(limit, 1 << 21)
        self.assertTrue({"matrix", "model.safetensors.index.json", "session"} <= refused, refused)


class Outputs(InFolder):
    COMMANDS = (["--help"], ["info"], ["check", "--op", "rms_norm_gated", "--kernel", "cpu_reference", "--verbose"],
                ["explain", "attn_res t=4 n=2 d=64"], ["generate", MODEL, "The whale", *ENDLESS, "--quiet"],
                ["perplexity", MODEL, MODEL / "tokenizer_config.json", "--quiet"])

    def test_standard_output_on_a_full_disk(self):
        for command in self.COMMANDS:
            with open("/dev/full", "wb") as full:
                result = run(*command, stdout=full)
            self.assertEqual(result.returncode, 1, command)
            self.assertEqual(result.stderr, b"silt: standard output: cannot be written: " + DISK + b"\n", command)

    def test_a_reader_that_has_gone(self):
        for command in self.COMMANDS:
            reader, writer = os.pipe()
            os.close(reader)
            result = run(*command, stdout=writer)
            os.close(writer)
            self.assertEqual((result.returncode, result.stderr), (1, b"silt: standard output: cannot be written: Broken pipe\n"), command)

    def test_a_reader_that_goes(self):
        process = start("generate", MODEL, "The whale", *ENDLESS, "--quiet", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(20)
        process.stdout.close()
        self.assertEqual(process.stderr.read(), b"silt: standard output: cannot be written: Broken pipe\n")
        self.assertEqual(process.wait(timeout=120), 1)
        process.stderr.close()

    def test_a_file_on_a_full_disk(self):
        result = run("generate", MODEL, "The whale", *ENDLESS, "--output", "/dev/full")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, b"silt generate: --output: /dev/full was not written: " + DISK + b", needs a file that can be written\n")

    def test_a_file_that_may_not_grow(self):
        """What a full disk does to a file that is not there yet: it is not there afterwards."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))

        result = run("generate", MODEL, "The whale", *GREEDY, "--output", self.folder / "text", preexec_fn=limit)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, rb"^silt generate: --output: \S+ was not written: File too large, needs .*\n$")
        self.assertEqual(list(self.folder.iterdir()), [])
        result = run("dump-launch", "kda_decode b=2 h=3", "--device", "gfx950", "--out", self.folder / "launch", preexec_fn=limit)
        if b"not built" in result.stderr or b"no code" in result.stderr:
            return  # a build without AMD kernels
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, rb"^silt dump-launch: \S+: cannot be written: File too large\n$")
        self.assertFalse((self.folder / "launch" / "launch.json").exists())

    def test_a_log_that_cannot_be_written(self):
        """The log is lost or goes to stderr; the text comes."""
        model = self.copy_model()
        config = model / "config.json"
        config.write_text(config.read_text().replace('"text_config": {', '"text_config": {"of_tomorrow": 1,', 1))
        expected = run("generate", MODEL, "The whale", *GREEDY, "--max-tokens", "4", "--quiet").stdout
        for path, told in (("/dev/full", DISK), ("/dev/null/log", b"silt warning: config.json: text_config: fields .*: of_tomorrow")):
            result = run("generate", model, "The whale", *GREEDY, "--max-tokens", "4", "--quiet", env={**os.environ, "SILT_LOG_FILE": path})
            self.assertEqual((result.returncode, result.stdout), (0, expected), result.stderr)
            self.assertRegex(result.stderr, told)

    @unittest.skipIf(BENCH == "none", "built without silt-bench")
    def test_the_files_of_silt_bench(self):
        table = self.folder / "table.csv"
        with open("/dev/full", "wb") as full:
            result = run("--problem", "rms_norm_gated t=1 h=1", "--kernel", "cpu_reference", "--mode", "cpu-warm", "--threads", "1",
                         "--samples", "2", "--quiet", "--json", "/dev/full", "--csv", table, program=BENCH, stdout=full)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, b"silt-bench: --json: /dev/full cannot be written: " + DISK +
                         b"\nsilt-bench: standard output: cannot be written: " + DISK + b"\n")
        self.assertEqual(len(table.read_text().splitlines()), 2)  # measured is measured


class Signals(InFolder):
    NOTE = b"silt generate: interrupted; the text is not complete"

    def test_text_so_far(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with start("generate", MODEL, "The whale", *ENDLESS, "--quiet", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                text = process.stdout.read(20)
                process.send_signal(number)
                # Not by communicate(), which does not see what read(20) has taken from the pipe beyond its 20 bytes.
                text += process.stdout.read()
                errors = process.stderr.read()
            self.assertEqual((process.returncode, errors), (128 + number, self.NOTE + b"\n"))
            self.assertTrue(text.endswith(b"\n"))
            again = run("generate", MODEL, "The whale", *GREEDY, "--ignore-end", "--max-tokens", str(len(text) + 4), "--quiet").stdout
            self.assertTrue(again.startswith(text[:-1]), (text, again))

    def test_control_c_on_a_terminal(self):
        child, terminal = pty.fork()
        if child == 0:
            os.execv(SILT, [SILT, "generate", MODEL, "The whale", *ENDLESS])
        settings = termios.tcgetattr(terminal)
        shown = b""
        try:
            while not re.search(rb"\033\[K(?!loading |prefill)[^\033]{20}", shown):  # text behind the progress
                shown += os.read(terminal, 4096)
            os.write(terminal, b"\x03")
            while block := os.read(terminal, 4096):
                shown += block
        except OSError:  # EIO: the program has gone
            pass
        status = os.waitpid(child, 0)[1]
        self.assertEqual(os.waitstatus_to_exitcode(status), 130, shown)
        self.assertEqual(termios.tcgetattr(terminal), settings)
        os.close(terminal)
        self.assertTrue(shown.endswith(b"\r\n" + self.NOTE + b"\r\n"), shown)

    def test_the_second_ends_at_once(self):
        """The text cannot leave, so the first one alone changes nothing."""
        terminal = Terminal()
        terminal.hold()
        process = start("generate", MODEL, "The whale", *ENDLESS, "--quiet", stdout=terminal.writer)
        wait_until_blocked(process)
        process.send_signal(signal.SIGINT)
        wait_until_blocked(process)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), -signal.SIGTERM)
        terminal.let_go()
        terminal.text()

    def test_while_loading(self):
        terminal = Terminal()
        terminal.hold()
        process = start("generate", MODEL, "The whale", *GREEDY, "--output", self.folder / "text", stderr=terminal.writer)
        wait_until_blocked(process)
        process.send_signal(signal.SIGINT)
        terminal.let_go()
        self.assertEqual(process.wait(timeout=120), 130)
        self.assertTrue(terminal.text().endswith(b"\033[Ksilt generate: interrupted; there is no text\r\n"))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_perplexity(self):
        terminal = Terminal()
        process = start("perplexity", MODEL, MODEL / "heldout.txt", "--threads", "1", stdout=subprocess.PIPE, stderr=terminal.writer)
        fcntl.fcntl(terminal.reader, fcntl.F_SETFL, os.O_NONBLOCK)
        shown = b""

        def scoring():
            nonlocal shown
            try:
                shown += os.read(terminal.reader, 4096)
            except BlockingIOError:
                pass
            return b"scoring: " in shown

        wait_until(scoring, "no progress")
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=120)[0]
        self.assertEqual((process.returncode, out), (130, b""))
        self.assertTrue((shown + terminal.text()).endswith(b"\033[Ksilt perplexity: interrupted; there is no result\r\n"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
