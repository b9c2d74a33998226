// silt: the command line. One file per command; everything here goes through the public headers.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <system_error>

#include "command.hpp"

namespace {

int run(int argc, char** argv) {
  silt::cli::CommandLine line;
  silt::cli::add_generate(line);
  silt::cli::add_check(line);
  silt::cli::add_explain(line);
  silt::cli::add_bench(line);
  silt::cli::add_dump_launch(line);
  silt::cli::add_info(line);
  silt::cli::add_perplexity(line);
  return line.run(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that has gone is an error like a full disk, not a silent end.
  std::signal(SIGPIPE, SIG_IGN);
  int exit = silt::cli::kWrongResult;
  try {
    exit = run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("silt: out of memory\n", stderr);  // nothing here takes memory
  } catch (const std::system_error& error) {      // of fmt::print, whose buffer did not go out
    if (std::ferror(stdout) != 0) return silt::cli::complain_of_output(error.code().value());
    std::fprintf(stderr, "silt: %s\n", error.what());
  }
  // What was printed may still wait in the buffer: a full disk shows here.
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written ? exit : silt::cli::complain_of_output(errno);
}
