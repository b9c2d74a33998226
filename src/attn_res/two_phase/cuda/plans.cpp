// What explain prints about the configurations of the CUDA kernels of both phases.
#include <fmt/format.h>

#include "attn_res/two_phase/cuda/cuda_sm90_direct.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_tensor.hpp"

namespace silt {

std::string attn_res_merge_cuda_sm90_direct::describe(const AttnResMergeProblem& problem, const DeviceFacts&) {
  const std::string wait = attn_res_cuda_sm90_direct::describe(choose_plan(problem, Pdl::wait), problem.d);
  const std::string late = attn_res_cuda_sm90_direct::describe(choose_plan(problem, Pdl::late), problem.d);
  return wait == late ? wait : fmt::format("{}; late: {}", wait, late);
}

std::string attn_res_partials_cuda_sm90_tensor::describe(const AttnResPartialsProblem& problem,
                                                         const DeviceFacts& facts) {
  return fmt::format("{} pairs of {} threads, {} tokens of {} half rows under way", pairs(problem, facts), kThreads,
                     stages(problem.n, problem.d), problem.n);
}

}  // namespace silt
