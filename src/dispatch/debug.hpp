// The debug mode, SILT_DEBUG=1: before a launch, what a caller can get wrong in memory that `check` does not read. A
// call that is refused has changed nothing. Stricter than the contracts: there an index beyond the pool is padding and
// a NaN stays in its row, but both are mostly somebody's mistake.
//
// Tensors of a GPU are copied row by row, after the launch's stream has finished: this mode costs time, the other costs
// a load and a branch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "silt/choose.hpp"

#include "core/environment.hpp"
#include "core/function_ref.hpp"
#include "core/status.hpp"

namespace silt::debug {

inline bool on() { return environment().debug; }

/// The values of one call, checked in the order of the calls; the first fault is kept.
class Values {
 public:
  Values(std::string_view op, Device device, const Launch& launch);

  /// int32, any rank: nothing at or beyond `slots`, no live slot twice. Entries of the first axis are what `rows` and
  /// `slots` below go by: those with a live slot are read.
  Values& indices(std::string_view name, const ConstTensorView& view, int64_t null_slot, int64_t slots);
  /// Rows are tokens from now on: those of live sequences, by n + 1 offsets that do not decrease and stay within
  /// `rows`.
  Values& offsets(std::string_view name, const ConstTensorView& view, int64_t rows);
  /// int32 [n]: the slots of sequences with 0 are not read.
  Values& initial(const ConstTensorView& view);

  /// Every element is finite: of the whole tensor, of the rows that are read, of the slots that are read.
  Values& all(std::string_view name, const ConstTensorView& view);
  Values& rows(std::string_view name, const ConstTensorView& view);
  Values& slots(std::string_view name, const ConstTensorView& view);
  /// Rows that may hold infinities, as gates may, but no NaN.
  Values& gates(std::string_view name, const ConstTensorView& view);

  [[nodiscard]] Status status() const { return status_; }

 private:
  Values& finite(std::string_view name, const ConstTensorView& view, bool infinite_is_right,
                 FunctionRef<bool(int64_t)> read);
  /// Entry `i` of the first axis in host memory, from its first element on.
  const std::byte* row_of(const ConstTensorView& view, int64_t i);
  std::vector<int32_t> integers(const ConstTensorView& view);
  [[nodiscard]] bool row_is_read(int64_t row) const;

  std::string_view op_;
  Device device_;
  Status status_;
  std::vector<std::byte> copy_;
  std::vector<int32_t> first_slots_;  ///< of every entry of the indices, the first of its live slots; -1: none
  std::vector<bool> live_rows_;
  std::vector<bool> live_slots_;
};

}  // namespace silt::debug
