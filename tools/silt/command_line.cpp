#include "command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "silt/device.hpp"

#include "command.hpp"

namespace silt::cli {
namespace {

/// The whole text as a number in least..most, and finite.
template <class T>
std::optional<T> parse(const std::string& text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole_text = error == std::errc() && end == text.data() + text.size();
  return whole_text && value >= least && value <= most ? std::optional<T>(value) : std::nullopt;
}

[[noreturn]] void refuse(const char* name, const std::string& has, const std::string& needs) {
  throw CLI::ValidationError(name, fmt::format("has \"{}\", needs {}", has, needs));
}

/// CLI11 takes a positional value in brackets for a list. A mark behind the bracket prevents that until the value is
/// set.
constexpr char kMark = '\x01';

std::string marked(std::string word) {
  if (word.starts_with('[') && word.ends_with(']')) word += kMark;
  return word;
}

std::string unmarked(std::string word) {
  if (word.starts_with('[') && word.ends_with(kMark)) word.pop_back();
  return word;
}

/// An option whose values `set` takes or refuses, one after the other.
CLI::Option* add(CLI::App* app, const char* name, const char* type, const char* help,
                 const std::function<void(const std::string&)>& set) {
  CLI::Option* option = app->add_option(
      name,
      [set](const CLI::results_t& values) {
        for (const std::string& value : values) set(unmarked(value));
        return true;
      },
      help);
  return option->type_name(type);
}

}  // namespace

void Command::positional(const char* name, std::string* value, const char* help) {
  add(app_, name, "", help, [value](const std::string& given) { *value = given; });
}

void Command::positionals(const char* name, std::vector<std::string>* values, const char* help) {
  add(app_, name, "", help, [values](const std::string& given) { values->push_back(given); })
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(true);
}

void Command::text(const char* name, std::string* value, const char* type, const char* help) {
  add(app_, name, type, help, [value](const std::string& given) { *value = given; });
}

void Command::texts(const char* name, std::vector<std::string>* values, const char* type, const char* help) {
  CLI::Option* option = add(app_, name, type, help, [name, values](const std::string& given) {
    if (given.empty()) refuse(name, given, "at least one character");
    values->push_back(given);
  });
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
}

void Command::choice(const char* name, std::string* value, const std::vector<std::string_view>& choices,
                     const char* help) {
  const std::string needs = joined(choices, " or ");
  CLI::Option* option = add(app_, name, "TYPE", help, [=](const std::string& given) {
    if (std::find(choices.begin(), choices.end(), given) == choices.end()) refuse(name, given, needs);
    *value = given;
  });
  option->default_str(*value);
}

void Command::flag(const char* name, bool* value, const char* help) { app_->add_flag(name, *value, help); }

void Command::add_whole(const char* name, int64_t standard, int64_t least, int64_t most, const char* help,
                        const std::function<void(int64_t)>& set) {
  const std::string needs = most == INT64_MAX ? fmt::format("a whole number, at least {}", least)
                                              : fmt::format("a whole number in {}..{}", least, most);
  CLI::Option* option = add(app_, name, "N", help, [=](const std::string& given) {
    const auto value = parse<int64_t>(given, least, most);
    if (!value) refuse(name, given, needs);
    set(*value);
  });
  if (standard != 0) option->default_str(std::to_string(standard));
}

void Command::real(const char* name, std::optional<float>* value, double least, double most, const char* help) {
  const std::string needs =
      std::isinf(most) ? fmt::format("a number, at least {}", least) : fmt::format("a number in {}..{}", least, most);
  add(app_, name, "X", help, [=](const std::string& given) {
    const auto number = parse<double>(given, least, most);
    if (!number || std::isinf(*number)) refuse(name, given, needs);
    *value = static_cast<float>(*number);
  });
}

void Command::rest(std::vector<std::string>* words) {
  app_->prefix_command();
  app_->parse_complete_callback([app = app_, words] {
    for (const std::string& word : app->remaining()) words->push_back(unmarked(word));
  });
}

CommandLine::CommandLine()
    : app_(std::make_unique<CLI::App>(
          "Attention Residuals and Kimi Delta Attention as fused kernels, and a decoder that runs on them.", "silt")) {
  app_->set_version_flag("--version", std::string(version()));
  app_->require_subcommand(1);
  app_->footer(
      "Exit codes: 0 done, 1 a wrong result, 2 wrong use.\n"
      "Example:\n  silt generate models/k3-mini \"The whale\"");
}

CommandLine::~CommandLine() = default;

Command CommandLine::add(const char* name, const char* summary, const std::string& example, std::function<int()> run) {
  CLI::App* app = app_->add_subcommand(name, summary);
  app->footer("Example:\n  " + example);
  entries_.push_back({app, std::move(run)});
  return Command(app);
}

int CommandLine::complain(const std::string& what) const {
  const auto chosen = app_->get_subcommands();
  const std::string command = chosen.empty() ? std::string() : " " + chosen.front()->get_name();
  const auto extra = chosen.empty() ? app_->remaining() : chosen.front()->remaining();
  std::string text = what;
  if (!extra.empty()) {
    const std::string word = unmarked(extra.front());
    const bool option = word.starts_with('-');
    std::vector<std::string_view> names;
    for (const Entry& entry : entries_) names.push_back(entry.app->get_name());
    text = word + (option            ? ": unknown option"
                   : !chosen.empty() ? ": one argument too many"
                                     : ": unknown command, needs one of " + joined(names, ", "));
    if (option || !chosen.empty()) text += fmt::format(" (silt{} --help lists them)", command);
  } else if (chosen.empty()) {
    text = "no command given (silt --help lists them)";
  }
  fmt::print(stderr, "silt{}: {}\n", command, text);
  return kWrongUse;
}

int CommandLine::run(int argc, char** argv) {
  try {
    std::vector<std::string> words;  // CLI11 takes them last to first
    for (int i = argc - 1; i > 0; --i) words.push_back(marked(argv[i]));
    app_->parse(std::move(words));
  } catch (const CLI::Success& asked) {
    return app_->exit(asked);  // --help and --version
  } catch (const CLI::ParseError& error) {
    return complain(error.what());
  }
  for (const Entry& entry : entries_) {
    if (entry.app->parsed()) return entry.run();
  }
  return kWrongUse;
}

}  // namespace silt::cli
