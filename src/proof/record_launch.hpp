// A case's launch as a LaunchDump, and a replay's results back into the case.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "silt/dump_launch.hpp"

#include "core/problem_line.hpp"
#include "core/status.hpp"
#include "device/hip_recording.hpp"
#include "dispatch/choose.hpp"
#include "proof/case_tensor.hpp"

namespace silt {

/// A tensor of a case by the name of its argument.
struct NamedTensor {
  const char* name;
  CaseTensor* tensor;
  bool written = false;
};

using WrittenBuffers = std::vector<std::pair<std::string, std::vector<std::byte>>>;

/// The launch of one upload: its words, and where the tensors stood.
struct CaseLaunch {
  std::string_view kernel;
  hip::RecordedLaunch launch;
  std::vector<NamedTensor> tensors;
};

/// Everything but the expected bytes. Two uploads of the same case tell pointers from numbers: a word is a pointer
/// where it lies in a tensor of its upload, and all else must be the same in both.
Status describe_launch(const CaseLaunch& first, const CaseLaunch& second, const DeviceFacts& facts, LaunchDump* dump);
/// invalid_argument where a written buffer is missing, unknown or of another size.
Status set_written(const std::vector<NamedTensor>& tensors, const WrittenBuffers& written);

/// A case uploaded to host memory, and its launch written down.
template <class Case, auto kList>
Status record_upload(Case& c, const DeviceFacts& facts, const Policy& policy, CaseLaunch* made) {
  SILT_TRY(c.upload({}));
  decltype(Case::problem) problem;
  SILT_TRY(check(c.args(), &problem));
  Choice choice;
  SILT_TRY(choose(kList(), problem, facts, policy, &choice));
  const auto& kernel = kList().kernels[choice.kernel];
  if (kernel.launch == nullptr) {
    return failed(StatusCode::unsupported, "{}: kernel {}: not built: {}", kList().op, kernel.name, kernel.not_built);
  }
  hip::Recording recording(facts);
  SILT_TRY(kernel.launch(problem, c.args(), {}));
  if (recording.launches.size() != 1) {
    return failed(StatusCode::unsupported, "{}: kernel {}: has {} launches, needs 1", kList().op, kernel.name,
                  recording.launches.size());
  }
  *made = {kernel.name, std::move(recording.launches.front()), c.tensors()};
  return {};
}

template <class Case, auto kList>
Status record_case(const ProblemLine& line, const DeviceFacts& facts, const Policy& policy, uint64_t seed,
                   LaunchDump* dump) {
  decltype(Case::problem) problem;
  SILT_TRY(decltype(problem)::parse(line, &problem));
  Case first(problem, seed);
  Case second(problem, seed);
  CaseLaunch launches[2];
  SILT_TRY((record_upload<Case, kList>(first, facts, policy, &launches[0])));
  SILT_TRY((record_upload<Case, kList>(second, facts, policy, &launches[1])));
  SILT_TRY(describe_launch(launches[0], launches[1], facts, dump));
  dump->line = problem.line();
  SILT_TRY(second.run({}, {.policy = Policy::require("cpu_reference")}));
  const std::vector<NamedTensor> tensors = second.tensors();
  for (size_t i = 0, at = 0; i < tensors.size(); ++i) {
    if (!tensors[i].tensor->present()) continue;
    if (tensors[i].written) dump->buffers[at].expected = tensors[i].tensor->bytes();
    ++at;
  }
  return {};
}

template <class Case>
Status judge_case(const ProblemLine& line, uint64_t seed, const WrittenBuffers& written, CheckResult* result) {
  decltype(Case::problem) problem;
  SILT_TRY(decltype(problem)::parse(line, &problem));
  Case c(problem, seed);
  SILT_TRY(c.upload({}));
  SILT_TRY(set_written(c.tensors(), written));
  const Verdict verdict = c.verify();
  result->passed = verdict.ok;
  result->worst = verdict.worst;
  result->detail = verdict.detail;
  return {};
}

}  // namespace silt
