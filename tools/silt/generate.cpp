// silt generate: continues prompts with a model.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "silt/choose.hpp"
#include "silt/model.hpp"

#include "command.hpp"
#include "decoder.hpp"
#include "files.hpp"
#include "progress.hpp"

namespace silt::cli {
namespace {

struct Options {
  DecoderOptions decoder;
  std::vector<std::string> prompts;
  std::vector<std::string> files;
  std::string output;
  std::vector<std::string> stop;
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  uint64_t seed = 0;
  int64_t max_tokens = 256;
  bool ignore_end = false;
  bool echo = false;
};

/// Texts of the prompts in their order: the first one as it comes, the others when all are done.
class Writer {
 public:
  Writer(const std::vector<std::string>& prompts, bool echo, OutputFile* file)
      : prompts_(prompts), echo_(echo), file_(file) {}

  /// False where the text cannot be written any more.
  [[nodiscard]] bool ok() const { return error_ == 0; }
  [[nodiscard]] int error() const { return error_; }  ///< an errno

  void begin(size_t index) {
    if (prompts_.size() > 1) put(fmt::format("== {} ==\n", index + 1));
    if (echo_) put(prompts_[index]);
  }
  void put(std::string_view text) {
    if (error_ != 0) return;
    const bool written =
        file_ != nullptr ? file_->write(text)
                         : std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    if (!written) error_ = errno;
  }
  void finish(const std::vector<Completion>& completions) {
    put("\n");
    for (size_t i = 1; i < completions.size(); ++i) {
      begin(i);
      put(completions[i].text + "\n");
    }
  }

 private:
  const std::vector<std::string>& prompts_;
  bool echo_;
  OutputFile* file_;
  int error_ = 0;
};

/// Arguments, then files, or standard input where there are neither.
Status read_prompts(const Options& options, std::vector<std::string>* prompts) {
  *prompts = options.prompts;
  std::vector<std::string> files = options.files;
  if (prompts->empty() && files.empty()) {
    if (isatty(STDIN_FILENO) == 1) {
      return {StatusCode::invalid_argument, "PROMPT: missing, needs a text, --file, or text on standard input"};
    }
    files.emplace_back("-");
  }
  for (const std::string& path : files) {
    if (Status status = read_file("--file", path, &prompts->emplace_back()); !status.ok()) return status;
  }
  for (size_t i = 0; i < prompts->size(); ++i) {
    if ((*prompts)[i].empty()) {
      return {StatusCode::invalid_argument, fmt::format("PROMPT {}: is empty, needs at least one byte", i + 1)};
    }
  }
  return {};
}

Sampling sampling_of(const Options& options, const Model& model) {
  Sampling sampling = model.sampling_defaults();
  if (options.temperature) sampling.temperature = *options.temperature;
  if (options.top_k) sampling.top_k = *options.top_k;
  if (options.top_p) sampling.top_p = *options.top_p;
  sampling.seed = options.seed;
  return sampling;
}

Status continue_prompts(const Options& options, const std::vector<std::string>& prompts, const Model& model,
                        Session& session, Writer& writer, GenerateResult* result) {
  std::vector<std::vector<int32_t>> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(model.encode(prompt));
  Progress progress("prefill", options.decoder.quiet);
  GenerateOptions wanted;
  wanted.sampling = sampling_of(options, model);
  wanted.max_tokens = options.max_tokens;
  wanted.stop = options.stop;
  wanted.ignore_end = options.ignore_end;
  wanted.on_prefill = [&](int64_t done, int64_t total) {
    progress.show(fmt::format("{} of {} tokens", done, total));
    return !interrupted();
  };
  bool begun = false;  // an interrupt before the first text leaves nothing at all
  const auto begin = [&] {
    progress.clear();
    if (!std::exchange(begun, true)) writer.begin(0);
  };
  wanted.on_text = [&](size_t index, std::string_view text) {
    if (index == 0) {
      begin();
      writer.put(text);
    }
    return writer.ok() && !interrupted();
  };
  if (Status status = generate(session, tokens, wanted, result); !status.ok()) {
    if (begun) writer.put("\n");
    return status;
  }
  if (begun || !interrupted()) {
    begin();
    writer.finish(result->completions);
  }
  return {};
}

void print_stops(const std::vector<Completion>& completions) {
  for (size_t i = 0; i < completions.size(); ++i) {
    fmt::print(stderr, "stopped  {}{} after {} tokens\n", completions.size() > 1 ? fmt::format("{}: ", i + 1) : "",
               to_string(completions[i].reason), completions[i].tokens.size());
  }
}

int run(const Options& options) {
  const auto fail = [](const Status& status) { return complain("generate", status); };
  if (const Status status = check_decoder_options(options.decoder); !status.ok()) return fail(status);
  std::vector<std::string> prompts;
  if (const Status status = read_prompts(options, &prompts); !status.ok()) return fail(status);
  OutputFile file;
  const bool to_file = !options.output.empty();
  if (to_file) {
    if (const Status status = file.open("--output", options.output); !status.ok()) return fail(status);
  }
  watch_interrupts();
  std::shared_ptr<const Model> model;
  if (const Status status = load_model(options.decoder, &model); !status.ok()) {
    return interrupted() ? end_interrupted("generate", "there is no text") : fail(status);
  }
  size_t longest = 0;
  for (const std::string& prompt : prompts) longest = std::max(longest, model->encode(prompt).size());
  const int64_t needed = static_cast<int64_t>(longest) + std::min<int64_t>(options.max_tokens, INT32_MAX);
  const int64_t context = model->info().context > 0 ? std::min(needed, model->info().context) : needed;
  std::unique_ptr<Session> session;
  const auto slots = static_cast<int32_t>(std::min<size_t>(prompts.size(), 8));
  if (const Status status = open_session(options.decoder, model, slots, context, &session); !status.ok()) {
    return fail(status);
  }
  reset_counters();
  Writer writer(prompts, options.echo, to_file ? &file : nullptr);
  GenerateResult result;
  if (const Status status = continue_prompts(options, prompts, *model, *session, writer, &result); !status.ok()) {
    return fail(status);
  }
  if (!to_file && !writer.ok()) return complain_of_output(writer.error());
  if (interrupted() && writer.ok()) {
    return end_interrupted("generate", "the text is not complete");
  }
  if (to_file) {
    if (const Status status = file.commit(); !status.ok()) return fail(status);
  }
  if (!options.decoder.quiet) {
    print_summary(*model, result.statistics);
    print_stops(result.completions);
  }
  return kDone;
}

void add_sampling_options(Command& command, Options* options) {
  command.whole("--max-tokens", &options->max_tokens, 1, INT64_MAX, "Most new tokens of a prompt");
  command.real("--temperature", &options->temperature, 0, HUGE_VAL, "0 takes the best token; default: the model's own");
  command.whole("--top-k", &options->top_k, 0, INT32_MAX, "Only the k best tokens; 0: all");
  command.real("--top-p", &options->top_p, 1e-6, 1, "Only the best tokens that hold this share of the probability");
  command.whole("--seed", &options->seed, 0, INT64_MAX, "Seed of the sampling");
  command.texts("--stop", &options->stop, "TEXT", "End before this text; may be given several times");
  command.flag("--ignore-end", &options->ignore_end, "Go on after a token that ends the text");
}

}  // namespace

void add_generate(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Command command = line.add("generate", "Continues prompts with a model",
                             "silt generate models/k3-mini \"The whale\" --echo --temperature 0.7 --max-tokens 200",
                             [options] { return run(*options); });
  add_decoder_options(command, &options->decoder);
  command.positionals("PROMPT", &options->prompts, "One or several texts; standard input where none is given");
  command.texts("--file", &options->files, "FILE", "A file whose bytes are a prompt; - is standard input");
  command.text("--output", &options->output, "FILE", "Write the text to this file instead of standard output");
  command.flag("--echo", &options->echo, "The prompt before its continuation");
  add_sampling_options(command, options.get());
}

}  // namespace silt::cli
