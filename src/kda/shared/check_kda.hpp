// Checks that the KDA operators share. Texts as everywhere: "<op>: <name>: has X, needs Y".
#pragma once

#include <initializer_list>

#include "core/check_view.hpp"
#include "kda/shared/layout.hpp"

namespace silt::kda {

/// The views of a list may be absent, except where a function says so.
using Views = std::initializer_list<NamedView>;

/// Present, dtype and shape as given, all axes but the first contiguous; any step >= 0 between rows.
Status check_rows(const NamedView& tensor, std::initializer_list<DType> dtypes, std::initializer_list<int64_t> shape);
/// The same, and rows share no memory: for tensors that are written.
Status check_written_rows(const NamedView& tensor, std::initializer_list<DType> dtypes,
                          std::initializer_list<int64_t> shape);
/// Contiguous fp32 or int32.
Status check_dense(const NamedView& tensor, DType dtype, std::initializer_list<int64_t> shape);

Status check_conv_state(const NamedView& tensor, DType dtype, int64_t slots, int64_t channels, History* layout);
Status check_state(const NamedView& tensor, int64_t slots, int64_t heads);

Status check_gate_rule(std::string_view op, bool safe, float lower_bound);
Status check_null_slot(std::string_view op, int32_t null_slot);
/// Output gate and norm weight are given together; `given` says whether.
Status check_output_norm(const NamedView& gate, const NamedView& weight, DType dtype,
                         std::initializer_list<int64_t> gate_shape, bool* given);

/// Every present view is where the first one is.
Status check_one_device(const NamedView& first, Views others);
/// No written view shares memory with another written one or with a read one.
Status check_written_alone(Views written, Views read);

/// A pool of slots as rows of one block each, whatever the order inside: for overlap and alignment.
ConstTensorView slots_as_rows(const ConstTensorView& pool);
/// The least alignment_of the present views, at most 16.
int64_t common_alignment(std::initializer_list<ConstTensorView> views);

}  // namespace silt::kda
