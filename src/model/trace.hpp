// Intermediate tensors to whoever asked for them; costs one branch where nobody did.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "silt/model.hpp"
#include "silt/tensor.hpp"

namespace silt {

class Trace {
 public:
  explicit Trace(std::function<void(const TraceTensor&)> sink) : sink_(std::move(sink)) {}
  [[nodiscard]] bool on() const { return static_cast<bool>(sink_); }
  void begin_layer(int64_t index);
  void end_layers() { prefix_.clear(); }
  /// bf16, fp32 or int32, any strides.
  void emit(std::string_view name, const ConstTensorView& view) const;

 private:
  std::function<void(const TraceTensor&)> sink_;
  std::string prefix_;
};

}  // namespace silt
