#include "kda/shared/check_kda.hpp"

#include <algorithm>

#include "core/status.hpp"
#include "kda/shared/sequences.hpp"

namespace silt::kda {

Status check_rows(const NamedView& tensor, std::initializer_list<DType> dtypes, std::initializer_list<int64_t> shape) {
  SILT_TRY(check_tensor(tensor, dtypes, shape));
  return check_contiguous_from(tensor, 1);
}

Status check_written_rows(const NamedView& tensor, std::initializer_list<DType> dtypes,
                          std::initializer_list<int64_t> shape) {
  SILT_TRY(check_rows(tensor, dtypes, shape));
  int64_t row = 1;
  for (int axis = 1; axis < tensor.view.rank; ++axis) row *= tensor.view.shape[static_cast<size_t>(axis)];
  return check_stride_at_least(tensor, 0, row);
}

Status check_dense(const NamedView& tensor, DType dtype, std::initializer_list<int64_t> shape) {
  SILT_TRY(check_tensor(tensor, {dtype}, shape));
  return check_contiguous_from(tensor, 0);
}

Status check_conv_state(const NamedView& tensor, DType dtype, int64_t slots, int64_t channels, History* layout) {
  SILT_TRY(check_tensor(tensor, {dtype}, {slots, channels, kHistory}));
  const int64_t channel = tensor.view.stride[1];
  const int64_t step = tensor.view.stride[2];
  if (channel == 1 && step == channels) {
    *layout = History::sd;
  } else if (channel == kHistory && step == 1) {
    *layout = History::ds;
  } else {
    return invalid("{}: {}: inner strides: has [{}, {}], needs [1, {}] (SD) or [{}, 1] (DS)", tensor.op, tensor.name,
                   channel, step, channels, kHistory);
  }
  return check_stride_at_least(tensor, 0, channels * kHistory);
}

Status check_state(const NamedView& tensor, int64_t slots, int64_t heads) {
  return check_written_rows(tensor, {DType::f32, DType::bf16}, {slots, heads, kDim, kDim});
}

Status check_gate_rule(std::string_view op, bool safe, float lower_bound) {
  if (!safe || (lower_bound >= -5.0F && lower_bound < 0.0F)) return {};
  return invalid("{}: lower_bound: has {}, needs [-5, 0)", op, lower_bound);
}

Status check_null_slot(std::string_view op, int32_t null_slot) {
  if (null_slot == 0 || null_slot == -1) return {};
  return invalid("{}: null_slot: has {}, needs 0 or -1", op, null_slot);
}

Status check_output_norm(const NamedView& gate, const NamedView& weight, DType dtype,
                         std::initializer_list<int64_t> gate_shape, bool* given) {
  *given = gate.view.present() || weight.view.present();
  if (!*given) return {};
  SILT_TRY(check_rows(gate, {dtype}, gate_shape));
  return check_dense(weight, DType::f32, {kDim});
}

Status check_offsets(const NamedView& offsets, int64_t n, int64_t rows) {
  SILT_TRY(check_dense(offsets, DType::i32, {n + 1}));
  if (offsets.view.device.kind != DeviceKind::cpu) return {};
  const auto* at = static_cast<const int32_t*>(offsets.view.data);
  int32_t least = 0;
  for (int64_t i = 0; i <= n; ++i) {
    if (at[i] < least || at[i] > rows) {
      return invalid("{}: {}: entry {}: has {}, needs {}..{} (the entry before it, the rows of memory)", offsets.op,
                     offsets.name, i, at[i], least, rows);
    }
    least = at[i];
  }
  return {};
}

Status check_one_device(const NamedView& first, Views others) {
  for (const NamedView& other : others) SILT_TRY(check_same_device(first, other));
  return {};
}

Status check_written_alone(Views written, Views read) {
  for (const NamedView* w = written.begin(); w != written.end(); ++w) {
    for (const NamedView* other = w + 1; other != written.end(); ++other) SILT_TRY(check_disjoint(*w, *other));
    for (const NamedView& other : read) SILT_TRY(check_disjoint(*w, other));
  }
  return {};
}

ConstTensorView slots_as_rows(const ConstTensorView& pool) {
  ConstTensorView rows = pool;
  rows.rank = 2;
  rows.shape = {pool.shape[0], pool.shape[0] == 0 ? 0 : pool.elements() / pool.shape[0]};
  rows.stride = {pool.stride[0], 1};
  return rows;
}

int64_t common_alignment(std::initializer_list<ConstTensorView> views) {
  int64_t align = 16;
  for (const ConstTensorView& view : views) align = std::min(align, alignment_of(view, 16));
  return align;
}

}  // namespace silt::kda
