// What generate and perplexity share: options of the decoder, loading with progress, interruption, the summary.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

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

/// From the first call on, an interrupt (Ctrl-C, SIGTERM) is remembered instead of ending the process at once, so that
/// callbacks can cancel and no temporary file stays.
void watch_interrupts();
bool interrupted();

/// Speeds, kernels that ran and fallbacks, on stderr.
void print_summary(const Model& model, const SessionStatistics& statistics);

}  // namespace silt::cli
