// Instances of cuda_sm80_rows.
#include "kda/decode/cuda/cuda_sm80_rows.cuh"
#include "kda/decode/cuda/instances.hpp"

namespace silt::kda_decode_cuda {

Kernel sm80_rows_kernel(int state_bytes, bool aligned) {
  namespace rows = kda_decode_cuda_sm80_rows;
  if (state_bytes == 2) {
    return aligned ? rows::kda_decode_cuda_sm80_rows<uint16_t, true> : rows::kda_decode_cuda_sm80_rows<uint16_t, false>;
  }
  return aligned ? rows::kda_decode_cuda_sm80_rows<float, true> : rows::kda_decode_cuda_sm80_rows<float, false>;
}

}  // namespace silt::kda_decode_cuda
