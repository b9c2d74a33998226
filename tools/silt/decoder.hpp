// What generate and perplexity share: options of the decoder, loading with progress, interruption, the summary.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "silt/model.hpp"

#include "command_line.hpp"

namespace silt::cli {

struct DecoderOptions {
  std::string folder;
  std::string dtype = "bf16";
  int32_t threads = 0;
  int32_t slots = 0;    ///< 0: what the command needs
  int64_t context = 0;  ///< 0: what the command needs
  int64_t chunk = SessionOptions().prefill_chunk;
  bool quiet = false;
};

void add_decoder_options(Command& command, DecoderOptions* options);

/// What can be said before anything is read.
Status check_decoder_options(const DecoderOptions& options);
Status load_model(const DecoderOptions& options, std::shared_ptr<const Model>* model);
Status open_session(const DecoderOptions& options, std::shared_ptr<const Model> model, int32_t slots, int64_t context,
                    std::unique_ptr<Session>* session);

/// From now on the first interrupt (Ctrl-C, SIGTERM) is remembered instead of ending the process, so that callbacks can
/// cancel, text ends with its line and no temporary file stays. A second one ends the process at once.
void watch_interrupts();
bool interrupted();
/// Says what the interrupt left; the exit code that says which one it was.
int end_interrupted(std::string_view command, std::string_view what);

/// Speeds, kernels that ran and fallbacks, on stderr.
void print_summary(const Model& model, const SessionStatistics& statistics);

}  // namespace silt::cli
