// What explain prints about the configurations of the CUDA kernels.
#include <fmt/format.h>

#include "attn_res/cuda/cuda_sm90_bulk.hpp"
#include "attn_res/cuda/cuda_sm90_direct.hpp"

namespace silt {

std::string attn_res_cuda_sm90_direct::to_string(const Plan& plan) {
  constexpr const char* kForms[] = {"narrow", "two", "one"};
  constexpr const char* kBegins[] = {"", ".prefetch", ".turn"};
  return fmt::format("{}{}{}", kForms[static_cast<size_t>(plan.form)], plan.stream ? ".stream" : "",
                     kBegins[static_cast<size_t>(plan.begin)]);
}

std::string attn_res_cuda_sm90_direct::describe(const Plan& plan, int64_t d) {
  constexpr const char* kBegins[] = {"", " after a prefetch", ", in turn"};
  return fmt::format("{} x {} threads a token, {} loads{}", blocks_per_token(plan, d), threads_per_block(plan, d),
                     plan.stream ? "streaming" : "plain", kBegins[static_cast<size_t>(plan.begin)]);
}

std::string attn_res_cuda_sm90_direct::describe(const AttnResProblem& problem, const DeviceFacts&) {
  const std::string wait = describe(choose_plan(problem, Pdl::wait), problem.d);
  const std::string late = describe(choose_plan(problem, Pdl::late), problem.d);
  return wait == late ? wait : fmt::format("{}; late: {}", wait, late);
}

std::string attn_res_cuda_sm90_bulk::describe(const AttnResProblem& problem, const DeviceFacts& facts) {
  const Plan plan = choose_plan(problem, facts);
  return fmt::format("{} blocks of {} + 32 threads, {} rows in flight", plan.blocks, consumers(problem.d), plan.slots);
}

}  // namespace silt
