// silt: the command line. One file per command; everything here goes through the public headers.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "command.hpp"

int main(int argc, char** argv) {
  silt::cli::CommandLine line;
  silt::cli::add_generate(line);
  silt::cli::add_check(line);
  silt::cli::add_explain(line);
  silt::cli::add_bench(line);
  silt::cli::add_dump_launch(line);
  silt::cli::add_info(line);
  silt::cli::add_perplexity(line);
  const int exit = line.run(argc, argv);
  // What was printed may still wait in the buffer: a full disk shows here.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "silt: standard output: cannot be written: {}\n", std::strerror(errno));
    return silt::cli::kWrongResult;
  }
  return exit;
}
