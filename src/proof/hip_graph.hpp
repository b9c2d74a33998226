// A captured launch replayed on the stand-in for an AMD device, for the tests of every room with AMD kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "device/hip_runtime.hpp"
#include "proof/room_test.hpp"

namespace silt {

/// What captures a stream of the stand-in, where any address is one, into a graph.
struct HipCapture {
  hip::Error (*begin)(void* stream, int mode);
  hip::Error (*end)(void* stream, void** graph);
  hip::Error (*destroy)(void* graph);
};
inline HipCapture hip_capture() {
  return {reinterpret_cast<decltype(HipCapture::begin)>(hip::find_symbol("hipStreamBeginCapture")),
          reinterpret_cast<decltype(HipCapture::end)>(hip::find_symbol("hipStreamEndCapture")),
          reinterpret_cast<decltype(HipCapture::destroy)>(hip::find_symbol("hipGraphDestroy"))};
}

/// `call(args, launch)` on the memory of `line`'s case, captured into a graph: nothing runs. Then the graph, replayed
/// with the contents of other cases of the same sizes, is right for each of them.
template <class Case, class Call>
void expect_replays_follow_memory(const std::string& line, std::initializer_list<const char*> next_lines,
                                  const Call& call) {
  using hip::Error;
  const HipCapture capture = hip_capture();
  const auto instantiate =
      reinterpret_cast<Error (*)(void**, void*, unsigned long long)>(hip::find_symbol("hipGraphInstantiateWithFlags"));
  const auto replay = reinterpret_cast<Error (*)(void*, void*)>(hip::find_symbol("hipGraphLaunch"));
  const auto destroy_executable = reinterpret_cast<Error (*)(void*)>(hip::find_symbol("hipGraphExecDestroy"));
  for (const int index : {0, 1}) {
    const Device device{DeviceKind::hip, index};
    Case captured(parsed<decltype(Case::problem)>(line), 50);
    ASSERT_TRUE(captured.upload(device).ok());
    int stream = 0;
    void* graph = nullptr;
    void* executable = nullptr;
    ASSERT_EQ(capture.begin(&stream, 0), hip::kSuccess);
    const Status status = call(captured.args(), Launch{.stream = &stream});
    EXPECT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(capture.end(&stream, &graph), hip::kSuccess);
    ASSERT_EQ(instantiate(&executable, graph, 0), hip::kSuccess);
    ASSERT_EQ(capture.destroy(graph), hip::kSuccess);
    uint64_t seed = 51;
    for (const char* next_line : next_lines) {
      Case next(parsed<decltype(Case::problem)>(next_line), seed++);
      ASSERT_TRUE(next.upload(device).ok());
      const auto copy = [&](bool back) {
        for (size_t i = 0; i < next.tensors().size(); ++i) {
          const CaseTensor& a = *captured.tensors()[i].tensor;
          const CaseTensor& b = *next.tensors()[i].tensor;
          ASSERT_EQ(a.bytes().size(), b.bytes().size()) << "cases of other sizes";
          if (!a.present()) continue;
          std::memcpy(const_cast<std::byte*>((back ? b : a).device_bytes()), (back ? a : b).device_bytes(),
                      a.bytes().size());
        }
      };
      copy(false);
      ASSERT_EQ(replay(executable, &stream), hip::kSuccess);
      copy(true);
      ASSERT_TRUE(next.download().ok());
      const Verdict verdict = next.verify();
      EXPECT_TRUE(verdict.ok) << next_line << ": " << verdict.detail;
    }
    ASSERT_EQ(destroy_executable(executable), hip::kSuccess);
  }
}

}  // namespace silt
