// silt-bench without timing: statistics, the table, selection, sets, and the subjects' arithmetic.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "attn_res/problem.hpp"
#include "bench/ceilings.hpp"
#include "bench/contest.hpp"
#include "bench/runner.hpp"
#include "bench/select.hpp"
#include "bench/sets.hpp"

namespace silt::bench {
namespace {

TEST(Statistics, PercentilesInterpolate) {
  struct Case {
    std::vector<double> samples;
    double fraction;
    double expected;
  };
  const Case cases[] = {
      {{7}, 0.2, 7},
      {{1, 2}, 0.5, 1.5},
      {{3, 1, 2}, 0.5, 2},                 // any order
      {{0, 10, 20, 30, 40, 50}, 0.2, 10},  // falls on a sample
      {{0, 10, 20, 30}, 0.2, 6},           // between two: position 0.6
      {{0, 10, 20, 30}, 0.8, 24},
      {{5, 5, 5, 1000}, 0.5, 5},  // a disturbed sample does not move the median
      {{1, 2, 3}, 1.0, 3},
      {{1, 2, 3}, 0.0, 1},
  };
  for (const Case& c : cases) EXPECT_DOUBLE_EQ(percentile(c.samples, c.fraction), c.expected);
  EXPECT_TRUE(std::isnan(percentile({}, 0.5)));
}

TEST(Statistics, TwentyFiftyEighty) {
  std::vector<double> samples;
  for (int i = 100; i >= 0; --i) samples.push_back(i);
  const Percentiles p = percentiles(samples);
  EXPECT_DOUBLE_EQ(p.p20, 20);
  EXPECT_DOUBLE_EQ(p.p50, 50);
  EXPECT_DOUBLE_EQ(p.p80, 80);
}

Result some_result() {
  Result r;
  r.op = "attn_res";
  r.problem = "attn_res t=1 n=8 d=7168";
  r.kernel = "cpu_plain_rows";
  r.mode = Mode::graph_late;
  r.samples_us = {2, 2, 2};
  r.us = percentiles(r.samples_us);
  r.bytes = 172032;
  r.copy_fraction = 0.5;
  r.floor_us = 0.25;
  return r;
}

TEST(Table, HasTheColumnsOfTheProtocol) {
  EXPECT_EQ(csv_header(),
            "operator,problem,kernel,mode,p20_us,p50_us,p80_us,gbs,copy_fraction,floor_us,probe_us,peer_us,commit");
  // 172032 bytes in 2 us are 86.0 GB/s. What was not measured is empty.
  EXPECT_EQ(csv_row(some_result(), "abc"),
            "attn_res,attn_res t=1 n=8 d=7168,cpu_plain_rows,graph-late,2.000,2.000,2.000,86.0,0.500,0.250,,,abc");
  Result nan = some_result();
  nan.probe_us = std::nan("");
  EXPECT_EQ(csv_row(nan, "abc"), csv_row(some_result(), "abc"));
}

TEST(Table, IsWrittenOrSaysWhyNot) {
  const std::string path = testing::TempDir() + "/silt_bench_table.csv";
  ASSERT_TRUE(write_csv(path, {some_result()}, "abc").ok());
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), csv_header() + "\n" + csv_row(some_result(), "abc") + "\n");
  const Status status = write_csv("/nowhere/table.csv", {}, "abc");
  EXPECT_EQ(status.code(), StatusCode::io_error);
  EXPECT_EQ(status.message(), "--csv: /nowhere/table.csv cannot be written: No such file or directory");
}

TEST(Table, ModesParseBack) {
  for (const Mode mode : {Mode::cpu, Mode::cpu_warm, Mode::graph, Mode::graph_late, Mode::graph_nopdl, Mode::eager}) {
    Mode parsed{};
    ASSERT_TRUE(parse_mode(to_string(mode), &parsed));
    EXPECT_EQ(parsed, mode);
  }
  Mode parsed{};
  EXPECT_FALSE(parse_mode("graph_late", &parsed));
}

TEST(Contest, GoesRoundByRound) {
  std::string order;
  std::vector<Contestant> all;
  for (const char name : {'A', 'B', 'C'}) {
    all.push_back({std::string(1, name), [&order, name](double* us) {
                     order += name;
                     *us = static_cast<double>(order.size());
                     return Status{};
                   }});
  }
  double share = 0;
  ASSERT_TRUE(run_contest(all, 3, [&](double done) { share = done; }).ok());
  EXPECT_EQ(order, "ABCABCABC");
  EXPECT_EQ(all[1].samples_us, (std::vector<double>{2, 5, 8}));
  EXPECT_DOUBLE_EQ(share, 1);
}

TEST(Contest, StopsAtTheFirstError) {
  std::vector<Contestant> all;
  all.push_back({"broken", [](double*) { return Status(StatusCode::device_error, "gone"); }});
  EXPECT_EQ(run_contest(all, 3, [](double) {}).message(), "gone");
}

TEST(Contest, SamplesAreLongEnough) {
  EXPECT_EQ(launches_per_sample(1000, 300), 4);
  EXPECT_EQ(launches_per_sample(1000, 5000), 1);
  EXPECT_EQ(launches_per_sample(1000, 0), 1000000);
}

std::vector<std::string> names(const Selected& selected) {
  std::vector<std::string> all;
  for (const Cell& cell : selected.cells) {
    for (const Mode mode : cell.modes) {
      for (const std::string& kernel : cell.kernels) all.push_back(row_name(cell.line, kernel, mode));
    }
  }
  return all;
}

TEST(Select, AProblemGetsEveryKernelButTheReference) {
  Selection selection;
  selection.problems = {"attn_res t=4 n=2 d=256"};
  Selected selected;
  ASSERT_TRUE(select(selection, &selected).ok());
  const std::vector<std::string> rows = names(selected);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), "attn_res t=4 n=2 d=256/cpu_plain_rows/cpu"), 1);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), "attn_res t=4 n=2 d=256/cpu_scalar_rows/cpu"), 0) << "only in cache";
  EXPECT_EQ(std::count(rows.begin(), rows.end(), "attn_res t=4 n=2 d=256/cpu_reference/cpu"), 0);
}

TEST(Select, KernelsAndModesByName) {
  Selection selection;
  selection.problems = {"attn_res t=4 n=2 d=256"};
  selection.kernels = {"cpu_reference"};
  selection.modes = {"cpu-warm"};
  Selected selected;
  ASSERT_TRUE(select(selection, &selected).ok());
  EXPECT_EQ(names(selected), std::vector<std::string>{"attn_res t=4 n=2 d=256/cpu_reference/cpu-warm"});
}

TEST(Select, InCacheCellsShowTheScalarRows) {
  Selection selection;
  selection.sets = {"smoke"};
  selection.filter = "n=2 d=256/.*/cpu-warm";
  Selected selected;
  ASSERT_TRUE(select(selection, &selected).ok());
  const std::vector<std::string> rows = names(selected);
  for (const char* kernel : {"cpu_scalar_rows", "cpu_reference", "cpu_plain_rows"}) {
    EXPECT_EQ(std::count(rows.begin(), rows.end(), fmt::format("attn_res t=3 n=2 d=256/{}/cpu-warm", kernel)), 1);
  }
}

TEST(Select, ASweepHasTheChosenKernelOnly) {
  Selection selection;
  selection.sets = {"cpu-sweep"};
  selection.filter = "kda_decode b=4 h=12/";
  Selected selected;
  ASSERT_TRUE(select(selection, &selected).ok());
  EXPECT_EQ(names(selected).size(), 1U);
  selection.sets = {"cpu-goals"};
  selection.filter = "kda_decode b=256 h=12/";
  Selected goals;
  ASSERT_TRUE(select(selection, &goals).ok());
  EXPECT_EQ(names(goals).size(), 3U) << "the chosen kernel and both chains";
}

TEST(Select, AutoIsWhatACallWouldTake) {
  Selection selection;
  selection.problems = {"attn_res t=4 n=2 d=256"};
  selection.kernels = {"auto"};
  Selected selected;
  ASSERT_TRUE(select(selection, &selected).ok());
  Explanation explanation;
  ASSERT_TRUE(explain(selection.problems[0], cpu_facts(), {}, &explanation).ok());
  EXPECT_EQ(names(selected), std::vector<std::string>{"attn_res t=4 n=2 d=256/" + explanation.kernel + "/cpu"});
}

TEST(Select, AFilterCutsModesAndKernels) {
  Selection selection;
  selection.sets = {"smoke"};
  selection.filter = "n=2 d=256/cpu_plain_rows/cpu-warm$";
  Selected selected;
  ASSERT_TRUE(select(selection, &selected).ok());
  EXPECT_EQ(names(selected), std::vector<std::string>{"attn_res t=3 n=2 d=256/cpu_plain_rows/cpu-warm"});
}

TEST(Select, NothingSelectedIsAnError) {
  struct Case {
    Selection selection;
    std::string message;
  };
  std::vector<Case> cases(11);
  for (Case& c : cases) c.selection.sets = {"smoke"};
  cases[0].selection.filter = "no such row";
  cases[0].message = "nothing to measure: no row passes the filters";
  cases[1].selection.sets = {};
  cases[1].message = "nothing to measure: needs --set NAME or --problem LINE";
  cases[2].selection.sets = {"smoky"};
  cases[2].message = "set: has \"smoky\", needs one of ";
  cases[3].selection.kernels = {"cpu_plain_row"};
  cases[3].message = "kernel: has \"cpu_plain_row\", needs one of all, auto, ";
  cases[4].selection.modes = {"graph"};
  cases[4].message = "mode: has graph, needs one of the cpu modes";
  cases[5].selection.modes = {"warm"};
  cases[5].message = "mode: has \"warm\", needs one of cpu, cpu-warm, ";
  cases[6].selection.ops = {"attn"};
  cases[6].message = "operator: has \"attn\", needs one of ";
  cases[7].selection.filter = "(";
  cases[7].message = "filter: has \"(\", needs a regular expression";
  cases[8].selection.device = "gpu";
  cases[8].message = "device: has \"gpu\", needs cpu, cuda, cuda:N, hip or hip:N";
  cases[9].selection.device = "cuda";
  cases[9].message = "device: has cuda, needs cpu (set smoke)";
  cases[10].selection.sets = {};
  cases[10].selection.problems = {"kda_decode b=1 h=1"};
  cases[10].selection.device = "hip:0";
  cases[10].selection.modes = {"graph"};
  cases[10].message = "mode: has graph, needs eager (the one there is for AMD devices)";
  for (const Case& c : cases) {
    Selected selected;
    const Status status = select(c.selection, &selected);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << c.message;
    EXPECT_EQ(status.message().substr(0, c.message.size()), c.message);
  }
}

TEST(Select, TheListOfEverythingNeedsNoName) {
  Selection selection;
  selection.list_only = true;
  Selected selected;
  ASSERT_TRUE(select(selection, &selected).ok());
  EXPECT_GT(selected.cells.size(), 20U);
}

TEST(Select, WrongProblemsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"attn_res t=0 n=2 d=256", "attn_res: t: has 0, needs at least 1"},
      {"attn_res t=1 n=2 d=256 align=2", "attn_res: align: has 2, needs 16"},
      {"attn_res t=1 n=2", "d: missing"},
      {"attention t=1", "operator: has \"attention\", needs one of "},
  };
  for (const auto& [line, message] : cases) {
    Selection selection;
    selection.problems = {line};
    Selected selected;
    const Status status = select(selection, &selected);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << line;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
}

TEST(Sets, EveryLineParsesAndSaysTheSameBack) {
  for (const NamedSet& set : named_sets()) {
    EXPECT_FALSE(set.entries.empty()) << set.name;
    for (const SetEntry& entry : set.entries) {
      EXPECT_FALSE(entry.modes.empty()) << entry.line;
      std::unique_ptr<Subject> subject;
      const Status status = make_subject(entry.line, &subject);
      ASSERT_TRUE(status.ok()) << set.name << ": " << status.message();
      EXPECT_GT(subject->bytes(), 0);
      EXPECT_GE(subject->flops(), 0);
      EXPECT_GE(subject->set_bytes() + 1024 * 16, subject->live_bytes()) << entry.line;
    }
  }
}

TEST(Subjects, BytesAreThoseOfTheCostFormula) {
  std::unique_ptr<Subject> subject;
  ASSERT_TRUE(make_subject("attn_res t=4096 n=8 d=7168", &subject).ok());
  EXPECT_EQ(subject->bytes(), int64_t{4096} * 12 * 7168 * 2);
  ASSERT_TRUE(make_subject("attn_res t=3 n=0 d=256 delta=0 norm=0", &subject).ok());
  EXPECT_EQ(subject->bytes(), 3 * 2 * 256 * 2);
}

TEST(Sets, RotationsSpanTheColdBytes) {
  std::unique_ptr<Subject> subject;
  ASSERT_TRUE(make_subject("attn_res t=1 n=8 d=7168", &subject).ok());
  Settings settings;
  settings.cold_bytes = 100 * subject->live_bytes();
  settings.memory_bytes = 1000 * subject->set_bytes();
  EXPECT_EQ(sets_needed(*subject, settings, false, 2), 100);
  EXPECT_EQ(sets_needed(*subject, settings, false, 187), 187);
  EXPECT_EQ(sets_needed(*subject, settings, true, 187), 1);
  settings.memory_bytes = 30 * subject->set_bytes();
  EXPECT_EQ(sets_needed(*subject, settings, false, 187), 30);
  settings.span_bytes = 10 * subject->bytes() - 1;
  EXPECT_EQ(sets_needed(*subject, settings, false, 187), 10);
  settings.span_bytes = subject->bytes();
  EXPECT_EQ(sets_needed(*subject, settings, false, 187), 3);
}

TEST(Subjects, ActivationsAreSharedWhereASubjectKnowsThem) {
  std::unique_ptr<Subject> subject;
  ASSERT_TRUE(make_subject("kda_decode b=2 h=2", &subject).ok());
  const int64_t own = subject->set_bytes();
  ASSERT_TRUE(subject->share_activations().ok());
  ASSERT_TRUE(subject->make_sets({}, 3).ok());
  EXPECT_LT(subject->set_bytes(), own);
  Verified verified;
  ASSERT_TRUE(subject->verify("cpu_plain_rows", {.threads = 1}, &verified).ok());
  EXPECT_TRUE(verified.verdict.ok) << verified.verdict.detail;
  ASSERT_TRUE(make_subject("attn_res t=1 n=8 d=7168", &subject).ok());
  EXPECT_EQ(subject->share_activations().code(), StatusCode::unsupported);
}

/// Counts its launches; its answers are as right as told.
class FakeSubject : public Subject {
 public:
  explicit FakeSubject(int right_answers) : right_answers_(right_answers) {}

  [[nodiscard]] std::string line() const override { return "fake t=1"; }
  [[nodiscard]] int64_t bytes() const override { return 4096; }
  [[nodiscard]] int64_t flops() const override { return 1; }
  [[nodiscard]] int64_t calls_per_step() const override { return 3; }
  [[nodiscard]] int64_t live_bytes() const override { return 1 << 20; }
  [[nodiscard]] int64_t set_bytes() const override { return 1 << 20; }
  Status make_sets(Device, int64_t count) override {
    sets.assign(static_cast<size_t>(count), 0);
    return {};
  }
  Status launch(std::string_view, int64_t set, const Launch&) override {
    ++sets.at(static_cast<size_t>(set));
    return {};
  }
  Status verify(std::string_view, const Launch&, Verified* verified) override {
    verified->what = "all rows";
    if (right_answers_-- <= 0) verified->verdict.fail("output[0]: has 1, needs 2");
    return {};
  }
  [[nodiscard]] std::vector<Mover> movers(DeviceKind) override {
    return {{"mover", 4096, [](int64_t, const Launch&) { return Status{}; }}};
  }

  std::vector<int> sets;  ///< launches of each

 private:
  int right_answers_;
};

struct FakeRun {
  explicit FakeRun(int right_answers, Mode mode = Mode::cpu) : subject(right_answers) {
    EXPECT_TRUE(default_settings({}, 1, &settings).ok());
    settings.samples = 4;
    settings.sample_us = 1;
    settings.cold_bytes = 10 << 20;
    cell = {"fake", "fake t=1", {}, {mode}, {"first", "second"}};
    status = detail::measure_cpu(
        cell, settings, subject, [](double) {}, &results);
  }
  FakeSubject subject;
  Settings settings;
  Cell cell;
  std::vector<Result> results;
  Status status;
};

TEST(Measure, AWrongKernelIsNotTimed) {
  const FakeRun run(0);
  EXPECT_EQ(run.status.message(), "fake t=1: first: wrong result, not timed: output[0]: has 1, needs 2");
  EXPECT_EQ(run.subject.sets, std::vector<int>(10, 0));
}

TEST(Measure, AKernelThatTurnsWrongIsAnError) {
  const FakeRun run(3);  // both right before, the second wrong after the timed launches
  EXPECT_EQ(run.status.message(), "fake t=1: second: wrong result, not timed: output[0]: has 1, needs 2");
}

TEST(Measure, ResultsAreTheRowsOfThePlan) {
  FakeRun run(4);
  ASSERT_TRUE(run.status.ok()) << run.status.message();
  const Plan rows = plan(run.cell, run.subject);
  ASSERT_EQ(run.results.size(), rows.rows.size());
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    const Result& result = run.results[i];
    EXPECT_EQ(result.kernel, rows.rows[i].kernel);
    EXPECT_EQ(result.samples_us.size(), 4U);
    EXPECT_EQ(result.verified, rows.rows[i].is_kernel ? "all rows" : "");
    EXPECT_EQ(result.probe_us.has_value(), rows.rows[i].is_kernel);
    EXPECT_EQ(result.copy_fraction.has_value(), rows.rows[i].is_kernel);
  }
  EXPECT_EQ(run.results[0].sets, 10);
  for (const int launches : run.subject.sets) EXPECT_GT(launches, 0) << "a set of the rotation was left out";
}

TEST(Measure, AGpuPlanHasOneMoverAndOneFloorPerMode) {
  FakeSubject subject(0);
  const Cell cell{"fake", "fake t=1", {DeviceKind::cuda, 0}, {Mode::graph, Mode::eager}, {"first"}};
  std::string text;
  for (const Plan::Row& row : plan(cell, subject).rows) {
    text += fmt::format("{}/{}/{} ", row.kernel, to_string(row.mode), row.is_kernel ? 1 : 0);
  }
  EXPECT_EQ(text, "first/graph/1 mover/graph/0 floor/graph/0 first/eager/1 mover/eager/0 floor/eager/0 ");
}

TEST(Measure, WarmStaysOnOneSet) {
  const FakeRun run(4, Mode::cpu_warm);
  ASSERT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_EQ(run.subject.sets.size(), 1U);
  EXPECT_FALSE(run.results[0].copy_fraction.has_value());
  for (const Result& result : run.results) EXPECT_NE(result.kernel, kCopyNt);
}

TEST(Measure, AnUnknownKernelIsAnError) {
  const Cell cell{"attn_res", "attn_res t=2 n=1 d=64", {}, {Mode::cpu}, {"cpu_plain_row"}};
  Settings settings;
  ASSERT_TRUE(default_settings({}, 1, &settings).ok());
  std::vector<Result> results;
  const Status status = measure(
      cell, settings, [](double) {}, &results);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_TRUE(results.empty());
}

TEST(Measure, ASetThatDoesNotFitIsAnError) {
  Cell cell{"attn_res", "attn_res t=64 n=8 d=7168", {}, {Mode::cpu}, {"cpu_plain_rows"}};
  Settings settings;
  ASSERT_TRUE(default_settings({}, 1, &settings).ok());
  settings.memory_bytes = 1 << 20;
  std::vector<Result> results;
  const Status status = measure(
      cell, settings, [](double) {}, &results);
  EXPECT_EQ(status.code(), StatusCode::out_of_memory);
  EXPECT_NE(status.message().find("memory: has 1 MiB, needs "), std::string::npos) << status.message();
}

TEST(Ceilings, MoveWhatTheySay) {
  for (const int64_t bytes : {1, 4096, 100000}) {
    CeilingMemory memory(bytes, 2);
    EXPECT_GE(memory.bytes(), bytes);
    EXPECT_LT(memory.bytes(), bytes + 2 * 4096);
    for (const std::string_view ceiling : {kCopy, kCopyNt, kInPlace, kRead}) {
      for (int64_t i = 0; i < 3; ++i) memory.run(ceiling, i, 1);
    }
  }
  EXPECT_GT(multiply_add_rate(1, 200), 0.1);
}

TEST(Runner, FoldersOfDevices) {
  EXPECT_EQ(device_folder("NVIDIA H200"), "h200");
  EXPECT_EQ(device_folder("AMD EPYC 9B14 96-Core Processor"), "amd-epyc-9b14-96-core-processor");
  EXPECT_EQ(device_folder("Intel(R) Xeon(R) @ 2.30GHz"), "intel-r-xeon-r-2-30ghz");
}

}  // namespace
}  // namespace silt::bench
