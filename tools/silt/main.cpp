// silt: the command line. One file per command; everything here goes through the public headers.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "silt/device.hpp"

#include "command.hpp"

namespace silt::cli {
namespace {

/// CLI11's complaints as one line that names the command and the argument.
int wrong_use(const CLI::App& app, const std::vector<Command>& commands, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? std::string() : " " + chosen.front()->get_name();
  const auto extra = chosen.empty() ? app.remaining() : chosen.front()->remaining();
  std::string text = error.what();
  if (!extra.empty()) {
    text = extra.front();
    if (chosen.empty() && !text.starts_with('-')) {
      std::vector<std::string_view> names;
      for (const Command& known : commands) names.push_back(known.app->get_name());
      text += ": unknown command, needs one of " + joined(names);
    } else {
      text += text.starts_with('-') ? ": unknown option" : ": one argument too many";
      text += fmt::format(" (silt{} --help lists them)", command);
    }
  } else if (chosen.empty()) {
    text = "no command given (silt --help lists them)";
  }
  fmt::print(stderr, "silt{}: {}\n", command, text);
  return kWrongUse;
}

int run(int argc, char** argv) {
  CLI::App app{"silt: Attention Residuals and Kimi Delta Attention as fused kernels, and a decoder that runs on them.",
               "silt"};
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 a wrong result, 2 wrong use.\n" +
             example("silt generate models/k3-mini \"The whale\""));
  const std::vector<Command> commands = {add_check(app), add_explain(app), add_bench(app), add_info(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);  // --help and --version
  } catch (const CLI::ParseError& error) {
    return wrong_use(app, commands, error);
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return kWrongUse;
}

}  // namespace
}  // namespace silt::cli

int main(int argc, char** argv) {
  const int exit = silt::cli::run(argc, argv);
  // What was printed may still wait in the buffer: a full disk shows here.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "silt: standard output: cannot be written: {}\n", std::strerror(errno));
    return silt::cli::kWrongResult;
  }
  return exit;
}
