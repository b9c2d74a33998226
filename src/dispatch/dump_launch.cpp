// The public dump and judgement of a launch, by operator.
#include "silt/dump_launch.hpp"

#include "core/status.hpp"
#include "dispatch/operator.hpp"

namespace silt {
namespace {

Status find(std::string_view text, ProblemLine* line, const Operator** op) {
  SILT_TRY(parse_line(text, line));
  SILT_TRY(find_operator(line->op, op));
  if ((*op)->record != nullptr) return {};
  return failed(StatusCode::unsupported, "{}: has no AMD kernel whose launch could be written", (*op)->name);
}

}  // namespace

Status dump_launch(std::string_view problem_line, const DeviceFacts& facts, std::string_view kernel, uint64_t seed,
                   LaunchDump* dump) {
  *dump = {};
  if (facts.kind != DeviceKind::hip) return invalid("device: has {}, needs an AMD device", facts.name);
  ProblemLine line;
  const Operator* op = nullptr;
  SILT_TRY(find(problem_line, &line, &op));
  return op->record(line, facts, kernel.empty() ? Policy() : Policy::require(kernel), seed, dump);
}

Status judge_launch(std::string_view problem_line, uint64_t seed,
                    const std::vector<std::pair<std::string, std::vector<std::byte>>>& written, CheckResult* result) {
  *result = {};
  result->line = problem_line;
  ProblemLine line;
  const Operator* op = nullptr;
  SILT_TRY(find(problem_line, &line, &op));
  return op->judge(line, seed, written, result);
}

}  // namespace silt
