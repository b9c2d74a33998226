// The compiled kernels of this room, for the host code that launches them. nvcc does not read the library's host
// headers (fmt's constant evaluation), so the .cu files hold instances and nothing else.
#pragma once

#include "kda/decode/cuda/forms.hpp"
#include "kda/decode/cuda/params.hpp"

namespace silt::kda_decode_cuda {

using Kernel = void (*)(Params);

/// Null where there is no such instance. `state_bytes` is the size of a state element.
Kernel sm90_heads_kernel(int state_bytes, kda_decode_cuda_sm90_heads::FormId form);
Kernel sm80_rows_kernel(int state_bytes, bool aligned);
constexpr int kSm80RowsThreads = 256;

}  // namespace silt::kda_decode_cuda
