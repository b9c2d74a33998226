// silt check: every kernel that this machine can run against the double-precision reference.
#include "silt/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "command.hpp"
#include "progress.hpp"

namespace silt::cli {
namespace {

struct Options {
  std::string op;
  std::string kernel;
  uint64_t seed = 1;
  int64_t fuzz = 0;
  bool verbose = false;
};

struct Tally {
  int64_t ran = 0;
  int64_t refused = 0;
  int64_t failed = 0;
  double worst = 0;

  void add(const CheckResult& result) {
    if (result.refused) {
      ++refused;
      return;
    }
    ++ran;
    if (!result.passed) ++failed;
    // A NaN stays: it is the worst there is.
    if (std::isnan(result.worst) || result.worst > worst) worst = result.worst;
  }
};

/// One case: with `special`, special values stand among the random ones.
struct Data {
  std::string line;
  uint64_t seed = 1;
  bool special = false;
};

/// The standing table, or random lines: each of a seed of its own, which alone gives the case again.
std::vector<Data> cases_of(std::string_view op, const Options& options) {
  std::vector<Data> all;
  if (options.fuzz == 0) {
    for (std::string& line : check_lines(op)) all.push_back({std::move(line), options.seed});
  }
  for (int64_t i = 0; i < options.fuzz; ++i) {
    const uint64_t seed = options.seed + static_cast<uint64_t>(i);
    all.push_back({random_line(op, seed), seed, seed % 2 == 0});
  }
  return all;
}

/// Every case of one kernel on one device.
Status check_kernel(const KernelInfo& kernel, Device device, const Options& options, Tally* tally) {
  const std::vector<Data> cases = cases_of(kernel.op, options);
  Progress progress(fmt::format("{} {} on {}", kernel.op, kernel.name, device_name(device)));
  int64_t done = 0;
  for (const auto& [line, seed, special] : cases) {
    progress.show(fmt::format("{} of {}", ++done, cases.size()));
    CheckResult result;
    const Status status = special ? check_special(line, kernel.name, device, seed, &result)
                                  : check(line, kernel.name, device, seed, &result);
    if (!status.ok()) return status;
    tally->add(result);
    if (!result.refused && result.passed && !options.verbose) continue;
    progress.clear();
    const std::string name = options.fuzz == 0 ? line : fmt::format("--fuzz 1 --seed {}: {}", seed, line);
    if (!result.refused && !result.passed) {
      fmt::print("WRONG {} {}: {}\n", kernel.name, name, result.detail);
    } else if (options.verbose) {
      fmt::print("{} {} {}: {}\n", result.refused ? "refused" : "right", kernel.name, name,
                 result.refused ? result.detail : fmt::format("worst error {:.3f} of its bound", result.worst));
    }
  }
  return {};
}

void print_row(const KernelInfo& kernel, Device device, const Tally& tally) {
  std::string verdict = "right";
  if (tally.failed > 0) verdict = fmt::format("{} WRONG", tally.failed);
  if (tally.ran == 0) verdict = "nothing run: it takes none of the cases on this device";
  fmt::print("{:<22} {:<22} {:<7} {:>4} cases {:>4} refused   worst error {:.3f} of its bound   {}\n", kernel.op,
             kernel.name, device_name(device), tally.ran, tally.refused, tally.worst, verdict);
  std::fflush(stdout);
}

/// A filter that matches nothing is an error, not a success.
Status check_filters(const Options& options) {
  const auto refuse = [](std::string_view option, const std::string& has, const std::string& needs) {
    return Status(StatusCode::invalid_argument, fmt::format("{}: has \"{}\", needs {}", option, has, needs));
  };
  const auto ops = operators();
  if (!options.op.empty() && std::find(ops.begin(), ops.end(), options.op) == ops.end()) {
    return refuse("--op", options.op, "one of " + joined(ops));
  }
  if (options.kernel.empty()) return {};
  std::vector<std::string_view> known;
  for (const KernelInfo& kernel : kernels()) {
    if (!options.op.empty() && kernel.op != options.op) continue;
    if (kernel.name == options.kernel) {
      return kernel.built ? Status()
                          : refuse("--kernel", options.kernel,
                                   fmt::format("a kernel that was built; this one was not: {}", kernel.why_not_built));
    }
    if (std::find(known.begin(), known.end(), kernel.name) == known.end()) known.push_back(kernel.name);
  }
  return refuse("--kernel", options.kernel, "one of " + joined(known));
}

int run(const Options& options) {
  if (const Status status = check_filters(options); !status.ok()) return complain("check", status);
  std::vector<std::string> missing;
  Tally sum;
  int64_t rows = 0;
  int64_t idle = 0;
  for (const Device device : devices_at_hand(&missing)) {
    for (const KernelInfo& kernel : kernels()) {
      const bool asked =
          (options.op.empty() || kernel.op == options.op) && (options.kernel.empty() || kernel.name == options.kernel);
      if (!asked || !kernel.built || kernel.device != device.kind) continue;
      Tally tally;
      if (const Status status = check_kernel(kernel, device, options, &tally); !status.ok()) {
        return complain("check", status.message(), kWrongResult);
      }
      print_row(kernel, device, tally);
      ++rows;
      if (tally.ran == 0) ++idle;
      sum.ran += tally.ran;
      sum.failed += tally.failed;
    }
  }
  for (const std::string& text : missing) fmt::print("not checked: {}\n", text);
  if (sum.ran == 0) return complain("check", "no case ran: no device at hand takes what was asked for", kWrongUse);
  fmt::print("{} kernels, {} cases: {}\n", rows - idle, sum.ran,
             sum.failed == 0 ? "all right" : fmt::format("{} wrong", sum.failed));
  return sum.failed == 0 ? kDone : kWrongResult;
}

}  // namespace

void add_check(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Command command = line.add("check", "Every kernel that this machine can run, against the double-precision reference",
                             "silt check --op attn_res", [options] { return run(*options); });
  command.text("--op", &options->op, "NAME", "Only this operator");
  command.text("--kernel", &options->kernel, "NAME", "Only this kernel");
  command.whole("--seed", &options->seed, 0, INT64_MAX, "Seed of the random data");
  command.whole("--fuzz", &options->fuzz, 1, INT64_MAX, "This many random problems instead of the standing table");
  command.flag("--verbose", &options->verbose, "A line for every case");
}

}  // namespace silt::cli
