// What: attn_res (contract.md) on Hopper and Blackwell with direct 16-byte loads, rows kept in registers as bf16.
//
// When: bf16, 0 to 8 blocks, D a multiple of 256 up to 8192, every row and weight aligned to 16 bytes; any strides,
// with or without delta, slot write and output norm (cuda_sm90_direct.hpp).
//
// Plan: one token per cluster, or per block; nothing persistent. A lane holds 8 or 16 columns of every row: 4 or 8
// registers a row. Narrow: one block of 128 threads per 1024 columns, 8 columns a lane. Two: two blocks of up to 7
// warps. One: one block of up to 14. Phases: load all rows, statistics, exchange of partial sums across the cluster,
// softmax, mixture from the registers, output norm with a second exchange, store.
//
// Data path: every row is read once, 16 bytes a piece, by the thread that also writes those columns of prefix, slot and
// output; nothing is staged in shared memory. Sums of warps meet in the block (its barrier publishes them), those of
// blocks go by st.async onto an mbarrier of the receiver: barrier 0 makes the statistics visible, barrier 1 the norm
// sums. The cluster barrier at the start makes the mbarriers visible to the senders. None is needed at the end: a block
// ends only after every message sent to it has arrived. Form one has no cluster, and no message to itself.
//
// Dependent launch: in late order stable rows (all, or all but the last; fewer count as none) and weights are loaded
// before the dependency wait; otherwise only addresses and mbarriers are made there. What may not be read yet can be
// asked for in L2 (prefetch): that is no read. Dependents are triggered right after the wait. Rows in late order are
// plain or streaming loads, never the read-only path: ptxas may move those below the wait, and then nothing is early.
//
// Bytes: 2*D*(nb + 1 + 2*delta + write + 1) per token (cost.cpp); the weights stay in L2.
//
// Roofline: D = 7168, nb = 8, T = 8192 on H200: 1.41 GB, 333 us at the 4237 GB/s of a device copy. A prototype of this
// design measured 319 us, this kernel 318; at one token nothing but latency counts: 2.35 us (prototype) against 1.2 us
// of moving the bytes.
//
// Rounding: fp32 from the loads to one rounding at p and one at the output. The order of additions is that of
// cuda_sm90_direct_sums.hpp; neither T nor the form changes it, so a row's bits depend on the row alone.
//
// Tried: see docs/ladder/attn_res_cuda.md. In short: rings of bulk copies and persistent blocks are slower here; more
// than 8 blocks a token too; statistics of bank rows before the dependency wait gain nothing; unpacked values that stay
// alive between statistics and mixture spill (hence unpack_bf16_again); wide blocks that send each other the sums of
// every warp, a thousand messages a token, lose 15-25 % at T >= 1024; narrow blocks of 64 threads with two pieces a
// lane are nowhere the fastest.
#include "attn_res/cuda/cuda_sm90_direct.hpp"
#include "attn_res/cuda/cuda_sm90_direct_token.hpp"
#include "device/facts.hpp"
#include "gpu/launch.hpp"

namespace silt::attn_res_cuda_sm90_direct {
namespace {

using attn_res_cuda::Rows;
using gpu::Load;

constexpr int threads(Form form) { return gpu::kWarpLanes * most_warps(form); }

template <int kN, bool kNorm, int kEarly, Form kForm, Load kRows, Begin kBegin>
__global__ void __launch_bounds__(threads(kForm), blocks_per_processor(kForm, kN))
    attn_res_cuda_sm90_direct(const Rows p) {
  __shared__ Exchange<kForm, kValuesOf<kN>> exchange;
  one_token<kN, kNorm, kEarly, kForm, kRows, kBegin>(p, exchange);
}

using Work = void (*)(Rows);

template <int kN, bool kNorm, int kEarly, Form kForm, bool kStream, Begin kBegin>
constexpr Work work() {
  if constexpr (has_code({kForm, kStream, kBegin}, kN)) {
    return attn_res_cuda_sm90_direct < kN, kNorm, kEarly, kForm, kStream ? Load::stream : Load::plain, kBegin > ;
  } else {
    return nullptr;
  }
}

/// What is instantiated for a plan: order (nothing early, all rows but the last, all rows), norm, blocks.
struct Works {
  Work of[3][2][kMostSources + 1];
};
template <Form kForm, bool kStream, Begin kBegin, int... kN>
constexpr Works works(std::integer_sequence<int, kN...>) {
  return {{{{work<kN, false, kNoneEarly, kForm, kStream, kBegin>()...},
            {work<kN, true, kNoneEarly, kForm, kStream, kBegin>()...}},
           {{work<kN, false, (kN > 0 ? kN - 1 : 0), kForm, kStream, kBegin>()...},
            {work<kN, true, (kN > 0 ? kN - 1 : 0), kForm, kStream, kBegin>()...}},
           {{work<kN, false, kN, kForm, kStream, kBegin>()...}, {work<kN, true, kN, kForm, kStream, kBegin>()...}}}};
}
/// By begin.
struct Begins {
  Works of[2];
};
template <Form kForm, bool kStream>
constexpr Begins begins() {
  using Blocks = std::make_integer_sequence<int, kMostSources + 1>;
  return {{works<kForm, kStream, Begin::rows>(Blocks{}), works<kForm, kStream, Begin::prefetch>(Blocks{})}};
}
/// By form and hint.
constexpr Begins kWorks[][2] = {
    {begins<Form::narrow, false>(), begins<Form::narrow, true>()},
    {begins<Form::two, false>(), begins<Form::two, true>()},
    {begins<Form::one, false>(), begins<Form::one, true>()},
};

/// Fewer stable rows than all but the last count as none: then nothing is early, and late order gains nothing. A launch
/// without the attribute starts when everything before it has ended, so that all rows are stable.
int order_of(const AttnResProblem& problem, Pdl pdl) {
  if (pdl == Pdl::off) return 2;
  if (pdl != Pdl::late || problem.stable_rows() < problem.n - 1) return 0;
  return problem.stable_rows() < problem.n ? 1 : 2;
}

}  // namespace

Status launch_plan(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch, const Plan& plan) {
  const Works& works = kWorks[static_cast<size_t>(plan.form)][plan.stream ? 1 : 0].of[static_cast<size_t>(plan.begin)];
  const Work work = works.of[order_of(problem, launch.pdl)][problem.norm ? 1 : 0][problem.n];
  gpu::LaunchShape shape;
  shape.cluster = plan.form == Form::one ? 0 : blocks_per_token(plan, problem.d);
  shape.grid = problem.t;
  shape.block = threads_per_block(plan, problem.d);
  shape.dependent = launch.pdl != Pdl::off;
  return gpu::launch({"attn_res", "cuda_sm90_direct"}, work, shape, args.prefix.device, launch,
                     attn_res_cuda::make_rows(problem, args));
}

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch) {
  return launch_plan(problem, args, launch, choose_plan(problem, launch.pdl));
}

}  // namespace silt::attn_res_cuda_sm90_direct
