#include "dispatch/debug.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <unordered_map>

#include "device/backend.hpp"
#include "device/facts.hpp"

namespace silt::debug {
namespace {

constexpr int64_t kPieceBytes = int64_t{16} << 20;
/// The distance of rows that a copy of two dimensions takes on every device.
constexpr int64_t kMostStep = std::numeric_limits<int32_t>::max();

/// "3, 17"
std::string place(std::span<const int64_t> index) {
  std::string text;
  for (const int64_t i : index) text += (text.empty() ? "" : ", ") + std::to_string(i);
  return text;
}

float value_at(const std::byte* data, DType dtype) {
  if (dtype == DType::bf16) {
    bf16 value;
    std::memcpy(&value, data, sizeof value);
    return to_float(value);
  }
  float value = 0;
  std::memcpy(&value, data, sizeof value);
  return value;
}

/// Whether no element of a line is a NaN, or an infinity where that is wrong: of its bits without the sign, those of
/// infinity and above.
template <class Bits>
bool is_right(const std::byte* data, int64_t n, int64_t stride, Bits infinity, bool infinite_is_right) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const Bits most = infinite_is_right ? infinity : static_cast<Bits>(infinity - 1);
  bool right = true;
  for (int64_t i = 0; i < n; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, data + i * stride * static_cast<int64_t>(sizeof bits), sizeof bits);
    right &= static_cast<Bits>(bits & static_cast<Bits>(~kSign)) <= most;
  }
  return right;
}

bool is_right(const std::byte* data, DType dtype, int64_t n, int64_t stride, bool infinite_is_right) {
  if (dtype == DType::bf16) return is_right<uint16_t>(data, n, stride, 0x7f80, infinite_is_right);
  return is_right<uint32_t>(data, n, stride, 0x7f800000, infinite_is_right);
}

}  // namespace

Values::Values(std::string_view op, Device device, const Launch& launch)
    : op_(op), device_(device), stream_(launch.stream) {
  const DeviceFacts* facts = nullptr;
  status_ = facts_of(device, &facts);
  const auto* gpu = backend::backend_of(device.kind);
  if (gpu == nullptr || !status_.ok()) return;
  bool captured = false;
  status_ = gpu->is_captured(device.index, stream_, &captured);
  if (captured) {
    status_ = invalid(
        "{}: stream: is being captured, needs one that is not with SILT_DEBUG=1 or Launch::debug: memory cannot be "
        "read there, and a replay would go unchecked",
        op_);
  }
}

bool Values::bring(const std::byte* data, int64_t bytes, int64_t step, int64_t count, Entries* entries) {
  *entries = {data, step};
  const auto* gpu = backend::backend_of(device_.kind);
  if (gpu == nullptr) return true;
  copy_.resize(static_cast<size_t>(bytes * count));
  *entries = {copy_.data(), bytes};
  const backend::Rows rows{static_cast<size_t>(bytes), static_cast<size_t>(count), static_cast<size_t>(step)};
  status_ = gpu->read(device_.index, stream_, copy_.data(), data, rows);
  return status_.ok();
}

/// Of a contiguous tensor.
std::vector<int32_t> Values::integers(const ConstTensorView& view) {
  const int64_t bytes = view.elements() * 4;
  std::vector<int32_t> values(static_cast<size_t>(view.elements()));
  Entries entries;
  if (!values.empty() && bring(static_cast<const std::byte*>(view.data), bytes, bytes, 1, &entries)) {
    std::memcpy(values.data(), entries.data, static_cast<size_t>(bytes));
  }
  return values;
}

Values& Values::accepted(std::string_view name, const ConstTensorView& view, int64_t columns) {
  if (!status_.ok() || !view.present()) return *this;
  accepted_ = integers(view);
  for (size_t i = 0; status_.ok() && i < accepted_.size(); ++i) {
    if (accepted_[i] >= 0 && accepted_[i] <= columns) continue;
    status_ = invalid("{}: {}[{}]: has {}, needs 0..{}", op_, name, i, accepted_[i], columns);
  }
  return *this;
}

Values& Values::indices(std::string_view name, const ConstTensorView& view, int64_t null_slot, int64_t slots) {
  if (!status_.ok()) return *this;
  const std::vector<int32_t> values = integers(view);
  const auto columns = static_cast<size_t>(view.rank == 2 ? view.shape[1] : 1);
  const auto here = [&](size_t i) {
    const std::array<int64_t, 2> at{static_cast<int64_t>(i / columns), static_cast<int64_t>(i % columns)};
    return place(std::span(at).first(static_cast<size_t>(view.rank)));
  };
  std::unordered_map<int32_t, size_t> owners;
  slots_read_.assign(static_cast<size_t>(view.shape[0]), -1);
  for (size_t i = 0; status_.ok() && i < values.size(); ++i) {
    const size_t sequence = i / columns;
    const int32_t count = accepted_.empty() ? 1 : accepted_[sequence];
    if (count == 0) continue;
    const int32_t slot = values[i];
    if (slot < -1 || slot >= slots) {
      status_ = invalid("{}: {}[{}]: has {}, needs -1..{}", op_, name, here(i), slot, slots - 1);
      return *this;
    }
    const int32_t read = values[sequence * columns + static_cast<size_t>(count) - 1];
    if (slot <= null_slot || read <= null_slot) continue;
    if (const auto [at, added] = owners.try_emplace(slot, i); !added) {
      status_ = invalid("{}: {}[{}]: has {}, needs a slot of its own, this is that of [{}]", op_, name, here(i), slot,
                        here(at->second));
      return *this;
    }
    slots_read_[sequence] = read;
  }
  live_rows_.clear();
  for (const int32_t slot : slots_read_) live_rows_.push_back(slot >= 0);
  return *this;
}

Values& Values::initial(std::string_view name, const ConstTensorView& view) {
  if (!status_.ok() || !view.present()) return *this;
  const std::vector<int32_t> values = integers(view);
  for (size_t i = 0; status_.ok() && i < values.size(); ++i) {
    if (slots_read_[i] < 0 || values[i] == 1) continue;
    slots_read_[i] = -1;
    if (values[i] != 0) status_ = invalid("{}: {}[{}]: has {}, needs 0 or 1", op_, name, i, values[i]);
  }
  return *this;
}

Values& Values::offsets(std::string_view name, const ConstTensorView& view, int64_t rows) {
  if (!status_.ok() || !view.present()) return *this;
  const std::vector<int32_t> values = integers(view);
  int64_t least = 0;
  for (size_t i = 0; status_.ok() && i < values.size(); ++i) {
    if (values[i] < least || values[i] > rows) {
      status_ = invalid("{}: {}: entry {}: has {}, needs {}..{} (the entry before it, the rows of memory)", op_, name,
                        i, values[i], least, rows);
    }
    least = values[i];
  }
  if (!status_.ok()) return *this;
  const std::vector<bool> live = std::move(live_rows_);
  live_rows_.assign(static_cast<size_t>(rows), false);
  for (size_t sequence = 0; sequence + 1 < values.size(); ++sequence) {
    if (values[sequence] == values[sequence + 1]) slots_read_[sequence] = -1;
    for (int32_t row = values[sequence]; row < values[sequence + 1]; ++row) {
      live_rows_[static_cast<size_t>(row)] = live[sequence];
    }
  }
  return *this;
}

Values& Values::finite(std::string_view name, const ConstTensorView& view, bool infinite_is_right,
                       FunctionRef<bool(int64_t)> read) {
  if (!status_.ok() || view.elements() == 0) return *this;
  Walk walk{name, view, infinite_is_right, read};
  for (size_t axis = 0; axis < static_cast<size_t>(view.rank); ++axis) {
    const int64_t n = view.shape[axis];
    const Axis next{n, n == 1 ? 0 : view.stride[axis], static_cast<int32_t>(axis)};
    const auto closer = [&](const Axis& other) { return other.stride < next.stride; };
    walk.axes.insert(std::find_if(walk.axes.begin(), walk.axes.end(), closer), next);
  }
  pieces(walk, 0, static_cast<const std::byte*>(view.data));
  return *this;
}

bool Values::pieces(Walk& walk, size_t axis, const std::byte* data) {
  const auto element = static_cast<int64_t>(size_of(walk.view.dtype));
  const size_t rank = walk.axes.size();
  const Axis& a = walk.axes[axis];
  int64_t span = 1;  // of an entry
  for (size_t inner = axis + 1; inner < rank; ++inner) span += (walk.axes[inner].n - 1) * walk.axes[inner].stride;
  const int64_t bytes = span * element;
  const int64_t step = a.stride * element;
  int64_t& i = walk.at[static_cast<size_t>(a.of)];
  const auto is_read = [&](int64_t entry) { return a.of != 0 || walk.read(entry); };
  // Entries that overlap, or are too far apart, come one by one.
  const int64_t most = step < bytes || step > kMostStep ? 1 : std::max<int64_t>(1, kPieceBytes / bytes);
  for (i = 0; i < a.n;) {
    if (!is_read(i)) {
      ++i;
      continue;
    }
    if (bytes > kPieceBytes && axis + 1 < rank) {
      if (!pieces(walk, axis + 1, data + i * step)) return false;
      ++i;
      continue;
    }
    int64_t count = 1;
    while (count < most && i + count < a.n && is_read(i + count)) ++count;
    Entries entries;
    if (!bring(data + i * step, bytes, step, count, &entries)) return false;
    for (const int64_t end = i + count; i < end; ++i, entries.data += entries.step) {
      if (axis + 1 < rank ? !elements(walk, axis + 1, entries.data) : !line(walk, {1, 0, a.of}, entries.data)) {
        return false;
      }
    }
  }
  return true;
}

bool Values::elements(Walk& walk, size_t axis, const std::byte* data) {
  const Axis& a = walk.axes[axis];
  if (axis + 1 == walk.axes.size()) return line(walk, a, data);
  int64_t& i = walk.at[static_cast<size_t>(a.of)];
  for (i = 0; i < a.n; ++i) {
    if (a.of == 0 && !walk.read(i)) continue;
    if (!elements(walk, axis + 1, data + i * a.stride * static_cast<int64_t>(size_of(walk.view.dtype)))) return false;
  }
  return true;
}

bool Values::line(Walk& walk, const Axis& axis, const std::byte* data) {
  const ConstTensorView& view = walk.view;
  if (is_right(data, view.dtype, axis.n, axis.stride, walk.infinite_is_right)) return true;
  int64_t& i = walk.at[static_cast<size_t>(axis.of)];
  const int64_t first = axis.n == 1 ? i : 0;
  for (i = first; i < first + axis.n; ++i) {
    if (axis.of == 0 && !walk.read(i)) continue;
    const auto* at = data + (i - first) * axis.stride * static_cast<int64_t>(size_of(view.dtype));
    if (is_right(at, view.dtype, 1, 0, walk.infinite_is_right)) continue;
    status_ = invalid("{}: {}[{}]: has {}, needs a {}", op_, walk.name,
                      place(std::span(walk.at).first(static_cast<size_t>(view.rank))), value_at(at, view.dtype),
                      walk.infinite_is_right ? "number" : "finite number");
    return false;
  }
  return true;
}

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
  if (!status_.ok()) return *this;
  std::vector<bool> read(static_cast<size_t>(view.shape[0]), false);
  for (const int32_t slot : slots_read_) {
    if (slot >= 0) read[static_cast<size_t>(slot)] = true;
  }
  return finite(name, view, false, [&](int64_t slot) { return static_cast<bool>(read[static_cast<size_t>(slot)]); });
}

}  // namespace silt::debug
