// Commands and their options. CLI11 stays behind this header: every file that includes it takes seconds to compile.
//
// A value that cannot be used is refused while parsing: "silt <command>: <option>: has X, needs Y", exit code 2.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace silt::cli {

enum Exit : int {
  kDone = 0,
  kWrongResult = 1,    ///< a result is wrong or could not be made
  kWrongUse = 2,       ///< arguments or files that cannot be used
  kInterrupted = 128,  ///< plus the number of the signal
};

/// The options of one command; where they are written to must outlive the run.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  void positional(const char* name, std::string* value, const char* help);
  void positionals(const char* name, std::vector<std::string>* values, const char* help);
  void text(const char* name, std::string* value, const char* type, const char* help);
  /// An option that may be given several times; no empty text.
  void texts(const char* name, std::vector<std::string>* values, const char* type, const char* help);
  void choice(const char* name, std::string* value, const std::vector<std::string_view>& choices, const char* help);
  void flag(const char* name, bool* value, const char* help);
  /// A whole number in least..most. The help shows the value that `value` has, unless that is 0.
  template <class Int>
  void whole(const char* name, Int* value, int64_t least, int64_t most, const char* help) {
    add_whole(name, static_cast<int64_t>(*value), least, most, help,
              [value](int64_t given) { *value = static_cast<Int>(given); });
  }
  /// A finite number in least..most.
  void real(const char* name, std::optional<float>* value, double least, double most, const char* help);
  void whole(const char* name, std::optional<int32_t>* value, int64_t least, int64_t most, const char* help) {
    add_whole(name, 0, least, most, help, [value](int64_t given) { *value = static_cast<int32_t>(given); });
  }
  /// Everything that is no option of this command, in its order.
  void rest(std::vector<std::string>* words);

 private:
  void add_whole(const char* name, int64_t standard, int64_t least, int64_t most, const char* help,
                 const std::function<void(int64_t)>& set);

  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine();
  ~CommandLine();

  /// A command; `run` gives an Exit. The example is the last part of its help.
  Command add(const char* name, const char* summary, const std::string& example, std::function<int()> run);
  /// Parses and runs; help and complaints are printed here.
  int run(int argc, char** argv);

 private:
  int complain(const std::string& what) const;

  struct Entry {
    CLI::App* app;
    std::function<int()> run;
  };
  std::unique_ptr<CLI::App> app_;
  std::vector<Entry> entries_;
};

}  // namespace silt::cli
