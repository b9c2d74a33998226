// silt bench: hands over to silt-bench, the program beside this one.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "command.hpp"

namespace silt::cli {
namespace {

int run(std::vector<std::string> words) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path program = self.parent_path() / "silt-bench";
  if (error || !std::filesystem::exists(program)) {
    return complain(
        "bench",
        fmt::format("{}: not found; it is built with SILT_BUILD_BENCH=ON and belongs beside silt", program.string()),
        kWrongUse);
  }
  words.insert(words.begin(), program.string());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);  // what main has set would outlive the change of programs
  execv(program.c_str(), argv.data());
  return complain("bench", fmt::format("{}: cannot be started: {}", program.string(), std::strerror(errno)),
                  kWrongResult);
}

}  // namespace

void add_bench(CommandLine& line) {
  auto words = std::make_shared<std::vector<std::string>>();
  Command command =
      line.add("bench", "Benchmarks: everything behind the word goes to silt-bench",
               "silt bench --list\nThe options of silt-bench: silt bench -- --help", [words] { return run(*words); });
  command.rest(words.get());
}

}  // namespace silt::cli
