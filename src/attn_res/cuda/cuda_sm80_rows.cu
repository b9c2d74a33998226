// What: attn_res (contract.md) on any NVIDIA GPU from sm_80 on: the portable kernel.
//
// When: bf16; any hidden size, strides, alignment and number of blocks that the contract allows, as long as the sums
// of one token fit 48 KiB (cuda_sm80_rows.hpp).
//
// Plan: one block per token (more tokens than the grid can hold: in turns). A thread owns the same columns in every
// phase: p, statistics of all sources in groups of four rows, softmax, mixture, norm.
//
// Data path, the first that fits. Held (up to 8 blocks, 7168 columns in leaves of 256, aligned to 16 bytes): rows stay
// in registers, which is form one of cuda_sm90_direct without its dependent launch. Staged (aligned, all rows fit
// shared memory): every row is copied there at once by asynchronous copies, and both passes read shared memory; the
// mixture then takes the place of rows 0 and 1. Otherwise the second pass finds the rows in L2, and a third repeats the
// mixture instead of keeping it. Columns belong to one thread, so no barrier stands between a row and its readers; the
// barriers publish the sums of the warps, and at the end of a token free them.
//
// Dependent launch: never. The attribute needs an instruction of sm_90; without it a launch waits for all before it.
//
// Bytes: 2*D*(nb + 1 + 2*delta + write + 1) per token from memory (cost.cpp).
//
// Rounding: fp32, one rounding at p and one at the output. Order of a sum: held as in cuda_sm90_direct_sums.hpp, else
// columns of a thread, lanes by reduce-scatter, warps one after the other. It depends on D, the number of blocks and
// the alignment of the rows, not on the tokens.
//
// Roofline: held rows aim at 75 % of a device copy from 1024 tokens on; staged rows reached 41 % of one on an H200,
// because a block with all rows in shared memory is alone on its SM and loads nothing while it computes.
#include "attn_res/cuda/cuda_sm80_rows.hpp"
#include "attn_res/cuda/cuda_sm90_direct_token.hpp"
#include "attn_res/cuda/rows.hpp"
#include "device/facts.hpp"
#include "gpu/launch.hpp"

namespace silt::attn_res_cuda_sm80_rows {
namespace {

using attn_res_cuda::Rows;

constexpr int kRowsAtOnce = 4;
constexpr int kMostSharedRows = 1 << 20;

template <int kWidth>
SILT_DEVICE void load_columns(const uint16_t* source, float (&v)[kWidth]) {
  if constexpr (kWidth == 8) {
    gpu::unpack_bf16(*reinterpret_cast<const uint4*>(source), v);
  } else if constexpr (kWidth == 2) {
    const uint32_t pair = *reinterpret_cast<const uint32_t*>(source);
    v[0] = gpu::low_bf16(pair);
    v[1] = gpu::high_bf16(pair);
  } else {
    v[0] = gpu::bf16_to_float(*source);
  }
}

template <int kWidth>
SILT_DEVICE void store_columns(uint16_t* target, const float (&v)[kWidth]) {
  if constexpr (kWidth == 8) {
    *reinterpret_cast<uint4*>(target) = gpu::pack_bf16(v);
  } else if constexpr (kWidth == 2) {
    *reinterpret_cast<uint32_t*>(target) = gpu::pack_bf16(v[0], v[1]);
  } else {
    *target = gpu::float_to_bf16(v[0]);
  }
}

SILT_DEVICE void copy_async_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(gpu::shared_address(shared)), "l"(global) : "memory");
}
SILT_DEVICE void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// One token: where its rows are, for the phases below.
template <int kWidth, bool kStaged>
struct Token {
  const Rows& p;
  int64_t index;
  uint16_t* staged;  ///< rows in shared memory, source after source

  /// Source i (nb: p) at a column.
  SILT_DEVICE const uint16_t* source(int i, int column) const {
    if constexpr (kStaged) return staged + static_cast<int64_t>(i) * p.d + column;
    if (i == p.n) return prefix(column);
    return p.blocks + index * p.block_token_stride + i * p.block_slot_stride + column;
  }
  SILT_DEVICE uint16_t* prefix(int column) const { return p.prefix + index * p.prefix_stride + column; }

  /// The bank rows start for shared memory, then p = prefix + delta, stored where it belongs.
  SILT_DEVICE void update_prefix() const {
    const int step = static_cast<int>(blockDim.x) * kWidth;
    const int first = static_cast<int>(threadIdx.x) * kWidth;
    if constexpr (kStaged) {
      for (int i = 0; i < p.n; ++i) {
        const uint16_t* row = p.blocks + index * p.block_token_stride + i * p.block_slot_stride;
        for (int c = first; c < p.d; c += step) copy_async_16(staged + static_cast<int64_t>(i) * p.d + c, row + c);
      }
    }
    for (int c = first; c < p.d; c += step) {
      float v[kWidth];
      load_columns<kWidth>(prefix(c), v);
      if (p.delta != nullptr) {
        float added[kWidth];
        load_columns<kWidth>(p.delta + index * p.delta_stride + c, added);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) v[k] += added[k];
        store_columns<kWidth>(prefix(c), v);
      }
      if (p.written != nullptr) store_columns<kWidth>(p.written + index * p.block_token_stride + c, v);
      if constexpr (kStaged) store_columns<kWidth>(staged + static_cast<int64_t>(p.n) * p.d + c, v);
    }
    if constexpr (kStaged) copy_async_wait();
  }

  /// Dot products and sums of squares of four sources over this thread's columns.
  SILT_DEVICE void statistics(int first, float (&sums)[2 * kRowsAtOnce]) const {
#pragma unroll
    for (float& sum : sums) sum = 0.0F;
    for (int c = static_cast<int>(threadIdx.x) * kWidth; c < p.d; c += static_cast<int>(blockDim.x) * kWidth) {
      float w[kWidth];
      float qk[kWidth];
      load_columns<kWidth>(p.norm_weight + c, w);
      load_columns<kWidth>(p.qk_weight + c, qk);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) w[k] *= qk[k];
      float v[kRowsAtOnce][kWidth] = {};
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) {
        if (first + i <= p.n) load_columns<kWidth>(source(first + i, c), v[i]);
      }
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          sums[i] = fmaf(v[i][k], w[k], sums[i]);
          sums[kRowsAtOnce + i] = fmaf(v[i][k], v[i][k], sums[kRowsAtOnce + i]);
        }
      }
    }
  }

  SILT_DEVICE void mixture(const float* weights, int column, float (&mix)[kWidth]) const {
    if (p.n == 0) {
      load_columns<kWidth>(source(0, column), mix);
      return;
    }
#pragma unroll
    for (float& m : mix) m = 0.0F;
#pragma unroll 4
    for (int i = 0; i <= p.n; ++i) {
      float v[kWidth];
      load_columns<kWidth>(source(i, column), v);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) mix[k] = fmaf(weights[i], v[k], mix[k]);
    }
  }

  /// Keeps a mixture where rows 0 and 1 had these columns: two rows of bf16 are one of fp32. Only with a bank.
  SILT_DEVICE void keep(int column, const float (&mix)[kWidth]) const {
    static_assert(kWidth == 8);
    *reinterpret_cast<float4*>(staged + column) = make_float4(mix[0], mix[1], mix[2], mix[3]);
    *reinterpret_cast<float4*>(staged + p.d + column) = make_float4(mix[4], mix[5], mix[6], mix[7]);
  }
  SILT_DEVICE void kept(int column, float (&mix)[kWidth]) const {
    const float4 low = *reinterpret_cast<const float4*>(staged + column);
    const float4 high = *reinterpret_cast<const float4*>(staged + p.d + column);
    mix[0] = low.x, mix[1] = low.y, mix[2] = low.z, mix[3] = low.w;
    mix[4] = high.x, mix[5] = high.y, mix[6] = high.z, mix[7] = high.w;
  }
};

/// Shared memory behind the staged rows.
struct Sums {
  float* statistics;  ///< [source][2][warp]
  float* weights;     ///< [source]
  float* norms;       ///< [warp]
  int warps;
};

/// Logit of source i from the sums of all warps.
SILT_DEVICE float logit(const Rows& p, const Sums& sums, int i) {
  float dot = 0.0F;
  float squares = 0.0F;
  for (int w = 0; w < sums.warps; ++w) {
    dot += sums.statistics[(2 * i) * sums.warps + w];
    squares += sums.statistics[(2 * i + 1) * sums.warps + w];
  }
  return dot * rsqrtf(fmaf(squares, p.inverse_d, p.eps));
}

/// Softmax over all sources; every thread walks the few logits, so that no second reduction is needed.
SILT_DEVICE void softmax(const Rows& p, const Sums& sums) {
  constexpr float kLog2E = 1.4426950408889634F;
  for (int i = static_cast<int>(threadIdx.x); i <= p.n; i += static_cast<int>(blockDim.x)) {
    sums.weights[i] = logit(p, sums, i);
  }
  __syncthreads();
  float largest = sums.weights[0];
  for (int i = 1; i <= p.n; ++i) largest = fmaxf(largest, sums.weights[i]);
  float total = 0.0F;
  for (int i = 0; i <= p.n; ++i) total += attn_res_cuda::exp2_fast((sums.weights[i] - largest) * kLog2E);
  const float inverse = attn_res_cuda::reciprocal_fast(total);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i <= p.n; i += static_cast<int>(blockDim.x)) {
    sums.weights[i] = attn_res_cuda::exp2_fast((sums.weights[i] - largest) * kLog2E) * inverse;
  }
  __syncthreads();
}

template <int kWidth, bool kStaged>
SILT_DEVICE void store_output(const Token<kWidth, kStaged>& token, const Sums& sums) {
  const Rows& p = token.p;
  const bool norm = p.output_norm_weight != nullptr;
  const int step = static_cast<int>(blockDim.x) * kWidth;
  const int first = static_cast<int>(threadIdx.x) * kWidth;
  uint16_t* output = p.output + token.index * p.output_stride;
  float squares = 0.0F;
  for (int c = first; c < p.d; c += step) {
    float mix[kWidth];
    token.mixture(sums.weights, c, mix);
    if (!norm) {
      store_columns<kWidth>(output + c, mix);
      continue;
    }
#pragma unroll
    for (int k = 0; k < kWidth; ++k) squares = fmaf(mix[k], mix[k], squares);
    if constexpr (kStaged) {
      if (p.n > 0) token.keep(c, mix);
    }
  }
  if (!norm) return;
  squares = gpu::lane_sum(squares);
  if (gpu::lane_index() == 0) sums.norms[gpu::warp_index()] = squares;
  __syncthreads();
  float total = 0.0F;
  for (int w = 0; w < sums.warps; ++w) total += sums.norms[w];
  const float scale = rsqrtf(fmaf(total, p.inverse_d, p.output_norm_eps));
  for (int c = first; c < p.d; c += step) {
    float mix[kWidth];
    float g[kWidth];
    if constexpr (kStaged) {
      if (p.n > 0) {
        token.kept(c, mix);
      } else {
        token.mixture(sums.weights, c, mix);
      }
    } else {
      token.mixture(sums.weights, c, mix);
    }
    load_columns<kWidth>(p.output_norm_weight + c, g);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) mix[k] *= scale * g[k];
    store_columns<kWidth>(output + c, mix);
  }
}

template <int kWidth, bool kStaged>
__global__ void __launch_bounds__(kMostThreads, 1) attn_res_cuda_sm80_rows(const Rows p) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* staged = reinterpret_cast<uint16_t*>(shared);
  Sums sums;
  sums.warps = static_cast<int>(blockDim.x) / gpu::kWarpLanes;
  sums.statistics = reinterpret_cast<float*>(shared + (kStaged ? static_cast<int64_t>(p.n + 1) * p.d * 2 : 0));
  sums.weights = sums.statistics + 2 * (p.n + 1) * sums.warps;
  sums.norms = sums.weights + p.n + 1;
  const int lane = gpu::lane_index();
  const gpu::Scattered held = gpu::scattered<2 * kRowsAtOnce>(lane);

  for (int64_t index = blockIdx.x; index < p.t; index += gridDim.x) {
    const Token<kWidth, kStaged> token{p, index, staged};
    token.update_prefix();
    for (int first = 0; p.n > 0 && first <= p.n; first += kRowsAtOnce) {
      float values[2 * kRowsAtOnce];
      token.statistics(first, values);
      gpu::reduce_scatter<2 * kRowsAtOnce, gpu::kWarpLanes / 2>(values, lane);
      const int i = first + held.first % kRowsAtOnce;
      if (held.count >= 1 && i <= p.n) {
        sums.statistics[(2 * i + held.first / kRowsAtOnce) * sums.warps + gpu::warp_index()] = values[0];
      }
    }
    __syncthreads();
    if (p.n > 0) softmax(p, sums);
    store_output(token, sums);
    __syncthreads();  // the sums are free for the next token
  }
}

namespace direct = attn_res_cuda_sm90_direct;
constexpr direct::Form kOne = direct::Form::one;

/// Registers for three blocks of 14 warps an SM without a bank, two with up to two blocks, else one.
template <int kN, bool kNorm>
__global__ void __launch_bounds__(gpu::kWarpLanes* direct::kWarps<kOne>, kN == 0   ? 3
                                                                         : kN <= 2 ? 2
                                                                                   : 1)
    attn_res_cuda_sm80_rows_held(const Rows p) {
  __shared__ direct::Exchange<kOne, direct::kValuesOf<kN>> exchange;
  direct::one_token<kN, kNorm, direct::kOrdinary, kOne, gpu::Load::plain, direct::Begin::rows>(p, exchange);
}

using Held = void (*)(Rows);
template <int... kN>
Status run_held(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch,
                std::integer_sequence<int, kN...>) {
  static constexpr Held kWorks[2][sizeof...(kN)] = {{attn_res_cuda_sm80_rows_held<kN, false>...},
                                                    {attn_res_cuda_sm80_rows_held<kN, true>...}};
  gpu::LaunchShape shape;
  shape.grid = problem.t;
  shape.block = direct::threads_per_block({kOne}, problem.d);
  return gpu::launch({"attn_res", "cuda_sm80_rows"}, kWorks[problem.norm ? 1 : 0][problem.n], shape, args.prefix.device,
                     launch, attn_res_cuda::make_rows(problem, args));
}

template <int kWidth, bool kStaged>
Status run(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch, int64_t bytes) {
  constexpr gpu::KernelName kName = {"attn_res", "cuda_sm80_rows"};
  static gpu::DeviceSetup setup;
  const auto work = attn_res_cuda_sm80_rows<kWidth, kStaged>;
  gpu::LaunchShape shape;
  shape.grid = problem.t < INT32_MAX ? problem.t : INT32_MAX;
  shape.block = threads(problem.d, kWidth);
  shape.shared_bytes = static_cast<size_t>(bytes);
  if (bytes > kMostSumBytes) {
    const Status status =
        setup.allow_shared(kName, reinterpret_cast<const void*>(work), args.prefix.device.index, shape.shared_bytes);
    if (!status.ok()) return status;
  }
  return gpu::launch(kName, work, shape, args.prefix.device, launch, attn_res_cuda::make_rows(problem, args));
}

}  // namespace

Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch) {
  if (holds_rows(problem)) return run_held(problem, args, launch, std::make_integer_sequence<int, 9>{});
  const int columns = columns_at_once(problem);
  const int64_t sums = sum_bytes(problem.n + 1, threads(problem.d, columns));
  if (columns == 2) return run<2, false>(problem, args, launch, sums);
  if (columns == 1) return run<1, false>(problem, args, launch, sums);
  const DeviceFacts* facts = nullptr;
  if (const Status status = facts_of(args.prefix.device, &facts); !status.ok()) return status;
  const int64_t staged = problem.d < kMostSharedRows ? row_bytes(problem.n + 1, problem.d) + sums : INT64_MAX;
  if (staged <= facts->shared_bytes_per_block) return run<8, true>(problem, args, launch, staged);
  return run<8, false>(problem, args, launch, sums);
}

}  // namespace silt::attn_res_cuda_sm80_rows
