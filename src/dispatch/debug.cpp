#include "dispatch/debug.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <unordered_map>

#include "device/backend.hpp"
#include "device/memory.hpp"

namespace silt::debug {
namespace {

/// "3, 17" of an offset counted in elements of one entry of the first axis.
std::string place(const ConstTensorView& view, int64_t row, int64_t inner) {
  std::string text;
  for (int32_t axis = view.rank - 1; axis > 0; --axis) {
    text = fmt::format(", {}{}", inner % view.shape[static_cast<size_t>(axis)], text);
    inner /= view.shape[static_cast<size_t>(axis)];
  }
  return fmt::format("{}{}", row, text);
}

/// Element `inner` of an entry of the first axis, as offset into its memory.
int64_t offset_of(const ConstTensorView& view, int64_t inner) {
  int64_t offset = 0;
  for (int32_t axis = view.rank - 1; axis > 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    offset += inner % view.shape[a] * view.stride[a];
    inner /= view.shape[a];
  }
  return offset;
}

int64_t elements_of_a_row(const ConstTensorView& view) {
  return view.shape[0] == 0 ? 0 : view.elements() / view.shape[0];
}

float value_at(const std::byte* data, DType dtype, int64_t offset) {
  if (dtype == DType::bf16) {
    bf16 value;
    std::memcpy(&value, data + offset * 2, sizeof value);
    return to_float(value);
  }
  float value = 0;
  std::memcpy(&value, data + offset * 4, sizeof value);
  return value;
}

}  // namespace

Values::Values(std::string_view op, Device device, const Launch& launch)
    : op_(op), device_(device), status_(synchronize(device, launch.stream)) {}

const std::byte* Values::row_of(const ConstTensorView& view, int64_t i) {
  const auto element = static_cast<int64_t>(size_of(view.dtype));
  const auto* data = static_cast<const std::byte*>(view.data) + i * view.stride[0] * element;
  const auto* gpu = backend::backend_of(device_.kind);
  if (gpu == nullptr) return data;
  int64_t span = 1;
  for (size_t axis = 1; axis < static_cast<size_t>(view.rank); ++axis)
    span += (view.shape[axis] - 1) * view.stride[axis];
  copy_.resize(static_cast<size_t>(span * element));
  status_ = gpu->copy(device_.index, copy_.data(), data, copy_.size(), backend::Copy::to_host);
  return status_.ok() ? copy_.data() : nullptr;
}

std::vector<int32_t> Values::integers(const ConstTensorView& view) {
  std::vector<int32_t> values;
  for (int64_t row = 0; row < view.shape[0]; ++row) {
    const std::byte* data = row_of(view, row);
    for (int64_t i = 0; data != nullptr && i < elements_of_a_row(view); ++i) {
      int32_t value = 0;
      std::memcpy(&value, data + offset_of(view, i) * 4, sizeof value);
      values.push_back(value);
    }
  }
  return values;
}

Values& Values::indices(std::string_view name, const ConstTensorView& view, int64_t null_slot, int64_t slots) {
  if (!status_.ok()) return *this;
  const std::vector<int32_t> values = integers(view);
  if (!status_.ok()) return *this;
  const int64_t each = elements_of_a_row(view);
  std::unordered_map<int32_t, std::string> owners;
  first_slots_.assign(static_cast<size_t>(view.shape[0]), -1);
  live_slots_.assign(static_cast<size_t>(slots), false);
  for (size_t i = 0; i < values.size(); ++i) {
    const int32_t slot = values[i];
    const int64_t row = static_cast<int64_t>(i) / each;
    const std::string here = place(view, row, static_cast<int64_t>(i) % each);
    if (slot >= slots) {
      status_ = invalid("{}: {}[{}]: has {}, needs less than {} slots", op_, name, here, slot, slots);
      return *this;
    }
    if (slot <= null_slot) continue;
    if (const auto [at, added] = owners.try_emplace(slot, here); !added) {
      status_ = invalid("{}: {}[{}]: has {}, needs a slot of its own, this is that of [{}]", op_, name, here, slot,
                        at->second);
      return *this;
    }
    live_slots_[static_cast<size_t>(slot)] = true;
    if (first_slots_[static_cast<size_t>(row)] < 0) first_slots_[static_cast<size_t>(row)] = slot;
  }
  live_rows_.clear();
  for (const int32_t slot : first_slots_) live_rows_.push_back(slot >= 0);
  return *this;
}

Values& Values::offsets(std::string_view name, const ConstTensorView& view, int64_t rows) {
  if (!status_.ok() || !view.present()) return *this;
  const std::vector<int32_t> values = integers(view);
  if (!status_.ok()) return *this;
  int64_t least = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < least || values[i] > rows) {
      status_ = invalid("{}: {}[{}]: has {}, needs {} to {}", op_, name, i, values[i], least, rows);
      return *this;
    }
    least = values[i];
  }
  const std::vector<bool> live = std::move(live_rows_);
  live_rows_.assign(static_cast<size_t>(rows), false);
  for (size_t sequence = 0; sequence + 1 < values.size(); ++sequence) {
    for (int32_t row = values[sequence]; row < values[sequence + 1]; ++row) {
      live_rows_[static_cast<size_t>(row)] = live[sequence];
    }
  }
  return *this;
}

Values& Values::initial(const ConstTensorView& view) {
  if (!status_.ok() || !view.present()) return *this;
  const std::vector<int32_t> values = integers(view);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0 && first_slots_[i] >= 0) live_slots_[static_cast<size_t>(first_slots_[i])] = false;
  }
  return *this;
}

Values& Values::finite(std::string_view name, const ConstTensorView& view, bool infinite_is_right,
                       FunctionRef<bool(int64_t)> read) {
  if (!status_.ok() || !view.present()) return *this;
  const int64_t each = elements_of_a_row(view);
  for (int64_t row = 0; row < view.shape[0]; ++row) {
    if (each == 0 || !read(row)) continue;
    const std::byte* data = row_of(view, row);
    if (data == nullptr) return *this;
    for (int64_t i = 0; i < each; ++i) {
      const float value = value_at(data, view.dtype, offset_of(view, i));
      if (std::isfinite(value) || (infinite_is_right && !std::isnan(value))) continue;
      status_ = invalid("{}: {}[{}]: has {}, needs a {}", op_, name, place(view, row, i), value,
                        infinite_is_right ? "number" : "finite number");
      return *this;
    }
  }
  return *this;
}

bool Values::row_is_read(int64_t row) const { return live_rows_.empty() || live_rows_[static_cast<size_t>(row)]; }

Values& Values::all(std::string_view name, const ConstTensorView& view) {
  return finite(name, view, false, [](int64_t) { return true; });
}

Values& Values::rows(std::string_view name, const ConstTensorView& view) {
  return finite(name, view, false, [&](int64_t row) { return row_is_read(row); });
}

Values& Values::gates(std::string_view name, const ConstTensorView& view) {
  return finite(name, view, true, [&](int64_t row) { return row_is_read(row); });
}

Values& Values::slots(std::string_view name, const ConstTensorView& view) {
  return finite(name, view, false,
                [&](int64_t slot) { return static_cast<bool>(live_slots_[static_cast<size_t>(slot)]); });
}

}  // namespace silt::debug
