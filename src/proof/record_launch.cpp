#include "proof/record_launch.hpp"

#include <algorithm>
#include <cstring>

#include "device/hip_objects.hpp"

namespace silt {
namespace {

uint64_t word_at(const std::vector<std::byte>& bytes, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

/// The tensor whose memory on its device holds this address, and how far in; false where there is none.
bool find_pointer(const std::vector<NamedTensor>& tensors, uint64_t word, LaunchDump::Pointer* found) {
  int64_t number = 0;
  for (const NamedTensor& named : tensors) {
    if (!named.tensor->present()) continue;
    const auto begin = reinterpret_cast<uint64_t>(named.tensor->device_bytes());
    if (word >= begin && word - begin < named.tensor->bytes().size()) {
      found->buffer = number;
      found->offset = static_cast<int64_t>(word - begin);
      return true;
    }
    ++number;
  }
  return false;
}

}  // namespace

Status describe_launch(const CaseLaunch& first, const CaseLaunch& second, const DeviceFacts& facts, LaunchDump* dump) {
  const hip::RecordedLaunch& launch = first.launch;
  const hip::CodeObject* object = hip::find_code_object(launch.object, facts.arch);
  if (object == nullptr) {
    return failed(StatusCode::unsupported, "{}: no code for {}, needs one of {}", launch.object, facts.arch,
                  hip::built_isas());
  }
  hip::KernelDescriptor descriptor;
  SILT_TRY(hip::read_descriptor(*object, launch.symbol, &descriptor));
  if (descriptor.args_bytes != launch.args.size()) {
    return failed(StatusCode::device_error, "{}: arguments: has {} bytes, the code object needs {}", launch.symbol,
                  launch.args.size(), descriptor.args_bytes);
  }
  dump->kernel = first.kernel;
  dump->isa = facts.arch;
  dump->symbol = launch.symbol;
  dump->code = object->image;
  dump->groups = launch.groups;
  dump->threads = launch.threads;
  dump->lds_bytes = descriptor.local_bytes;
  dump->args = launch.args;
  for (size_t at = 0; at + sizeof(uint64_t) <= launch.args.size(); at += sizeof(uint64_t)) {
    LaunchDump::Pointer one{static_cast<int64_t>(at), 0, 0};
    LaunchDump::Pointer two = one;
    const bool pointer = find_pointer(first.tensors, word_at(launch.args, at), &one);
    const bool again = find_pointer(second.tensors, word_at(second.launch.args, at), &two);
    const bool same = pointer ? one.buffer == two.buffer && one.offset == two.offset
                              : word_at(launch.args, at) == word_at(second.launch.args, at);
    if (pointer != again || !same) {
      return failed(StatusCode::device_error, "{}: arguments: byte {} is neither an address nor always the same",
                    launch.symbol, at);
    }
    if (!pointer) continue;
    std::fill_n(dump->args.begin() + static_cast<std::ptrdiff_t>(at), sizeof(uint64_t), std::byte{0});
    dump->pointers.push_back(one);
  }
  for (const NamedTensor& named : first.tensors) {
    const CaseTensor& tensor = *named.tensor;
    if (!tensor.present()) continue;
    dump->buffers.push_back({named.name,
                             named.written,
                             tensor.dtype(),
                             static_cast<int64_t>(tensor.origin()),
                             tensor.shape(),
                             tensor.stride(),
                             tensor.bytes(),
                             {}});
  }
  return {};
}

Status set_written(const std::vector<NamedTensor>& tensors, const WrittenBuffers& written) {
  size_t expected = 0;
  for (const NamedTensor& named : tensors) {
    if (!named.tensor->present() || !named.written) continue;
    ++expected;
    const auto found =
        std::find_if(written.begin(), written.end(), [&](const auto& entry) { return entry.first == named.name; });
    if (found == written.end()) return invalid("{}: missing among the written buffers", named.name);
    if (found->second.size() != named.tensor->bytes().size()) {
      return invalid("{}: has {} bytes, needs {}", named.name, found->second.size(), named.tensor->bytes().size());
    }
    named.tensor->set_bytes(found->second);
  }
  if (written.size() != expected) return invalid("written buffers: has {}, needs {}", written.size(), expected);
  return {};
}

}  // namespace silt
