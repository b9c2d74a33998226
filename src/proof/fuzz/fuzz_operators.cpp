// Every kernel of an operator that runs on this CPU, on a problem and values drawn from the bytes, against the
// double-precision reference: outputs poisoned, poison in everything unread, all that must not change compared bit by
// bit, and, under the address sanitizer, what lies around a tensor out of bounds.
//
// Bytes: operator, values (special or not), four of the values' seed, then the line (proof/draw.hpp).
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>

#include "dispatch/operator.hpp"
#include "proof/kernels_here.hpp"

namespace {

using silt::Operator;

const std::vector<silt::KernelHere>& kernels_of(const Operator& op) {
  static std::map<std::string_view, std::vector<silt::KernelHere>> known;
  const auto [at, added] = known.try_emplace(op.name);
  if (added) at->second = silt::kernels_here(op.name);
  return at->second;
}

void stop(std::string_view line, std::string_view kernel, const silt::CaseData& data, std::string_view why) {
  fmt::print(stderr, "{} on {}, seed {}{}: {}\n", line, kernel, data.seed, data.special ? ", special values" : "", why);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr size_t kHeader = 6;
  if (size < kHeader) return 0;
  const std::span<const Operator> all = silt::all_operators();
  const Operator& op = all[bytes[0] % all.size()];
  silt::CaseData data;
  data.special = bytes[1] % 2 == 1;
  data.seed = 0;
  for (size_t i = 2; i < kHeader; ++i) data.seed = data.seed << 8 | bytes[i];
  const std::string text = op.draw_line({bytes + kHeader, size - kHeader});
  silt::ProblemLine line;
  if (const silt::Status status = silt::parse_line(text, &line); !status.ok()) stop(text, "", data, status.message());
  for (const silt::KernelHere& here : kernels_of(op)) {
    silt::CheckResult result;
    const silt::Status status = op.check(line, here.kernel, here.device, data, &result);
    if (status.code() == silt::StatusCode::unsupported) continue;
    if (!status.ok()) stop(text, here.kernel, data, status.message());
    if (!result.passed) stop(text, here.kernel, data, result.detail);
  }
  return 0;
}
