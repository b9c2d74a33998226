// silt info: what this library is, what it found on this machine, and what it was built with.
#include <fmt/format.h>

#include <cstdlib>

#include "silt/choose.hpp"
#include "silt/device.hpp"

#include "command.hpp"

namespace silt::cli {
namespace {

void print_kernels() {
  fmt::print("\nkernels, fastest first\n");
  for (const std::string_view op : operators()) {
    fmt::print("  {}\n", op);
    for (const KernelInfo& kernel : kernels(op)) {
      fmt::print("    {:<24} {}\n", kernel.name,
                 kernel.built ? std::string("built") : fmt::format("not built: {}", kernel.why_not_built));
    }
  }
}

void print_environment() {
  struct Variable {
    const char* name;
    const char* meaning;
  };
  constexpr Variable variables[] = {
      {"SILT_KERNEL", "a kernel that calls must take: \"name\", or \"operator=name\" separated by commas"},
      {"SILT_LOG", "trace, debug, info, warn (default), error or off"},
      {"SILT_DEBUG", "1: indices and values are checked before every launch, at any cost"},
      {"SILT_LOG_FILE", "a file to append the log to; default stderr"},
  };
  fmt::print("\nenvironment\n");
  for (const auto& [name, meaning] : variables) {
    const char* value = std::getenv(name);
    fmt::print("  {:<14} {:<10} {}\n", name, value == nullptr ? "(not set)" : value, meaning);
  }
}

int run() {
  fmt::print("silt {}\n\ndevices\n{}", version(), describe_devices());
  print_kernels();
  print_environment();
  return kDone;
}

}  // namespace

void add_info(CommandLine& line) {
  line.add("info", "Devices, CPU features, kernels that were built and why others were not", "silt info", run);
}

}  // namespace silt::cli
