// Loops that move bytes on the CPU and do nothing else: the ceilings, and what the operators' movers are made of.
// Highway, run-time dispatch. Pointers are 64-byte aligned, byte counts multiples of 64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace silt::bench {

void copy_plain(std::byte* target, const std::byte* source, int64_t bytes);
/// Non-temporal stores: the target is not read first, and goes past the caches.
void copy_nontemporal(std::byte* target, const std::byte* source, int64_t bytes);
/// Flips the sign bit of every 16-bit half in place: numbers stay as large as they are.
void update_in_place(std::byte* data, int64_t bytes);
/// The same with the line 4 KiB ahead prefetched, running on into `next` (bytes long, or null).
void update_in_place_ahead(std::byte* data, int64_t bytes, const std::byte* next);
/// The same with `next` prefetched into L2 line for line instead.
void update_in_place_next(std::byte* data, int64_t bytes, const std::byte* next);
/// Reads; the sum keeps the loads alive.
uint64_t read_only(const std::byte* source, int64_t bytes);

/// One token of attn_res as bytes: all bank rows and the delta read, the prefix rewritten unchanged, the output (and a
/// bank slot) written non-temporally.
struct MovedToken {
  const std::byte* bank = nullptr;
  int64_t slot_stride = 0;
  int64_t rows = 0;
  std::byte* prefix = nullptr;
  const std::byte* delta = nullptr;  ///< null where absent
  std::byte* slot = nullptr;         ///< null where no slot is written
  std::byte* output = nullptr;
  int64_t row_bytes = 0;
};
/// `ahead`: prefetch one row ahead of the bank rows.
void move_token(const MovedToken& token, bool ahead);

/// Independent 32-bit multiply-adds on full vectors, `count` of them; returns how many floating-point operations that
/// was.
double multiply_add(int64_t count);

}  // namespace silt::bench
