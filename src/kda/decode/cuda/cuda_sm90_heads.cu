// Instances of cuda_sm90_heads.
#include "kda/decode/cuda/cuda_sm90_heads.cuh"
#include "kda/decode/cuda/instances.hpp"

namespace silt::kda_decode_cuda_sm90_heads {
namespace {

struct Instance {
  int state_bytes;
  FormId form;
  Kernel kernel;
};

template <class State, FormId kId>
constexpr Instance instance() {
  constexpr Form kForm = form_of(kId);
  constexpr int kStagedBytes = kForm.bulk ? kHeadDim / kForm.cluster * kHeadDim * static_cast<int>(sizeof(State)) : 0;
  static_assert(shared_bytes(kForm, sizeof(State)) == sizeof(Shared<State, kForm>) + kStagedBytes);
  return {sizeof(State), kId, kda_decode_cuda_sm90_heads<State, kId>};
}

const Instance kInstances[] = {
    instance<float, FormId::c4_256>(),         instance<float, FormId::c2_256>(),
    instance<float, FormId::c4_128>(),         instance<float, FormId::c4_128_six>(),
    instance<float, FormId::c1_256>(),         instance<float, FormId::c1_256_keep>(),
    instance<float, FormId::bulk_128>(),       instance<uint16_t, FormId::c2_256>(),
    instance<uint16_t, FormId::c1_256>(),      instance<uint16_t, FormId::c1_128>(),
    instance<uint16_t, FormId::c1_128_keep>(), instance<uint16_t, FormId::bulk_128_half>(),
};

}  // namespace
}  // namespace silt::kda_decode_cuda_sm90_heads

namespace silt::kda_decode_cuda {

Kernel sm90_heads_kernel(int state_bytes, kda_decode_cuda_sm90_heads::FormId form) {
  for (const auto& one : kda_decode_cuda_sm90_heads::kInstances) {
    if (one.state_bytes == state_bytes && one.form == form) return one.kernel;
  }
  return nullptr;
}

}  // namespace silt::kda_decode_cuda
