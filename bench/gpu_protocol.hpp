// What silt-bench asks of CUDA: timed graphs, fills, and the kernels that are ceilings. bench/cuda/ implements it where
// CUDA is built; gpu_none.cpp says why it is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "silt/choose.hpp"
#include "silt/status.hpp"

#include "core/function_ref.hpp"

namespace silt::bench::gpu {

/// Driver and toolkit, for the context of the results.
struct Versions {
  std::string driver;
  std::string toolkit;
};
Versions versions();
Status free_memory(Device device, int64_t* bytes);
/// Uniform random numbers in [low, high), on the device's default stream; returns when they are there.
Status fill_uniform(Device device, void* data, DType dtype, int64_t count, float low, float high, uint64_t seed);

/// Launch i of a series, asynchronous on `stream`.
using LaunchSeries = FunctionRef<Status(int64_t i, void* stream)>;

/// `launches` launches, captured into one graph or issued one by one, and timed by events around the whole.
class Series {
 public:
  /// Captures, instantiates and replays once. The launches' arguments are baked in: they must outlive the series.
  static Status capture(Device device, int64_t launches, LaunchSeries launch, std::unique_ptr<Series>* series);
  virtual ~Series() = default;
  /// One replay; microseconds per launch.
  virtual Status sample(double* us) = 0;

 protected:
  Series() = default;
};
/// The eager form of the same: all launches issued from the host between two events.
Status sample_eager(Device device, int64_t launches, LaunchSeries launch, double* us);

// Ceilings. With Pdl::wait or Pdl::late they wait and trigger as the operators do.

/// An empty kernel of `ctas` blocks of 128 threads.
Status launch_empty(int ctas, Device device, const Launch& launch);
Status launch_copy(void* target, const void* source, size_t bytes, Device device, const Launch& launch);
Status launch_read(const void* source, size_t bytes, Device device, const Launch& launch);

/// The bytes of attn_res: every row of a token read, the prefix and the output row (and a bank slot) written.
struct RowMover {
  void* prefix = nullptr;
  const void* delta = nullptr;  ///< null where absent
  const void* bank = nullptr;
  char* slot = nullptr;  ///< of token 0, where a bank slot is written; its tokens are bank_token_stride apart
  void* output = nullptr;
  int64_t prefix_stride = 0;  ///< strides in bytes
  int64_t delta_stride = 0;
  int64_t bank_token_stride = 0;
  int64_t bank_slot_stride = 0;
  int64_t output_stride = 0;
  int64_t tokens = 0;
  int64_t row_bytes = 0;  ///< a multiple of 16
  int rows = 0;           ///< bank rows read, 0..kMaxMoverRows
};
constexpr int kMaxMoverRows = 8;
constexpr int kRowMovers = 4;
std::string row_mover_name(int variant);
/// Pdl::late loads the bank rows before the dependency wait.
Status launch_row_mover(const RowMover& mover, int variant, Device device, const Launch& launch);

/// The bytes of a sweep over the bank: every row of a token read, a row of every query written.
struct SweepMover {
  const void* bank = nullptr;
  void* mix = nullptr;
  int64_t bank_token_stride = 0;  ///< strides in bytes
  int64_t bank_slot_stride = 0;
  int64_t mix_query_stride = 0;
  int64_t mix_token_stride = 0;
  int64_t tokens = 0;
  int64_t row_bytes = 0;  ///< of the bank, a multiple of 16
  int rows = 0;           ///< 1..kMaxMoverRows
  int queries = 0;
  int widths = 1;  ///< bytes of a mix row / row_bytes
};
constexpr int kSweepMovers = 4;
std::string sweep_mover_name(int variant);
/// Pdl::late loads the bank rows before the dependency wait.
Status launch_sweep_mover(const SweepMover& mover, int variant, Device device, const Launch& launch);

/// The bytes of a recurrent state: the slots of `indices` loaded and stored in place. Loads before the dependency wait.
struct SlotMover {
  void* state = nullptr;
  const int32_t* indices = nullptr;
  int64_t slot_stride = 0;   ///< bytes
  int64_t slot_payload = 0;  ///< bytes moved per slot, a multiple of slot_mover_piece
  int64_t rows = 0;
};
constexpr int kSlotMovers = 6;
std::string slot_mover_name(int variant);
/// Bytes that one block of this variant moves.
int64_t slot_mover_piece(int variant);
Status launch_slot_mover(const SlotMover& mover, int variant, Device device, const Launch& launch);

}  // namespace silt::bench::gpu
