// silt bench: hands over to silt-bench, the program beside this one.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "command.hpp"

namespace silt::cli {
namespace {

int run(const CLI::App& command) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path program = self.parent_path() / "silt-bench";
  if (error || !std::filesystem::exists(program)) {
    return complain(
        "bench",
        fmt::format("{}: not found; it is built with SILT_BUILD_BENCH=ON and belongs beside silt", program.string()),
        kWrongUse);
  }
  std::vector<std::string> words = command.remaining();
  words.insert(words.begin(), program.string());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return complain("bench", fmt::format("{}: cannot be started: {}", program.string(), std::strerror(errno)),
                  kWrongResult);
}

}  // namespace

Command add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Benchmarks: everything behind the word goes to silt-bench");
  command->prefix_command();
  command->footer(example("silt bench --list") + "\nThe options of silt-bench: silt bench -- --help");
  return {command, [command] { return run(*command); }};
}

}  // namespace silt::cli
