// What host and device code of the AMD kernels agree on: integer names, and pointers as they stand in a kernel's
// argument block. No header of a library: the device compiler has none.
#pragma once

namespace silt::hip {

using int32_t = __INT32_TYPE__;
using int64_t = __INT64_TYPE__;
using uint16_t = __UINT16_TYPE__;
using uint32_t = __UINT32_TYPE__;
using uint64_t = __UINT64_TYPE__;
using uintptr_t = __UINTPTR_TYPE__;

#if defined(__AMDGCN__)
// The address space is part of the type: a global load and never a flat one, which would count as LDS traffic too; and
// `Uniform` (read by no running kernel's stores, one address for the whole wave) becomes a scalar load.
template <class T>
using Global = T __attribute__((address_space(1)))*;
template <class T>
using Uniform = const T __attribute__((address_space(4)))*;
#else
template <class T>
using Global = T*;
template <class T>
using Uniform = const T*;
#endif

/// For division by a number that is known at the launch. The multiply-high by it is item / divisor or one less, for
/// every 32-bit item: the quotient falls short by item * (2^32 - divisor * reciprocal) / (divisor * 2^32), and the
/// bracket is at most the divisor.
constexpr uint32_t reciprocal_of(int64_t divisor) { return static_cast<uint32_t>(0xffffffffLL / divisor); }

}  // namespace silt::hip
