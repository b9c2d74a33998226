// What the cases of the KDA rooms share: indices, random pools, and the comparison of a pool after a run.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "kda/shared/bounds.hpp"
#include "proof/case_tensor.hpp"
#include "proof/random.hpp"

namespace silt::kda {

/// One slot per row: live ones unique and in random order, `padded` rows spread over the batch with every kind of
/// padding index (the null slot, negative ones, ones behind the pool).
std::vector<int32_t> case_indices(Random& random, int64_t rows, int64_t padded, int64_t null_slot, int64_t slots);

/// n + 1 offsets into `rows` rows.
std::vector<int32_t> case_offsets(Random& random, int64_t n, int64_t rows, Lengths lengths);

/// Which of `rows` rows belong to a live sequence.
std::vector<bool> live_rows(const std::vector<int32_t>& offsets, const std::vector<int32_t>& indices, int64_t rows,
                            int64_t null_slot, int64_t slots);

/// Elements by which a tensor is shifted off 16 bytes so that `align` is its alignment; 0 for 16.
int64_t case_shift(DType dtype, int64_t align);

/// Present tensors only; logical elements.
void fill_uniform(CaseTensor& tensor, Random& random, float low, float high);
/// Rows of `length` elements; rows that `live` denies keep their poison, which must never reach an output.
void fill_rows(CaseTensor& tensor, Random& random, float low, float high, int64_t length,
               FunctionRef<bool(int64_t)> live);

/// Slots of a pool: all live ones, the null slot and every second of the others are random; the rest keeps its poison.
/// `elements` are stored from the start of a slot in memory order.
void fill_pool(CaseTensor& pool, Random& random, float low, float high, int64_t slot_stride, int64_t elements,
               const std::vector<int32_t>& indices);

/// NaN in every element of a slot.
void poison_slot(CaseTensor& pool, int64_t slot, int64_t slot_stride, int64_t elements);

/// Byte ranges of a tensor's allocation: {begin, length}.
using Ranges = std::vector<std::pair<size_t, size_t>>;
/// Everything but `written` is as before, bit for bit.
Verdict expect_untouched(std::string_view name, const std::vector<std::byte>& got, const std::vector<std::byte>& before,
                         Ranges written);

/// Of a written [rows, ...] tensor, only these rows have changed since `before`: `elements` each, row_stride apart.
Verdict expect_only_rows(std::string_view name, CaseTensor& tensor, const std::vector<std::byte>& before,
                         const std::vector<int64_t>& rows, int64_t row_stride, int64_t elements);
/// The same for rows 0 to `rows`.
Verdict expect_only_rows(std::string_view name, CaseTensor& tensor, const std::vector<std::byte>& before, int64_t rows,
                         int64_t row_stride, int64_t elements);

/// Of a pool, only the slots that `indices` lists as live have changed since `before`: `elements` from their start.
Verdict expect_only_live_slots(std::string_view name, CaseTensor& pool, const std::vector<std::byte>& before,
                               const std::vector<int32_t>& indices, int64_t null_slot, int64_t slot_stride,
                               int64_t elements);

/// A head's state: fp32 rows within 1e-5 of their norm, or within the derived bound where cancellation makes that
/// larger; bf16 elements within one ulp of the rounded exact value, plus the derived bound.
Verdict expect_state(std::string_view name, DType dtype, const void* got, const std::vector<double>& want,
                     const HeadBound& bound);

/// A head's output row; `slack` as returned by HeadBound and norm_error.
Verdict expect_head(std::string_view name, DType dtype, FunctionRef<float(int64_t)> got,
                    const HeadVector<double>& exact, const HeadVector<double>& slack);

/// 128 zeros: the output of a padding row.
Verdict expect_zero_head(std::string_view name, DType dtype, const void* data, int64_t offset);

/// The history of a head equals the window, bit for bit.
template <class Act>
Verdict expect_window(std::string_view name, const HistoryView<Act>& got, const Window<Act>& want);

}  // namespace silt::kda
