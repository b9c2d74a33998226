// What: the kernels of the GPU protocol: random fills, a spin, and the ceilings: empty, read, and the operators' bytes
// moved with nothing else done.
//
// The movers are the strongest found for their pattern. attn_res: direct 16-byte loads of a token's rows by two or four
// blocks; L1::no_allocate wins below a few hundred tokens and loses above. Recurrent state: blocks of 4, 16 or 64 KiB,
// all loads before the first store, with and without evict-first; 4 KiB blocks give the memory a narrow linear window
// and win at large batches. They trigger their dependents right after their own wait, as the operators do.
#include <array>

#include "bench/cuda/kernels.hpp"
#include "gpu/memory.hpp"
#include "gpu/pdl.hpp"

namespace silt::bench::gpu {
namespace {

using silt::gpu::Load;
using silt::gpu::load_16;
using silt::gpu::store_16;

// Dependent launches need sm_90; before it these are nothing, and the attribute is not set.
SILT_DEVICE void wait_and_trigger() {
#if __CUDA_ARCH__ >= 900
  silt::gpu::dependency_wait();
  silt::gpu::trigger_dependents();
#endif
}

/// Evict-first, for state that no later launch finds in L2 anyway.
SILT_DEVICE uint4 load_evict_first(const void* address) {
  uint4 v;
  asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address)
               : "memory");
  return v;
}
SILT_DEVICE void store_evict_first(void* address, uint4 v) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

SILT_DEVICE uint4 combine(uint4 a, uint4 b) { return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w); }

__global__ void bench_spin(long long nanoseconds) {
  long long start = 0;
  long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    __nanosleep(500);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

__device__ float uniform(uint64_t seed, uint64_t index, float low, float high) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;  // splitmix64, as proof/random.hpp
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return low + (high - low) * static_cast<float>(z >> 40) * 0x1p-24F;
}

template <class T>
__global__ void bench_fill(T* data, int64_t count, float low, float high, uint64_t seed) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const float value = uniform(seed, static_cast<uint64_t>(i), low, high);
    if constexpr (sizeof(T) == 4) {
      data[i] = value;
    } else {
      const unsigned bits = __float_as_uint(value);  // no NaN here: nearest even in integers
      data[i] = static_cast<T>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
    }
  }
}

__global__ void bench_empty(unsigned*) { wait_and_trigger(); }

__global__ void __launch_bounds__(512) bench_read(const uint4* source, int64_t count, unsigned* never) {
  constexpr int kInFlight = 8;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  uint4 sum = make_uint4(0, 0, 0, 0);
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + (kInFlight - 1) * step < count; i += kInFlight * step) {
    uint4 v[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) v[j] = load_16<Load::plain>(source + i + j * step);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) sum = combine(sum, v[j]);
  }
  for (; i < count; i += step) sum = combine(sum, load_16<Load::plain>(source + i));
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x12345678U && never != nullptr) *never = sum.x;
}

/// Block b moves part b % parts of token b / parts, 16 bytes of every row per thread. `late`: bank rows before the
/// wait.
template <int kRows, Load kLoad>
__global__ void __launch_bounds__(512) bench_row_mover(RowMover m, int parts, bool late) {
  const int64_t token = blockIdx.x / parts;
  const int64_t at = (static_cast<int64_t>(blockIdx.x % parts) * blockDim.x + threadIdx.x) * 16;
  const bool active = at < m.row_bytes;
  const int64_t from = active ? at : 0;  // threads behind the row load its start: no branch separates the loads
  if (!late) wait_and_trigger();
  const char* bank = static_cast<const char*>(m.bank) + token * m.bank_token_stride + from;
  uint4 row[kRows + 1];
#pragma unroll
  for (int i = 0; i < kRows; ++i) row[i] = load_16<kLoad>(bank + i * m.bank_slot_stride);
  if (late) wait_and_trigger();
  if (!active) return;
  char* prefix = static_cast<char*>(m.prefix) + token * m.prefix_stride + at;
  const uint4 p = load_16<kLoad>(prefix);
  uint4 sum = p;
  if (m.delta != nullptr) {
    sum = combine(sum, load_16<Load::plain>(static_cast<const char*>(m.delta) + token * m.delta_stride + at));
    store_16(prefix, p);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) sum = combine(sum, row[i]);
  if (m.slot != nullptr) store_16(m.slot + token * m.bank_token_stride + at, p);
  store_16(static_cast<char*>(m.output) + token * m.output_stride + at, sum);
}

/// As bench_row_mover: 16 bytes of every row per thread, their combination to the same place of every query's row.
template <int kRows, Load kLoad>
__global__ void __launch_bounds__(512) bench_sweep_mover(SweepMover m, int parts, bool late) {
  const int64_t token = blockIdx.x / parts;
  const int64_t at = (static_cast<int64_t>(blockIdx.x % parts) * blockDim.x + threadIdx.x) * 16;
  const bool active = at < m.row_bytes;
  if (!late) wait_and_trigger();
  const char* bank = static_cast<const char*>(m.bank) + token * m.bank_token_stride + (active ? at : 0);
  uint4 sum = make_uint4(0, 0, 0, 0);
  uint4 row[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) row[i] = load_16<kLoad>(bank + i * m.bank_slot_stride);
  if (late) wait_and_trigger();
  if (!active) return;
#pragma unroll
  for (int i = 0; i < kRows; ++i) sum = combine(sum, row[i]);
  for (int q = 0; q < m.queries; ++q) {
    char* mix = static_cast<char*>(m.mix) + q * m.mix_query_stride + token * m.mix_token_stride + at * m.widths;
    for (int i = 0; i < m.widths; ++i) store_16(mix + i * 16, sum);
  }
}

/// Block b moves piece b % pieces of row b / pieces: kVectors vectors of 16 bytes per thread, signs flipped.
template <int kThreads, int kVectors, bool kEvictFirst>
__global__ void __launch_bounds__(kThreads) bench_slot_mover(SlotMover m, int pieces) {
  constexpr int64_t kPiece = static_cast<int64_t>(kThreads) * kVectors * 16;
  const int64_t row = blockIdx.x / pieces;
  char* p =
      static_cast<char*>(m.state) + m.indices[row] * m.slot_stride + (blockIdx.x % pieces) * kPiece + threadIdx.x * 16;
  uint4 v[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const char* address = p + i * kThreads * 16;
    v[i] = kEvictFirst ? load_evict_first(address) : load_16<Load::plain>(address);
  }
  wait_and_trigger();
  const uint4 signs = make_uint4(0x80008000U, 0x80008000U, 0x80008000U, 0x80008000U);
  __syncthreads();  // every load of the block has landed before its first store: reads and writes come in runs
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if constexpr (kEvictFirst) {
      store_evict_first(p + i * kThreads * 16, combine(v[i], signs));
    } else {
      store_16(p + i * kThreads * 16, combine(v[i], signs));
    }
  }
}

template <Load kLoad>
RowKernel row_kernel(int rows) {
  static constexpr std::array<RowKernel, kMaxMoverRows + 1> kKernels = {
      bench_row_mover<0, kLoad>, bench_row_mover<1, kLoad>, bench_row_mover<2, kLoad>,
      bench_row_mover<3, kLoad>, bench_row_mover<4, kLoad>, bench_row_mover<5, kLoad>,
      bench_row_mover<6, kLoad>, bench_row_mover<7, kLoad>, bench_row_mover<8, kLoad>};
  return kKernels[static_cast<size_t>(rows)];
}

template <Load kLoad>
SweepKernel sweep_kernel(int rows) {
  static constexpr std::array<SweepKernel, kMaxMoverRows> kKernels = {
      bench_sweep_mover<1, kLoad>, bench_sweep_mover<2, kLoad>, bench_sweep_mover<3, kLoad>,
      bench_sweep_mover<4, kLoad>, bench_sweep_mover<5, kLoad>, bench_sweep_mover<6, kLoad>,
      bench_sweep_mover<7, kLoad>, bench_sweep_mover<8, kLoad>};
  return kKernels[static_cast<size_t>(rows - 1)];
}

}  // namespace

SpinKernel spin_kernel() { return bench_spin; }
FillKernel<float> fill_f32_kernel() { return bench_fill<float>; }
FillKernel<uint16_t> fill_bf16_kernel() { return bench_fill<uint16_t>; }
EmptyKernel empty_kernel() { return bench_empty; }
ReadKernel read_kernel() { return bench_read; }

RowVariant row_variant(int variant, int rows) {
  const bool stream = variant % 2 == 1;
  const std::array<const char*, kRowMovers> names = {"mover_2", "mover_2_stream", "mover_4", "mover_4_stream"};
  return {names[static_cast<size_t>(variant)], variant < 2 ? 2 : 4,
          stream ? row_kernel<Load::stream>(rows) : row_kernel<Load::plain>(rows)};
}

SweepVariant sweep_variant(int variant, int rows) {
  const RowVariant like = row_variant(variant, 0);
  return {like.name, like.parts, variant % 2 == 1 ? sweep_kernel<Load::stream>(rows) : sweep_kernel<Load::plain>(rows)};
}

SlotVariant slot_variant(int variant) {
  static constexpr std::array<SlotVariant, kSlotMovers> kVariants = {
      {{"mover_4k", 128, 2, bench_slot_mover<128, 2, false>},
       {"mover_4k_first", 128, 2, bench_slot_mover<128, 2, true>},
       {"mover_16k", 128, 8, bench_slot_mover<128, 8, false>},
       {"mover_16k_first", 128, 8, bench_slot_mover<128, 8, true>},
       {"mover_64k", 512, 8, bench_slot_mover<512, 8, false>},
       {"mover_64k_first", 512, 8, bench_slot_mover<512, 8, true>}}};
  return kVariants[static_cast<size_t>(variant)];
}

}  // namespace silt::bench::gpu
