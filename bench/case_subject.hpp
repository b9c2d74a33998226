// A subject made of a room's cases alone: every set is a case of its own with its mirror on the device. For operators
// of moderate size; attn_res and kda_decode, whose sets are large and many, lay out their own memory.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/subject.hpp"
#include "core/status.hpp"
#include "device/memory.hpp"

namespace silt::bench {

namespace detail {
// Outside the class, whose own names would hide the room's functions.
template <class Problem>
int64_t bytes_of(const Problem& problem) {
  return bytes(problem);
}
template <class Problem>
int64_t flops_of(const Problem& problem) {
  return flops(problem);
}
}  // namespace detail

/// `Traits` says Problem, Case, the call, how often a decoder makes it per step, and the largest problem of the same
/// kind that the oracle compares in reasonable time:
///   static Status call(const Case&, const Launch&);
///   static constexpr int64_t kCallsPerStep;
///   static Problem comparable(Problem);
///   static Status scalar(const Problem&, const Case&, const Launch&);  // the scalar build of the plain kernel
template <class Traits>
class CaseSubject : public Subject {
 public:
  using Problem = typename Traits::Problem;
  using Case = typename Traits::Case;

  explicit CaseSubject(const Problem& problem) : problem_(problem) {}

  [[nodiscard]] std::string line() const override { return problem_.line(); }
  [[nodiscard]] int64_t bytes() const override { return detail::bytes_of(problem_); }
  [[nodiscard]] int64_t flops() const override { return detail::flops_of(problem_); }
  [[nodiscard]] int64_t calls_per_step() const override { return Traits::kCallsPerStep; }
  /// What is updated in place counts twice in the bytes.
  [[nodiscard]] int64_t live_bytes() const override { return std::max<int64_t>(1, bytes() / 2); }
  /// A case keeps its values, what they were before, and the mirror; every tensor is an allocation of its own, of which
  /// a process can have some ten thousand.
  [[nodiscard]] int64_t set_bytes() const override {
    constexpr int64_t kLeast = int64_t{1} << 20;
    return std::max(kLeast, 4 * detail::bytes_of(problem_));
  }

  Status make_sets(Device device, int64_t count) override {
    sets_.clear();
    const Case first(problem_, 1);
    for (int64_t set = 0; set < count; ++set) {
      sets_.push_back(std::make_unique<Case>(first));
      SILT_TRY(sets_.back()->upload(device));
    }
    device_ = device;
    return {};
  }

  Status launch(std::string_view kernel, int64_t set, const Launch& launch) override {
    return call(kernel, problem_, *sets_.at(static_cast<size_t>(set)), launch);
  }

  Status verify(std::string_view kernel, const Launch& launch, Verified* verified) override {
    const Problem compared = Traits::comparable(problem_);
    Case c(compared, 2);
    SILT_TRY(c.upload(device_));
    SILT_TRY(call(kernel, compared, c, launch));
    SILT_TRY(synchronize(device_, launch.stream));
    SILT_TRY(c.download());
    verified->verdict = c.verify();
    verified->what = compared.line() == problem_.line() ? "all rows" : "a smaller case: " + compared.line();
    return {};
  }

  [[nodiscard]] std::vector<Mover> movers(DeviceKind) override { return {}; }

  static Status make(const ProblemLine& line, std::unique_ptr<Subject>* subject) {
    Problem problem;
    SILT_TRY(Problem::parse(line, &problem));
    if (detail::bytes_of(problem) < 1) return invalid("{}: has nothing to measure", problem.line());
    *subject = std::make_unique<CaseSubject>(problem);
    return {};
  }

  /// The operator's entry among the rooms.
  static Room room(std::string_view op) { return {op, {{kScalarRows, DeviceKind::cpu, nullptr, true}}, make}; }

 private:
  static Status call(std::string_view kernel, const Problem& problem, const Case& c, const Launch& launch) {
    if (kernel == kScalarRows) return Traits::scalar(problem, c, launch);
    Launch named = launch;
    named.policy = Policy::require(kernel);
    return Traits::call(c, named);
  }

  Problem problem_;
  Device device_{};
  std::vector<std::unique_ptr<Case>> sets_;
};

}  // namespace silt::bench
