"""What scripts/bench computes, without running a benchmark. Every judge gets one good and one bad input."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "peers")]

import compare  # noqa: E402
import protocol  # noqa: E402
import results  # noqa: E402

LINE = "attn_res t=4 n=8 d=7168"


def entry(kernel, us, index=0, mode="cpu", label="verified: all rows", **more):
    """One repetition as Google Benchmark writes it."""
    return {"run_name": f"{LINE}/{kernel}/{mode}/iterations:1/repeats:3/manual_time", "run_type": "iteration",
            "repetition_index": index, "real_time": us, "time_unit": "us", "label": label, "bytes": 688128.0, **more}


def document(**kernels):
    """A compact document: kernel = its samples."""
    entries = [entry(kernel, us, i) for kernel, samples in kernels.items() for i, us in enumerate(samples)]
    return results.compact({"context": {"threads": "2", "load_avg": [1]}, "benchmarks": entries})


class Compact(unittest.TestCase):
    def test_repetitions_become_samples(self):
        entries = [entry("a", 3.0, 0, probe_us=1.5), entry("a", 4.0, 1, probe_us=1.5), entry("mover", 1.0, label="fastest of 4: mover_2")]
        entries.append({**entry("a", 99.0), "run_type": "aggregate"})
        kept = results.compact({"context": {"commit": "abc", "caches": []}, "benchmarks": entries})
        self.assertEqual(kept["context"], {"commit": "abc"})
        row, mover = kept["rows"]
        self.assertEqual((row["operator"], row["problem"], row["kernel"], row["mode"]), ("attn_res", LINE, "a", "cpu"))
        self.assertEqual(row["samples_us"], [3.0, 4.0])
        self.assertEqual(row["probe_us"], 1.5)
        self.assertTrue(results.is_kernel(row))
        self.assertFalse(results.is_kernel(mover))
        self.assertEqual((row["note"], mover["note"]), ("", "fastest of 4: mover_2"))

    def test_what_is_wrong_is_named(self):
        bad = {
            "has no context and benchmarks": {"rows": []},
            "wrong result, not timed": {"context": {}, "benchmarks": [
                entry("a", 1.0, error_occurred=True, error_message="wrong result, not timed")]},
            "needs us": {"context": {}, "benchmarks": [entry("a", 1.0, time_unit="ns")]},
            "needs problem/kernel/mode": {"context": {}, "benchmarks": [{**entry("a", 1.0), "run_name": "a/b"}]},
            "has no rows": {"context": {}, "benchmarks": []},
        }
        for text, document_ in bad.items():
            with self.subTest(text), self.assertRaisesRegex(results.BadResults, text):
                results.compact(document_, "run.json")

    def test_kept_files_read_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "set.json"
            results.save(path, document(a=[1, 2, 3]))
            self.assertEqual(results.load(path), document(a=[1, 2, 3]))
            path.write_text("{", encoding="utf-8")
            with self.assertRaisesRegex(results.BadResults, "is no JSON"):
                results.load(path)
            path.write_text("[]", encoding="utf-8")
            with self.assertRaisesRegex(results.BadResults, "needs a file written by scripts/bench"):
                results.load(path)


class SavedByFusion(unittest.TestCase):
    @staticmethod
    def row(kernel, us, problem="kda_decode b=1 h=12", mode="graph"):
        return {"operator": "kda_decode", "problem": problem, "kernel": kernel, "mode": mode, "p50_us": us}

    def test_the_fastest_kernel_against_the_chain(self):
        rows = [self.row("fused", "2.000"), self.row("slower", "4.000"), self.row("chain_f32", "9.000"),
                self.row("fused", "3.000", mode="eager"), self.row("fused", "5.000", problem="kda_decode b=4 h=12")]
        saved = results.saved_by_fusion(rows)
        self.assertEqual(len(saved), 1)  # no chain, no row
        self.assertEqual(tuple(saved[0][key] for key in results.SAVED),
                         ("kda_decode b=1 h=12", "graph", "fused", "2.000", "chain_f32", "9.000", "7.000", "0.483"))

    def test_a_slower_fusion_saves_less_than_nothing(self):
        saved = results.saved_by_fusion([self.row("fused", "3.000"), self.row("chain_f32", "2.000")])
        self.assertEqual((saved[0]["saved_us"], saved[0]["saved_ms_a_step"]), ("-1.000", "-0.069"))


    def test_rows_of_several_runs_do_not_mix(self):
        measured = set()
        goals = [self.row("fused", "2.000"), self.row("chain_f32", "3.000")]
        self.assertEqual(results.new_cells(goals, None, measured), goals)
        other = self.row("fused", "8.000", problem="kda_decode b=4 h=12")
        self.assertEqual(results.new_cells([self.row("fused", "9.000"), other], None, measured), [other])
        self.assertEqual(results.new_cells(goals, 1, measured), goals, "another thread count is another cell")
        old = results.saved_by_fusion([self.row("fused", "5.000"), self.row("chain_f32", "6.000"),
                                       self.row("fused", "1.000", mode="eager"), self.row("chain_f32", "7.000", mode="eager")])
        merged = results.merge_tables(old, results.saved_by_fusion(goals), results.CELL)
        self.assertEqual([row["saved_us"] for row in merged], ["1.000", "6.000"])
        self.assertEqual(merged[0]["p50_us"], "2.000")


class Percentiles(unittest.TestCase):
    def test_both_definitions_are_that_of_silt_bench(self):
        for samples, fraction, expected in (([7], 0.2, 7), ([1, 2], 0.5, 1.5), ([3, 1, 2], 0.5, 2),
                                            ([0, 10, 20, 30], 0.2, 6), ([0, 10, 20, 30], 0.8, 24)):
            for percentile in (results.percentile, protocol.percentile):
                self.assertAlmostEqual(percentile(samples, fraction), expected)


class PerCall(unittest.TestCase):
    def test_a_sweep_is_shared_by_its_queries(self):
        def row(problem, us, mode="graph"):
            return {"problem": problem, "mode": mode, "verified": "all rows", "samples_us": [us]}
        rows = [row("attn_res_partials t=64 q=8 n=4 d=256", 16.0), row("attn_res_merge t=64 d=256 stable=1", 3.0),
                row("attn_res t=64 n=4 d=256", 10.0), row("attn_res_partials t=64 q=2 n=8 d=256 partial=f32", 4.0),
                row("attn_res_merge t=64 d=256 partial=f32", 7.0), row("attn_res_partials t=65 q=2 n=8 d=256", 4.0)]
        self.assertEqual(results.per_call({"rows": rows}), [
            "attn_res_partials t=64 q=2 n=8 d=256 partial=f32 graph: sweep 4.00 us / 2 + merge 7.00 us = 9.00 us a call",
            "attn_res_partials t=64 q=8 n=4 d=256 graph: sweep 16.00 us / 8 + merge 3.00 us = 5.00 us a call; "
            "attn_res 10.00 us, 2.00 times"])
        rows[1]["mode"] = "graph-late"  # another order of launches is another time
        self.assertEqual(len(results.per_call({"rows": rows})), 1)


class Tables(unittest.TestCase):
    def row(self, problem=LINE, mode="graph", p50="2.000"):
        return {**dict.fromkeys(results.COLUMNS, ""), "operator": "attn_res", "problem": problem, "kernel": "k",
                "mode": mode, "p50_us": p50}

    def test_new_rows_replace_old_ones(self):
        old = [self.row(p50="1"), self.row(mode="eager", p50="5")]
        new = [self.row(p50="2"), self.row(mode="graph-late", p50="3")]
        merged = results.merge_tables(old, new)
        self.assertEqual([(row["mode"], row["p50_us"]) for row in merged],
                         [("graph", "2"), ("eager", "5"), ("graph-late", "3")])

    def test_peers_fill_their_column(self):
        rows = [self.row(), self.row(LINE + " stable=8", "graph-late"), self.row(mode="cpu"),
                self.row("attn_res t=1 n=8 d=7168")]
        peer = {"operator": "attn_res", "rows": [{"problem": LINE, "p50_us": 7.8512}]}
        filled = [row["peer_us"] for row in results.add_peers(rows, [peer])]
        self.assertEqual(filled, ["7.851", "7.851", "", ""])
        other = {"operator": "kda_decode", "rows": [{"problem": LINE, "p50_us": 1.0}]}
        self.assertEqual(results.add_peers([self.row()], [other])[0]["peer_us"], "")

    def test_tables_read_back_and_foreign_ones_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "summary.csv"
            results.write_table(path, [self.row()])
            self.assertEqual(path.read_text(encoding="utf-8").splitlines()[0], ",".join(results.COLUMNS))
            self.assertEqual(results.read_table(path), [self.row()])
            path.write_text("a,b\n1,2\n", encoding="utf-8")
            with self.assertRaisesRegex(results.BadResults, "needs operator,problem"):
                results.read_table(path)

    def test_names(self):
        self.assertEqual(results.table_file(None), "summary.csv")
        self.assertEqual(results.table_file(1), "summary-1-thread.csv")
        self.assertEqual(results.set_file("cpu-goals", 2), "cpu-goals-2-threads.json")
        self.assertEqual(results.without(LINE + " stable=8 r=8", "stable"), LINE + " r=8")


class Compare(unittest.TestCase):
    def test_ratios_per_round(self):
        a = [document(k=[10, 10, 10]), document(k=[10, 10, 10])]
        b = [document(k=[20, 20, 20]), document(k=[22, 22, 22])]
        found = compare.ratios(a, b)
        self.assertEqual(found[(LINE, "k", "cpu")]["p50"], [2.0, 2.2])

    def test_a_slower_row_is_told_and_the_same_is_not(self):
        same = [document(k=[10, 11, 12])] * 3
        slow = [document(k=[12, 13.2, 14.4])] * 3
        self.assertFalse(compare.table(compare.ratios(same, same), 5)[1])
        lines, slower = compare.table(compare.ratios(slow, same), 5)  # A is this tree
        self.assertTrue(slower)
        self.assertIn("slower", lines[1])
        self.assertIn("faster", compare.table(compare.ratios(same, slow), 5)[0][1])

    def test_one_disturbed_round_is_no_verdict(self):
        def verdict(p50, p20):
            return compare.verdict({"p50": p50, "p20": p20}, 5)

        self.assertEqual(verdict([0.8, 0.9, 1.02], [0.9, 0.9, 0.9]), "same")
        self.assertEqual(verdict([0.8, 0.9, 0.94], [0.9, 0.9, 0.9]), "slower")
        self.assertEqual(verdict([0.8, 0.9, 0.94], [0.99, 0.99, 0.99]), "same")  # only the median: a disturbance
        self.assertEqual(verdict([0.97, 0.98, 0.99], [0.97, 0.98, 0.99]), "same")
        self.assertEqual(verdict([1.1, 1.2, 1.3], [1.1, 1.1, 1.1]), "faster")

    def test_nothing_in_common_is_an_error(self):
        with self.assertRaisesRegex(results.BadResults, "no row in common"):
            compare.ratios([document(k=[1, 1])], [document(other=[1, 1])])
        with self.assertRaisesRegex(results.BadResults, "has 1 and 0 runs"):
            compare.ratios([document(k=[1, 1])], [])


class Peers(unittest.TestCase):
    def test_lines(self):
        self.assertEqual(protocol.parse_line(LINE), ("attn_res", {"t": "4", "n": "8", "d": "7168"}))
        for line in ("", "attn_res t", "attn_res t=1 t=2", "attn_res =1", "attn_res t="):
            with self.subTest(line), self.assertRaises(ValueError):
                protocol.parse_line(line)

    def test_a_field_that_the_peer_does_not_know_is_an_error(self):
        fields = protocol.parse_line("attn_res t=4 state=bf16")[1]
        self.assertEqual(protocol.only(fields, ("t", "state"), LINE), {"t": 4, "state": "bf16"})
        with self.assertRaisesRegex(ValueError, "field state is not one of t"):
            protocol.only(fields, ("t",), LINE)

    def test_rotations_and_replays(self):
        self.assertEqual(protocol.sets_needed(100, 150, 1000, 10**6), 10)
        self.assertEqual(protocol.sets_needed(1000, 1500, 1000, 10**6), 3)
        self.assertEqual(protocol.sets_needed(1000, 1500, 1000, 2000), 1)
        self.assertEqual(protocol.launches_needed(10, 5.0), 400)
        self.assertEqual(protocol.launches_needed(10, 500.0), 10)


class Plots(unittest.TestCase):
    def test_words_of_panels(self):
        try:
            import plots
        except ImportError:
            self.skipTest("matplotlib is not installed for this Python")
        told, common = plots.titles(["kda_decode h=12", "kda_decode h=12 state=bf16"])
        self.assertEqual(list(told.values()), ["state = f32", "state = bf16"])
        self.assertEqual(common, "h = 12")
        with tempfile.TemporaryDirectory() as folder:
            rows = [{**document(k=[10.0 * t] * 3)["rows"][0], "problem": f"attn_res t={t} n=8 d=7168"} for t in (1, 4)]
            made = plots.plot_document(folder, "set", {"context": {"device": "here", "threads": "1"}, "rows": rows}, [])
            self.assertEqual([Path(path).name for path in made],
                             ["set-attn_res-time.svg", "set-attn_res-bandwidth.svg"])
            for path in made:
                self.assertIn("</svg>", Path(path).read_text(encoding="utf-8"))
            self.assertEqual(plots.plot_document(folder, "one", {"context": {}, "rows": rows[:1]}, []), [])


if __name__ == "__main__":
    unittest.main()
