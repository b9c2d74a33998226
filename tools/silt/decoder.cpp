#include "decoder.hpp"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "silt/choose.hpp"

#include "command.hpp"
#include "progress.hpp"

namespace silt::cli {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;  ///< number of the signal

void remember_interrupt(int number) {
  interrupt_seen = number;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

std::string speed(int64_t tokens, double seconds) {
  if (tokens == 0) return "none";
  return fmt::format("{} tokens, {:.1f} tokens/s", tokens, static_cast<double>(tokens) / seconds);
}

}  // namespace

void add_decoder_options(Command& command, DecoderOptions* options) {
  constexpr int64_t kMostThreads = 4096;
  constexpr int64_t kMostSlots = 65536;
  command.positional("MODEL", &options->folder, "Folder with config.json and safetensors files");
  command.choice("--dtype", &options->dtype, {"bf16", "fp32"}, "Activations; fp32 is the exact mode");
  command.whole("--threads", &options->threads, 1, kMostThreads,
                "CPU threads; default: every core the process may use");
  command.whole("--slots", &options->slots, 1, kMostSlots, "Sequences in flight at once; default: what is needed");
  command.whole("--context", &options->context, 1, INT64_MAX, "Tokens a sequence can hold; default: what is needed");
  command.whole("--chunk", &options->chunk, 1, INT32_MAX, "Most tokens that go through the layers at once");
  command.flag("--quiet", &options->quiet, "No progress and no summary");
}

Status check_decoder_options(const DecoderOptions& options) {
  if (!options.folder.empty()) return {};
  return {StatusCode::invalid_argument, "MODEL: missing, needs a folder with config.json and safetensors files"};
}

Status load_model(const DecoderOptions& options, std::shared_ptr<const Model>* model) {
  Progress progress("loading " + options.folder, options.quiet);
  ModelOptions wanted;
  wanted.precision = options.dtype == "fp32" ? Precision::f32 : Precision::bf16;
  wanted.threads = options.threads;
  wanted.progress = [&](double fraction) {
    progress.show(fmt::format("{:.0f} %", 100 * fraction));
    return !interrupted();
  };
  return Model::load(options.folder, wanted, model);
}

Status open_session(const DecoderOptions& options, std::shared_ptr<const Model> model, int32_t slots, int64_t context,
                    std::unique_ptr<Session>* session) {
  SessionOptions wanted;
  wanted.slots = options.slots > 0 ? options.slots : slots;
  wanted.context = options.context > 0 ? options.context : context;
  wanted.prefill_chunk = options.chunk;
  wanted.threads = options.threads;
  return Session::create(std::move(model), wanted, session);
}

void watch_interrupts() {
  std::signal(SIGINT, remember_interrupt);
  std::signal(SIGTERM, remember_interrupt);
}

bool interrupted() { return interrupt_seen != 0; }

int end_interrupted(std::string_view command, std::string_view what) {
  fmt::print(stderr, "silt {}: interrupted; {}\n", command, what);
  return kInterrupted + static_cast<int>(interrupt_seen);
}

void print_summary(const Model& model, const SessionStatistics& statistics) {
  const ModelInfo& info = model.info();
  fmt::print(stderr, "model    {}: {}, {} layers, {:.1f} M values, {}\n", info.folder, info.architecture,
             info.layers.size(), static_cast<double>(info.parameters) * 1e-6,
             info.precision == Precision::bf16 ? "bf16" : "fp32 (exact mode)");
  fmt::print(stderr, "prefill  {}\ndecode   {}\n", speed(statistics.prefill_tokens, statistics.prefill_seconds),
             speed(statistics.decode_tokens, statistics.decode_seconds));
  std::string_view title = "kernels";
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.runs == 0) continue;
    fmt::print(stderr, "{:<8} {} {}: {} calls{}\n", title, kernel.op, kernel.name, kernel.runs,
               kernel.fallbacks == 0 ? std::string() : fmt::format(", {} of them fallbacks", kernel.fallbacks));
    title = "";
  }
}

}  // namespace silt::cli
