// Matrix units by warp: 8 x 8 tiles of bf16 from shared memory, and multiply-accumulate into fp32 (sm_80 and later).
//
// A tile is spread over the warp: lane l has columns 2*(l % 4) and + 1 of row l / 4, as one 32-bit word; a transposed
// one rows 2*(l % 4) and + 1 of column l / 4. A 16 x 16 operand is the four tiles (rows, columns) (0,0), (8,0), (0,8),
// (8,8), a 16 x 8 one the first two; a result of 16 x 8 is four floats: row l / 4, columns 2*(l % 4) and + 1, then the
// same of row 8 + l / 4.
#pragma once

#include "gpu/config.hpp"

namespace silt::gpu {

/// Four tiles; lanes 8*i .. 8*i + 7 give the addresses of tile i's rows, 16 bytes each.
SILT_DEVICE void load_tiles(uint32_t (&tiles)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
               : "r"(row)
               : "memory");
}
SILT_DEVICE void load_tiles_transposed(uint32_t (&tiles)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
               : "r"(row)
               : "memory");
}

/// sum += a * b^T: a is 16 x 16, b is given as two tiles of 8 rows by 8 of the 16 columns.
SILT_DEVICE void multiply_16(float (&sum)[4], uint4 a, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
/// sum += a * b: a is 16 x 8 (two tiles), b is an 8 x 8 tile that was loaded transposed.
SILT_DEVICE void multiply_8(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(b));
}

/// The 4 x 4 words of four neighbouring lanes, transposed: word i of lane t becomes word t of lane i.
SILT_DEVICE uint4 transpose_quad(const uint32_t (&words)[4], int lane) {
  constexpr unsigned kAll = 0xffffffffu;
  const bool odd = (lane & 1) != 0;
  const bool upper = (lane & 2) != 0;
  const uint32_t a = __shfl_xor_sync(kAll, odd ? words[0] : words[1], 1);
  const uint32_t b = __shfl_xor_sync(kAll, odd ? words[2] : words[3], 1);
  const uint32_t low0 = odd ? a : words[0];
  const uint32_t low1 = odd ? words[1] : a;
  const uint32_t high0 = odd ? b : words[2];
  const uint32_t high1 = odd ? words[3] : b;
  const uint32_t c = __shfl_xor_sync(kAll, upper ? low0 : high0, 2);
  const uint32_t d = __shfl_xor_sync(kAll, upper ? low1 : high1, 2);
  return upper ? make_uint4(c, d, high0, high1) : make_uint4(low0, low1, c, d);
}

}  // namespace silt::gpu
