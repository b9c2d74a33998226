// The debug mode, Launch::debug or SILT_DEBUG=1: before a launch, what a caller can get wrong in memory that `check`
// does not read. A call that is refused has changed nothing. What it is stricter in than the contracts, and why, is
// said in docs/proof.md, "Mistakes of a caller".
//
// Tensors of a GPU are copied to the host on the launch's own stream, so that they are what the kernel would find, in
// pieces of up to 16 MiB, and of what the kernel does not read nothing. Off, it costs a call that looks at two flags.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "silt/choose.hpp"

#include "core/environment.hpp"
#include "core/function_ref.hpp"
#include "core/status.hpp"

namespace silt::debug {

inline bool on(const Launch& launch) { return launch.debug || environment().debug; }

/// The values of one call, checked in the order of the calls; the first fault is kept.
class Values {
 public:
  Values(std::string_view op, Device device, const Launch& launch);

  /// int32 [N], counts of 0 to `columns`, before `indices` of that many columns: sequence i is live where column
  /// count - 1 of it is, and reads that slot; with 0 it is padding, and its columns are not looked at.
  Values& accepted(std::string_view name, const ConstTensorView& view, int64_t columns);
  /// int32 [N], or [N, columns] with `accepted`: padding is `null_slot` or -1, nothing is at or beyond `slots`, no live
  /// slot is there twice. Rows and slots below are those of live sequences.
  Values& indices(std::string_view name, const ConstTensorView& view, int64_t null_slot, int64_t slots);
  /// int32 [N], 0 or 1 where the sequence is live: with 0 its slot is not read.
  Values& initial(std::string_view name, const ConstTensorView& view);
  /// Rows are tokens from now on, by N + 1 offsets that do not decrease and stay within `rows`. The slot of a sequence
  /// without tokens is not read.
  Values& offsets(std::string_view name, const ConstTensorView& view, int64_t rows);

  /// Every element is finite: of the whole tensor, of the rows that are read, of the slots that are read.
  Values& all(std::string_view name, const ConstTensorView& view);
  Values& rows(std::string_view name, const ConstTensorView& view);
  Values& slots(std::string_view name, const ConstTensorView& view);
  /// Rows of the decay's gate, which may hold infinities but no NaN.
  Values& gates(std::string_view name, const ConstTensorView& view);

  [[nodiscard]] Status status() const { return status_; }

 private:
  /// An axis of a tensor, and which of the view's it is.
  struct Axis {
    int64_t n = 1;
    int64_t stride = 0;
    int32_t of = 0;
  };
  /// A walk over a tensor: its axes by falling stride, where it stands, and what it wants there.
  struct Walk {
    std::string_view name;
    const ConstTensorView& view;
    bool infinite_is_right;
    FunctionRef<bool(int64_t)> read;  ///< whether an entry of the view's first axis is looked at
    std::vector<Axis> axes{};
    std::array<int64_t, kMaxRank> at{};  ///< by axis of the view
  };
  /// Entries of an axis in host memory, `step` bytes apart.
  struct Entries {
    const std::byte* data = nullptr;
    int64_t step = 0;
  };

  Values& finite(std::string_view name, const ConstTensorView& view, bool infinite_is_right,
                 FunctionRef<bool(int64_t)> read);
  /// The entries of axis `axis`, at `data` on the device, piece by piece. False where a fault was found.
  bool pieces(Walk& walk, size_t axis, const std::byte* data);
  /// The elements of axis `axis` and those behind it, at `data` on the host.
  bool elements(Walk& walk, size_t axis, const std::byte* data);
  bool line(Walk& walk, const Axis& axis, const std::byte* data);
  bool bring(const std::byte* data, int64_t bytes, int64_t step, int64_t count, Entries* entries);
  std::vector<int32_t> integers(const ConstTensorView& view);
  [[nodiscard]] bool row_is_read(int64_t row) const {
    return live_rows_.empty() || live_rows_[static_cast<size_t>(row)];
  }

  std::string_view op_;
  Device device_;
  void* stream_;
  Status status_;
  std::vector<std::byte> copy_;
  std::vector<int32_t> accepted_;
  std::vector<int32_t> slots_read_;  ///< of every sequence; -1: none
  std::vector<bool> live_rows_;      ///< empty: all are read
};

}  // namespace silt::debug
