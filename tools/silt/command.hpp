// What the commands share: exit codes, errors of one line, option types, devices at hand.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "silt/device.hpp"
#include "silt/status.hpp"

namespace silt::cli {

enum Exit : int {
  kDone = 0,
  kWrongResult = 1,  ///< a result is wrong or could not be made
  kWrongUse = 2,     ///< arguments or files that cannot be used
};

/// A command and what it does once its options are read; `run` returns an Exit.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

Command add_generate(CLI::App& app);
Command add_check(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_info(CLI::App& app);
Command add_perplexity(CLI::App& app);

/// Prints "silt <command>: <text>" to stderr.
int complain(std::string_view command, std::string_view text, Exit exit);
/// A status as a complaint: bad arguments and files are wrong use, everything else is a wrong result.
int complain(std::string_view command, const Status& status);

/// "a, b, c"
std::string joined(const std::vector<std::string_view>& names);

/// Options that refuse a value with "has X, needs Y" before anything runs.
CLI::Validator whole_number(int64_t least, int64_t most);
CLI::Validator real_number(double least, double most);

std::string device_name(Device device);  ///< "cpu", "cuda:0"
/// Every device that answers; `missing` gets a line for each backend that has none.
std::vector<Device> devices_at_hand(std::vector<std::string>* missing = nullptr);

/// The text of a help footer.
std::string example(std::string_view lines);

}  // namespace silt::cli
