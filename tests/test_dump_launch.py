"""silt dump-launch: what it writes is complete, and a replay of exactly those bytes is right.

usage: test_dump_launch.py SILT REPLAY_LAUNCH [STAND_IN]     STAND_IN: a HIP runtime; without it nothing is replayed, and
the expected results take the place of a replay's
"""
import ctypes
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SILT, REPLAY = sys.argv[1:3]
STAND_IN = sys.argv[3] if len(sys.argv) > 3 else None
ARCHITECTURES = ["gfx942", "gfx950"]
LINES = {
    "attn_res": [
        "t=1 n=8 d=7168", "t=2 n=0 d=7168 delta=0 write=0", "t=3 n=3 d=2304 write=3", "t=5 n=1 d=256 r=8", "t=3 n=2 d=17",
        "t=2 n=7 d=4104 delta=0 norm=0", "t=2 n=23 d=256 write=23 r=29", "t=2 n=4 d=256 prefix_stride=263 align=2",
        "t=3 n=4 d=1024 r=5 bank_token_stride=1024 bank_slot_stride=6144 write=4", "t=2 n=5 d=512 align=8"],
    "kda_decode": [
        "b=1 h=1", "b=3 h=5 padded=1", "b=2 h=12 norm=0", "b=2 h=3 bias=1 gate=softplus", "b=2 h=3 layout=ds null=-1",
        "b=2 h=3 state=bf16", "b=2 h=2 padded=2", "b=2 h=2 state=bf16 layout=ds align=2 x_stride=769 state_align=2",
        "b=2 h=3 lower_bound=-0.5 slots=9", "b=2 h=2 conv_slot_stride=2321 state_slot_stride=32775 align=2 state_align=4"],
    "causal_conv1d_update": [
        "b=1 c=384", "b=3 n=2 c=768 padded=1", "b=2 n=5 c=1152 layout=ds", "b=2 c=384 bias=1 output=f32", "b=2 c=3", "b=2 c=255",
        "b=2 c=1536 null=-1", "b=2 n=3 c=384 x_token_stride=391 output_token_stride=389 align=2", "b=2 c=384 padded=2",
        "b=2 n=4 c=384 layout=ds bias=1 conv_slot_stride=2000"],
    "kda_recurrence": [
        "seqs=1x1 h=1", "seqs=3x1 h=2 offsets=0 padded=1", "seqs=2x3 h=3 qkv=f32", "seqs=2x2 h=2 state=bf16 output=f32",
        "seqs=3x2 h=1 columns=2", "seqs=4x2 h=2 t=11 lengths=ragged", "seqs=2x2 h=2 gate=softplus", "seqs=1x4 h=2 align=2",
        "seqs=2x1 h=5 offsets=0 qkv=f32 state=bf16 output=bf16", "seqs=2x2 h=1 null=-1 slots=7 lower_bound=-0.5"],
    "rms_norm_gated": [
        "t=1 h=1", "t=3 h=5", "t=2 h=12 act=silu", "t=2 h=3 x=f32", "t=2 h=3 output=f32", "t=2 h=3 x=f32 output=f32 act=silu",
        "t=17 h=1", "t=2 h=3 x_stride=391 align=2", "t=2 h=2 gate_stride=264 output_stride=272", "t=1 h=16 align=8"],
}


def silt(*arguments):
    return subprocess.run([SILT, *arguments], capture_output=True, text=True, check=False, timeout=300)


def script():
    loader = importlib.machinery.SourceFileLoader("replay_launch", REPLAY)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("replay_launch", loader))
    loader.exec_module(module)
    return module


class Folder(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)

    def dump(self, line, architecture):
        folder = self.root / re.sub(r"\W", "_", f"{line} {architecture}")
        result = silt("dump-launch", line, "--device", architecture, "--out", str(folder))
        self.assertEqual(result.returncode, 0, f"{line}: {result.stderr}")
        return folder

    def take_expected(self, folder):
        for buffer in json.loads((folder / "launch.json").read_text())["buffers"]:
            if buffer["written"]:
                shutil.copy(folder / buffer["expected"], folder / buffer["result"])


class Complete(Folder):
    def test_every_file_is_there_and_every_pointer_points(self):
        folder = self.dump("kda_decode b=2 h=3 bias=1", "gfx950")
        launch = json.loads((folder / "launch.json").read_text())
        self.assertEqual((folder / launch["code_object"]).read_bytes()[:4], b"\x7fELF")
        self.assertEqual((launch["isa"], launch["grid"], launch["block"]), ("gfx950", [6, 1, 1], [256, 1, 1]))
        self.assertEqual(launch["lds_bytes"], 2640)
        arguments = (folder / launch["arguments"]["file"]).read_bytes()
        self.assertEqual(len(arguments), launch["arguments"]["bytes"])
        buffers = {buffer["name"]: buffer for buffer in launch["buffers"]}
        self.assertEqual(len(buffers), 13)
        pointed = set()
        for pointer in launch["arguments"]["pointers"]:
            self.assertEqual(arguments[pointer["at"]:pointer["at"] + 8], bytes(8))
            self.assertEqual(pointer["offset"], buffers[pointer["buffer"]]["first_element"])
            pointed.add(pointer["buffer"])
        self.assertEqual(pointed, set(buffers))
        for buffer in launch["buffers"]:
            for file in ["before"] + ["expected"] * buffer["written"]:
                self.assertEqual((folder / buffer[file]).stat().st_size, buffer["bytes"], buffer["name"])
        self.assertEqual({name for name, buffer in buffers.items() if buffer["written"]}, {"conv_state", "state", "output"})

    def test_a_wrong_result_is_found(self):
        folder = self.dump("attn_res t=2 n=2 d=256", "gfx942")
        self.assertEqual(silt("dump-launch", "--check", str(folder)).returncode, 2)  # nothing there yet
        self.take_expected(folder)
        right = silt("dump-launch", "--check", str(folder))
        self.assertEqual((right.returncode, right.stdout[:6]), (0, "right "), right.stderr)
        for name in ("output", "prefix", "blocks"):
            path = folder / f"{name}.result.bin"
            data = bytearray(path.read_bytes())
            data[300] ^= 0x40  # the high bits of an element, or of a slot that is only read
            data[301] ^= 0x40
            kept, _ = path.read_bytes(), path.write_bytes(data)
            self.assertEqual(silt("dump-launch", "--check", str(folder)).returncode, 1, name)
            path.write_bytes(kept[:-1])
            short = silt("dump-launch", "--check", str(folder))
            self.assertRegex(short.stderr, f"{name}: has {len(kept) - 1} bytes, needs {len(kept)}")
            path.write_bytes(kept)

    def test_what_cannot_be_written_is_said(self):
        line = "attn_res t=2 n=2 d=256"
        refusals = [
            (["kda_prefill seqs=2x3 h=2", "--device", "gfx950", "--out", "x"], 1, "kda_prefill: has no AMD kernel"),
            ([line, "--device", "h200", "--out", "x"], 2, '--device: has "h200", needs one of gfx942, gfx950, mi300x'),
            ([line, "--out", "x"], 2, "--device: missing"),
            (["attn_res t=2 n=2 d=256 dtype=f32", "--device", "gfx942", "--out", "x"], 1, "no kernel"),
            ([line, "--device", "gfx942", "--kernel", "cpu_reference", "--out", "x"], 1, "device: has hip, needs cpu"),
            ([line, "--device", "gfx942", "--out", str(pathlib.Path(SILT).parent)], 2, "needs a new or empty folder"),
            ([line, "--check", "x"], 2, "--check: takes its folder and nothing else"),
        ]
        for arguments, code, text in refusals:
            result = silt("dump-launch", *arguments)
            self.assertIn(text, result.stderr)
            self.assertEqual(result.returncode, code, arguments)


class Replay(Folder):
    @unittest.skipUnless(STAND_IN, "needs a HIP runtime with such a device")
    def test_a_device_without_code_is_named(self):
        environment = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(STAND_IN)}
        result = subprocess.run([SILT, "check", "--op", "rms_norm_gated", "--kernel", "cpu_reference"], env=environment,
                                capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("\nnot checked: hip: stand-in for gfx90a is gfx90a: has no code for it, needs one of gfx942, gfx950\n", result.stdout)
        self.assertRegex(result.stdout, r"\n1 kernels, \d+ cases: all right\n$")

    def test_ten_lines_of_every_operator(self):
        replay = script().Replay
        library = ctypes.CDLL(STAND_IN) if STAND_IN else None
        for op, lines in LINES.items():
            self.assertEqual(len(set(lines)), 10)
            for i, line in enumerate(lines):
                folder = self.dump(f"{op} {line}", ARCHITECTURES[i % 2])
                if library:
                    replay(folder, library).run()
                else:
                    self.take_expected(folder)
                result = silt("dump-launch", "--check", str(folder))
                self.assertEqual((result.returncode, result.stdout[:6]), (0, "right "), f"{op} {line}: {result.stdout}")
                shutil.rmtree(folder)

    @unittest.skipUnless(STAND_IN, "nothing to replay on")
    def test_the_script(self):
        folder = self.dump("rms_norm_gated t=2 h=3", "gfx942")
        command = [sys.executable, REPLAY, str(folder), "--time", "--mib", "1", "--library", STAND_IN]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"ran; silt dump-launch --check .* judges it\n.* us least, .* us median of 11 samples "
                                        r"over \d+ sets of buffers\n$")
        self.assertEqual(silt("dump-launch", "--check", str(folder)).returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
