"""The judge of the include rule: one good tree, and each way to break the rule alone.

usage: test_check_includes.py CHECK_INCLUDES
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = sys.argv.pop(1)
GOOD = {
    "src/attn_res/api.cpp": '#include "silt/attn_res.hpp"\n#include "attn_res/list.hpp"\n#include "dispatch/choose.hpp"\n',
    "src/kda/decode/api.cpp": '#include "kda/shared/gate.hpp"\n',
    "src/attn_res/test/test_attn_res.cpp": '#include "kda/decode/list.hpp"\n',
    "src/core/log.cpp": '#include <vector>\n#include "core/log.hpp"\n',
    "tools/silt/main.cpp": '#include "silt/device.hpp"\n#include "command.hpp"\n',
    "tools/silt/command.hpp": "",
}
BAD = {
    "src/core/log.cpp": '#include "dispatch/choose.hpp"\n',
    "src/attn_res/api.cpp": '#include "kda/shared/gate.hpp"\n',
    "src/kda/decode/api.cpp": '  #  include "kda/prefill/list.hpp"\n',
    "src/attn_res/reference.cpp": '#include "dispatch/kernel.hpp"\n',
    "src/model/layer.cpp": '#include "attn_res/list.hpp"\n',
    "tools/silt/main.cpp": '#include "core/log.hpp"\n',
    "include/silt/tensor.hpp": '#include "core/log.hpp"\n',
}


def judge(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return subprocess.run([CHECK, root], capture_output=True, text=True, check=False)


class IncludeRule(unittest.TestCase):
    def test_good(self):
        result = judge(GOOD)
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_each_violation_alone(self):
        for name, text in BAD.items():
            result = judge({**GOOD, name: text})
            self.assertEqual(result.returncode, 1, name)
            self.assertEqual(len(result.stdout.splitlines()), 1, result.stdout)
            self.assertIn(name, result.stdout)

    def test_an_empty_tree_is_no_success(self):
        self.assertEqual(judge({"README.md": ""}).returncode, 1)


unittest.main()
