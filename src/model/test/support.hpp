// What the decoder's tests share.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "silt/choose.hpp"
#include "silt/device.hpp"
#include "silt/model.hpp"

#include "model/safetensors.hpp"
#include "proof/compare.hpp"

namespace silt {

inline std::string k3_mini() { return SILT_SOURCE_DIR "/models/k3-mini"; }

inline std::shared_ptr<const Model> load(const std::string& folder, Precision precision) {
  std::shared_ptr<const Model> model;
  const Status status = Model::load(folder, {.precision = precision}, &model);
  EXPECT_TRUE(status.ok()) << status.message();
  return model;
}

/// k3-mini, loaded once per precision.
inline std::shared_ptr<const Model> shared_k3_mini(Precision precision) {
  static std::map<Precision, std::shared_ptr<const Model>> models;
  auto& model = models[precision];
  if (!model) model = load(k3_mini(), precision);
  return model;
}

inline std::unique_ptr<Session> open_session(std::shared_ptr<const Model> model, const SessionOptions& options = {}) {
  std::unique_ptr<Session> session;
  const Status status = Session::create(std::move(model), options, &session);
  EXPECT_TRUE(status.ok()) << status.message();
  return session;
}

/// A file of golden tensors as fp32 (integers too: all of them are small).
class Goldens {
 public:
  explicit Goldens(const std::string& name) {
    const Status status = open_safetensors(k3_mini() + "/goldens/" + name + ".safetensors", name, &file_, &tensors_);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  [[nodiscard]] bool has(const std::string& name) const { return tensors_.find(name) != tensors_.end(); }
  [[nodiscard]] std::vector<float> floats(const std::string& name) const {
    const std::vector<int32_t> raw = ints(name);
    std::vector<float> values(raw.size());
    if (tensors_.at(name).dtype == "F32") {
      std::memcpy(values.data(), raw.data(), raw.size() * 4);
    } else {
      std::copy(raw.begin(), raw.end(), values.begin());
    }
    return values;
  }
  [[nodiscard]] std::vector<int32_t> ints(const std::string& name) const {
    const StoredTensor& tensor = tensors_.at(name);
    std::vector<int32_t> values(tensor.bytes / 4);
    const Status status = tensor.read(0, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  [[nodiscard]] const TensorTable& tensors() const { return tensors_; }

 private:
  std::unique_ptr<InputFile> file_;
  TensorTable tensors_;
};

/// All logits of `tokens` as one step of a fresh sequence.
inline std::vector<float> logits_of(Session& session, const std::vector<int32_t>& tokens) {
  int32_t slot = -1;
  EXPECT_TRUE(session.open(&slot).ok());
  const StepInput input{slot, tokens, LogitsOf::all};
  std::vector<StepLogits> logits;
  const Status status = session.step(std::span(&input, 1), &logits);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(session.release(slot).ok());
  if (!status.ok()) return {};
  return {logits[0].values.begin(), logits[0].values.end()};
}

inline size_t best_of(std::span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

struct Difference {
  double worst = 0;  ///< NaN where a NaN was met
  double rms = 0;
  double largest = 0;  ///< magnitude of what is compared with
};
template <class A, class B>
Difference difference(const A& got, const B& want) {
  Difference result;
  if (got.size() != want.size() || got.size() == 0) return {NAN, NAN, NAN};
  double squares = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (!(error <= result.worst)) result.worst = error;
    if (std::isnan(error)) result.worst = NAN;
    squares += error * error;
    result.largest = std::max(result.largest, std::abs(static_cast<double>(want[i])));
  }
  result.rms = std::sqrt(squares / static_cast<double>(got.size()));
  return result;
}

/// What another order of fp32 sums may move logits: every layer adds the error of sums over its widest row, relative to
/// values of the logits' size.
inline double exact_bound(int64_t layers, int64_t widest, double largest_logit) {
  return static_cast<double>(layers) * sum_error(widest) * std::max(1.0, largest_logit);
}
/// What bf16 activations may move logits, as root mean square: about twelve independent roundings of 2^-9 per layer,
/// four deviations.
inline double bf16_rms_bound(int64_t layers, double logit_rms) {
  return 4 * std::sqrt(12.0 * static_cast<double>(layers)) * 0x1p-9 * logit_rms;
}
inline double rms_of(std::span<const double> values) {
  double squares = 0;
  for (const double v : values) squares += v * v;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

/// Names of the kernels that ran since the object was made, "operator/kernel".
class KernelsRun {
 public:
  KernelsRun() {
    for (const KernelInfo& info : kernels()) before_.push_back(info.runs);
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> ran;
    const std::vector<KernelInfo> now = kernels();
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i].runs > before_[i]) ran.insert(std::string(now[i].op) + "/" + std::string(now[i].name));
    }
    return ran;
  }
  [[nodiscard]] uint64_t runs(std::string_view op) const {
    uint64_t sum = 0;
    const std::vector<KernelInfo> now = kernels();
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i].op == op) sum += now[i].runs - before_[i];
    }
    return sum;
  }

 private:
  std::vector<uint64_t> before_;
};

}  // namespace silt
