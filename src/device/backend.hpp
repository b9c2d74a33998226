// What the library asks of a GPU backend. cuda.cu implements it where CUDA is built, cuda_none.cpp says why it is
// missing.
#pragma once

#include <cstddef>
#include <string>

#include "silt/device.hpp"

namespace silt::backend {

/// Empty where CUDA kernels were built and a device answers; else the reason.
const std::string& cuda_missing();
int cuda_device_count();
Status cuda_facts(int index, DeviceFacts* facts);

Status cuda_allocate(int index, size_t bytes, void** data);
void cuda_release(int index, void* data);
enum class Copy { to_device, to_host };
/// Blocks until the copy is done.
Status cuda_copy(int index, void* target, const void* source, size_t bytes, Copy direction);
Status cuda_synchronize(int index, void* stream);

}  // namespace silt::backend
