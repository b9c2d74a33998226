// What the commands share: errors of one line, devices at hand. Each command is one file with one add function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "silt/device.hpp"
#include "silt/status.hpp"

#include "command_line.hpp"

namespace silt::cli {

void add_generate(CommandLine& line);
void add_check(CommandLine& line);
void add_explain(CommandLine& line);
void add_dump_launch(CommandLine& line);
void add_bench(CommandLine& line);
void add_info(CommandLine& line);
void add_perplexity(CommandLine& line);

/// Prints "silt <command>: <text>" to stderr.
int complain(std::string_view command, std::string_view text, Exit exit);
/// A status as a complaint: bad arguments and files are wrong use, everything else is a wrong result.
int complain(std::string_view command, const Status& status);

/// Says, once, that standard output cannot be written, and why (an errno). Gives kWrongResult.
int complain_of_output(int error);

std::string joined(const std::vector<std::string_view>& names, std::string_view separator = ", ");

std::string device_name(Device device);  ///< "cpu", "cuda:0"
/// Every device that answers; `missing` gets a line for each backend that has none.
std::vector<Device> devices_at_hand(std::vector<std::string>* missing = nullptr);

}  // namespace silt::cli
