// silt-bench: measures kernels by the protocol of docs/measuring.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "bench/runner.hpp"
#include "bench/select.hpp"
#include "bench/sets.hpp"

namespace silt::bench {
namespace {

constexpr int kWrongUse = 2;

constexpr std::string_view kExamples =
    "Examples:\n"
    "  silt-bench --set cpu-goals --threads 1 --csv summary.csv --json run.json\n"
    "  silt-bench --problem \"attn_res t=64 n=8 d=7168\" --kernel all\n"
    "  silt-bench --set h200-attn --filter \"t=(1|64) .*graph\"\n"
    "Exit status: 0; 1 wrong result or device error; 2 wrong use, or a filter that selects nothing.\n";

std::string set_names() {
  std::string text = "Named sets:\n";
  for (const NamedSet& set : named_sets()) text += fmt::format("  {:<16} {}\n", set.name, set.what);
  return text;
}

void print_list(const Selected& selected) {
  for (const Cell& cell : selected.cells) {
    for (const Mode mode : cell.modes) {
      for (const std::string& kernel : cell.kernels) fmt::print("{}\n", row_name(cell.line, kernel, mode));
    }
  }
}

/// Two devices would need two contexts: one run, one device.
bool one_device(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    if (!(cell.device == cells.front().device)) return false;
  }
  return true;
}

int run(const Selection& selection, const RunOptions& options) {
  Selected selected;
  const Status status = select(selection, &selected);
  for (const Refusal& refusal : selected.refusals) fmt::print(stderr, "not measured: {}\n", refusal.reason);
  if (!status.ok()) {
    fmt::print(stderr, "silt-bench: {}\n", status.message());
    return kWrongUse;
  }
  if (selection.list_only) {
    print_list(selected);
    return 0;
  }
  if (!one_device(selected.cells)) {
    fmt::print(stderr, "silt-bench: the sets are for different devices, needs one device a run\n");
    return kWrongUse;
  }
  return run_cells(selected.cells, options);
}

int parse_and_run(int argc, char** argv) {
  Selection selection;
  RunOptions options;
  CLI::App app{"Measures silt's kernels beside the ceilings of the machine, after comparing them with the oracle."};
  app.footer(set_names() + std::string(kExamples));
  app.add_flag("--list", selection.list_only, "Print the rows that would run (of every set where none is named)");
  app.add_option("--set", selection.sets, "A named set (may be given several times)");
  app.add_option("--problem", selection.problems, "A problem line (may be given several times)");
  app.add_option("--filter", selection.filter, "Keep rows \"<problem>/<kernel>/<mode>\" that match this pattern");
  app.add_option("--op", selection.ops, "Keep these operators");
  app.add_option("--kernel", selection.kernels, "Kernels by name, all, or auto (what a call would take)");
  app.add_option("--mode", selection.modes, "Keep these modes: " + mode_names());
  app.add_option("--device", selection.device, "cpu, cuda, cuda:N, hip or hip:N");
  app.add_option("--threads", options.threads, "CPU threads (default: every core)")->check(CLI::Range(1, 1024));
  app.add_option("--samples", options.samples, "Rounds of a contest")
      ->check(CLI::Range(2, 10000))
      ->capture_default_str();
  app.add_option("--sample-us", options.sample_us, "Shortest sample (default: CPU 1000, GPU 2000 a replay)")
      ->check(CLI::PositiveNumber);
  app.add_option("--memory-gib", options.memory_gib, "Most memory for the input sets")->check(CLI::PositiveNumber);
  app.add_option("--span-mb", options.span_mb,
                 "Not the protocol: rotate over as few sets as move this many MB (three at least)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--share-activations", options.share_activations,
               "Not the protocol: inputs and outputs of a step are the same memory in every set");
  app.add_option("--json", options.json, "Write Google Benchmark's JSON here");
  app.add_option("--csv", options.csv, "Write summary.csv here");
  app.add_flag("--quiet", options.quiet, "No progress on stderr");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUse;
  }
  return run(selection, options);
}

}  // namespace
}  // namespace silt::bench

int main(int argc, char** argv) {
  // A reader that has gone, or a full disk: an error with a text, behind the files of the run.
  std::signal(SIGPIPE, SIG_IGN);
  int exit = 1;
  try {
    exit = silt::bench::parse_and_run(argc, argv);
  } catch (const std::exception& error) {  // also of fmt::print, whose buffer did not go out
    fmt::print(stderr, "silt-bench: {}\n", error.what());
    return 1;
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit;
  fmt::print(stderr, "silt-bench: standard output: cannot be written: {}\n", std::strerror(errno));
  return 1;
}
