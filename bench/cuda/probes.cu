// What: the kernels that are ceilings: empty, copy, read, and the operators' bytes moved with nothing else done.
//
// The movers are the strongest found for their pattern. attn_res: direct 16-byte loads of a token's rows by two or four
// blocks; L1::no_allocate wins below a few hundred tokens and loses above. Recurrent state: blocks of 4, 16 or 64 KiB, all
// loads before the first store, with and without evict-first; 4 KiB blocks give the memory a narrow linear window and win
// at large batches. They trigger their dependents right after their own wait, as the operators do.
#include <algorithm>
#include <array>

#include "bench/cuda/cuda_status.hpp"
#include "bench/gpu_protocol.hpp"

namespace silt::bench::gpu {
namespace {

__device__ __forceinline__ void pdl_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void pdl_trigger() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

enum class Hint { plain, no_allocate, streaming };

/// Volatile, with a memory clobber: the compiler may not move it across the dependency wait.
template <Hint kHint>
__device__ __forceinline__ uint4 load(const void* p) {
  uint4 v;
  if constexpr (kHint == Hint::plain) {
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
  } else if constexpr (kHint == Hint::no_allocate) {
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
  } else {
    asm volatile("ld.global.cs.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
  }
  return v;
}

template <Hint kHint>
__device__ __forceinline__ void store(void* p, uint4 v) {
  if constexpr (kHint == Hint::streaming) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
  } else {
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
  }
}

__device__ __forceinline__ uint4 combine(uint4 a, uint4 b) {
  return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w);
}

__global__ void bench_empty() {
  pdl_wait();
  pdl_trigger();
}

__global__ void __launch_bounds__(512) bench_read(const uint4* source, int64_t count, unsigned* never) {
  constexpr int kInFlight = 8;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  uint4 sum = make_uint4(0, 0, 0, 0);
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + (kInFlight - 1) * step < count; i += kInFlight * step) {
    uint4 v[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) v[j] = load<Hint::plain>(source + i + j * step);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) sum = combine(sum, v[j]);
  }
  for (; i < count; i += step) sum = combine(sum, load<Hint::plain>(source + i));
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x12345678U && never != nullptr) *never = sum.x;
}

/// Block b moves part b % parts of token b / parts, 16 bytes of every row per thread.
template <int kRows, Hint kHint>
__global__ void __launch_bounds__(512) bench_row_mover(RowMover m, int parts, bool late) {
  const int64_t token = blockIdx.x / parts;
  const int64_t at = (static_cast<int64_t>(blockIdx.x % parts) * blockDim.x + threadIdx.x) * 16;
  const bool active = at < m.row_bytes;
  if (!late) {
    pdl_wait();
    pdl_trigger();
  }
  const char* bank = static_cast<const char*>(m.bank) + token * m.bank_token_stride + at;
  uint4 row[kRows + 1];
  if (active) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) row[i] = load<kHint>(bank + i * m.bank_slot_stride);
  }
  if (late) {
    pdl_wait();
    pdl_trigger();
  }
  if (!active) return;
  char* prefix = static_cast<char*>(m.prefix) + token * m.prefix_stride + at;
  const uint4 p = load<kHint>(prefix);
  uint4 sum = p;
  if (m.delta != nullptr) {
    sum = combine(sum, load<Hint::plain>(static_cast<const char*>(m.delta) + token * m.delta_stride + at));
    store<Hint::plain>(prefix, p);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) sum = combine(sum, row[i]);
  if (m.write >= 0) {
    store<Hint::plain>(static_cast<char*>(const_cast<void*>(m.bank)) + token * m.bank_token_stride +
                           m.write * m.bank_slot_stride + at,
                       p);
  }
  store<Hint::plain>(static_cast<char*>(m.output) + token * m.output_stride + at, sum);
}

/// Block b moves piece b % pieces of row b / pieces: kVectors vectors of 16 bytes per thread, signs flipped.
template <int kThreads, int kVectors, Hint kHint>
__global__ void __launch_bounds__(kThreads) bench_slot_mover(SlotMover m, int pieces) {
  constexpr int64_t kPiece = static_cast<int64_t>(kThreads) * kVectors * 16;
  const int row = blockIdx.x / pieces;
  char* p = static_cast<char*>(m.state) + m.indices[row] * m.slot_stride + (blockIdx.x % pieces) * kPiece +
            threadIdx.x * 16;
  uint4 v[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) v[i] = load<kHint>(p + i * kThreads * 16);
  pdl_wait();
  pdl_trigger();
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    v[i] = combine(v[i], make_uint4(0x80008000U, 0x80008000U, 0x80008000U, 0x80008000U));
  }
  __syncthreads();  // every load of the block has landed before its first store: reads and writes come in runs
#pragma unroll
  for (int i = 0; i < kVectors; ++i) store<kHint>(p + i * kThreads * 16, v[i]);
}

template <class... Parameters, class... Arguments>
Status launch(void (*kernel)(Parameters...), int64_t blocks, int threads, Pdl pdl, void* stream, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = pdl == Pdl::off ? 0 : 1;
  return cuda_status("cudaLaunchKernelEx", cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

template <Hint kHint>
Status launch_rows(const RowMover& m, int64_t blocks, int threads, int parts, Pdl pdl, void* stream) {
  using Kernel = void (*)(RowMover, int, bool);
  static constexpr std::array<Kernel, kMaxMoverRows + 1> kKernels = {
      bench_row_mover<0, kHint>, bench_row_mover<1, kHint>, bench_row_mover<2, kHint>,
      bench_row_mover<3, kHint>, bench_row_mover<4, kHint>, bench_row_mover<5, kHint>,
      bench_row_mover<6, kHint>, bench_row_mover<7, kHint>, bench_row_mover<8, kHint>};
  return launch(kKernels[static_cast<size_t>(m.rows)], blocks, threads, pdl, stream, m, parts, pdl == Pdl::late);
}

template <int kThreads, int kVectors, Hint kHint>
Status launch_slots(const SlotMover& m, Pdl pdl, void* stream) {
  constexpr int64_t kPiece = static_cast<int64_t>(kThreads) * kVectors * 16;
  if (m.slot_payload % kPiece != 0) {
    return {StatusCode::invalid_argument, "slot mover: payload: has " + std::to_string(m.slot_payload) +
                                              " bytes, needs a multiple of " + std::to_string(kPiece)};
  }
  const int64_t pieces = m.slot_payload / kPiece;
  return launch(bench_slot_mover<kThreads, kVectors, kHint>, m.rows * pieces, kThreads, pdl, stream, m,
                static_cast<int>(pieces));
}

}  // namespace

Status launch_empty(int ctas, Pdl pdl, void* stream) { return launch(bench_empty, ctas, 128, pdl, stream); }

Status launch_copy(void* target, const void* source, size_t bytes, void* stream) {
  return cuda_status("cudaMemcpyAsync", cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice,
                                                        static_cast<cudaStream_t>(stream)));
}

Status launch_read(const void* source, size_t bytes, void* stream) {
  int device = 0;
  int processors = 0;
  SILT_CUDA_TRY(cudaGetDevice(&device));
  SILT_CUDA_TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  return launch(bench_read, 2 * processors, 512, Pdl::off, stream, static_cast<const uint4*>(source),
                static_cast<int64_t>(bytes / 16), static_cast<unsigned*>(nullptr));
}

std::string row_mover_name(int variant) {
  static constexpr std::array<const char*, kRowMovers> kNames = {"mover_2", "mover_2_noalloc", "mover_4",
                                                                 "mover_4_noalloc"};
  return kNames[static_cast<size_t>(variant)];
}

Status launch_row_mover(const RowMover& m, int variant, Pdl pdl, void* stream) {
  constexpr int64_t kMostThreads = 512;
  const int64_t vectors = (m.row_bytes + 15) / 16;
  const int64_t parts = std::max<int64_t>(variant < 2 ? 2 : 4, (vectors + kMostThreads - 1) / kMostThreads);
  const auto threads = static_cast<int>(((vectors + parts - 1) / parts + 31) / 32 * 32);
  const auto launch_one = variant % 2 == 0 ? launch_rows<Hint::plain> : launch_rows<Hint::no_allocate>;
  return launch_one(m, m.tokens * parts, threads, static_cast<int>(parts), pdl, stream);
}

std::string slot_mover_name(int variant) {
  static constexpr std::array<const char*, kSlotMovers> kNames = {"mover_4k",    "mover_4k_cs", "mover_16k",
                                                                  "mover_16k_cs", "mover_64k",   "mover_64k_cs"};
  return kNames[static_cast<size_t>(variant)];
}

Status launch_slot_mover(const SlotMover& m, int variant, Pdl pdl, void* stream) {
  using Launcher = Status (*)(const SlotMover&, Pdl, void*);
  static constexpr std::array<Launcher, kSlotMovers> kLaunchers = {
      launch_slots<128, 2, Hint::plain>, launch_slots<128, 2, Hint::streaming>,
      launch_slots<128, 8, Hint::plain>, launch_slots<128, 8, Hint::streaming>,
      launch_slots<512, 8, Hint::plain>, launch_slots<512, 8, Hint::streaming>};
  return kLaunchers[static_cast<size_t>(variant)](m, pdl, stream);
}

}  // namespace silt::bench::gpu
