// silt explain: which kernel a problem takes on a device, and why the others do not.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "silt/choose.hpp"
#include "silt/device.hpp"

#include "command.hpp"

namespace silt::cli {
namespace {

struct Options {
  std::vector<std::string> words;  ///< the problem line, quoted or not
  std::string device;
  std::string kernel;
};

Status find_device(const std::string& name, std::vector<DeviceFacts>* found) {
  DeviceFacts facts;
  std::string known;
  for (const Device device : devices_at_hand()) {
    known += device_name(device) + ", ";
    if (!name.empty() && name != device_name(device)) continue;
    if (const Status status = device_facts(device, &facts); !status.ok()) return status;
    found->push_back(facts);
  }
  if (!found->empty()) return {};
  const auto canned = canned_names();
  if (std::find(canned.begin(), canned.end(), name) != canned.end()) {
    found->emplace_back();
    return canned_facts(name, &found->back());
  }
  return {StatusCode::invalid_argument,
          fmt::format("--device: has \"{}\", needs one of {}{}", name, known, joined(canned))};
}

int run(const Options& options) {
  std::string line;
  for (const std::string& word : options.words) line += (line.empty() ? "" : " ") + word;
  if (line.find_first_not_of(' ') == std::string::npos) {
    return complain("explain", "LINE: missing, needs a problem line such as \"attn_res t=64 n=8 d=7168\"", kWrongUse);
  }
  std::vector<DeviceFacts> devices;
  if (const Status status = find_device(options.device, &devices); !status.ok()) return complain("explain", status);
  const Policy policy = options.kernel.empty() ? Policy() : Policy::require(options.kernel);
  int worst = kDone;
  for (const DeviceFacts& facts : devices) {
    Explanation explanation;
    const Status status = explain(line, facts, policy, &explanation);
    fmt::print("{}", explanation.table);
    if (!status.ok()) worst = std::max(worst, complain("explain", status));
  }
  return worst;
}

}  // namespace

void add_explain(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Command command =
      line.add("explain", "Which kernel a problem takes on a device, and why the others do not",
               "silt explain attn_res t=64 n=8 d=7168 --device h200", [options] { return run(*options); });
  command.positionals("LINE", &options->words, "An operator and its sizes; the problem line of tests and benchmarks");
  command.text("--device", &options->device, "NAME",
               "A device at hand (cpu, cuda:0) or a known one; default: all at hand");
  command.text("--kernel", &options->kernel, "NAME", "Explain as if this kernel were required");
}

}  // namespace silt::cli
