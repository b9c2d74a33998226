// What the tests of the KDA rooms on an NVIDIA GPU share: streams and graphs, large pools, and the checks that are the
// same for every operator.
#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/problem_line.hpp"
#include "device/memory.hpp"
#include "proof/case_tensor.hpp"
#include "proof/kernels_here.hpp"

namespace silt::cuda_test {

inline constexpr Device kGpu{DeviceKind::cuda, 0};

inline void expect_ok(cudaError_t code) { ASSERT_EQ(code, cudaSuccess) << cudaGetErrorString(code); }

inline bool has_gpu() {
  DeviceFacts facts;
  return device_facts(kGpu, &facts).ok();
}

/// The CUDA kernels of an operator that this machine runs: none without a GPU.
inline std::vector<KernelHere> cuda_kernels_here(std::string_view op) {
  std::vector<KernelHere> all = kernels_here(op);
  std::erase_if(all, [](const KernelHere& here) { return here.device.kind != DeviceKind::cuda; });
  return all;
}

inline std::string kernel_name(const testing::TestParamInfo<KernelHere>& param) { return param.param.kernel; }

template <class Case>
Case case_of(const std::string& text, uint64_t seed) {
  ProblemLine line;
  decltype(Case::problem) problem;
  Status status = parse_line(text, &line);
  if (status.ok()) status = decltype(problem)::parse(line, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return Case(problem, seed);
}

class Stream {
 public:
  Stream() { expect_ok(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void wait() const { expect_ok(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// What `body` launches on the stream, captured once.
class Graph {
 public:
  template <class Body>
  Graph(const Stream& stream, const Body& body) : stream_(stream) {
    cudaGraph_t graph = nullptr;
    expect_ok(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    body();
    expect_ok(cudaStreamEndCapture(stream.get(), &graph));
    expect_ok(cudaGraphInstantiate(&graph_, graph, 0));
    expect_ok(cudaGraphDestroy(graph));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(graph_); }
  void replay() const { expect_ok(cudaGraphLaunch(graph_, stream_.get())); }

 private:
  const Stream& stream_;
  cudaGraphExec_t graph_ = nullptr;
};

/// Tensors of a case.
template <class Case>
using Members = std::vector<CaseTensor Case::*>;

/// Everything a call writes, as bytes.
template <class Case>
std::vector<std::byte> bytes_of(const Case& c, const Members<Case>& members) {
  std::vector<std::byte> all;
  for (const auto member : members) all.insert(all.end(), (c.*member).bytes().begin(), (c.*member).bytes().end());
  return all;
}

/// Elements of `from` (host, contiguous) over those of `to` on the device, and back.
inline void overwrite(const CaseTensor& to, CaseTensor& from) {
  if (!to.present()) return;
  const size_t bytes = static_cast<size_t>(from.elements()) * size_of(from.dtype());
  expect_ok(cudaMemcpy(to.view().data, from.host_view().data, bytes, cudaMemcpyHostToDevice));
}
inline void fetch(const CaseTensor& from, CaseTensor& to) {
  const size_t bytes = static_cast<size_t>(to.elements()) * size_of(to.dtype());
  expect_ok(cudaMemcpy(to.host_view().data, from.view().data, bytes, cudaMemcpyDeviceToHost));
}

/// Replays a call captured on the memory of `captured`, with the contents of `next`, and compares with the reference.
/// `read` and `written` together are all tensors.
template <class Case>
void expect_replay_is_right(const Graph& graph, const Stream& stream, const Case& captured, Case& next,
                            const Members<Case>& read, const Members<Case>& written) {
  ASSERT_TRUE(next.upload(kGpu).ok());  // keeps what verify compares with
  for (const auto& members : {read, written}) {
    for (const auto member : members) overwrite(captured.*member, next.*member);
  }
  graph.replay();
  stream.wait();
  for (const auto member : written) fetch(captured.*member, next.*member);
  const Verdict verdict = next.verify();
  EXPECT_TRUE(verdict.ok) << next.problem.line() << ": " << verdict.detail;
}

/// A hundred runs of a case while another stream keeps the memory busy, all with the same bits. `call(case, stream)`.
template <class Case, class Call>
void expect_a_hundred_equal_runs(const Case& fresh, const Members<Case>& written, const Call& call) {
  constexpr size_t kBusyBytes = size_t{256} << 20;
  DeviceBuffer from;
  DeviceBuffer to;
  ASSERT_TRUE(DeviceBuffer::make(kGpu, kBusyBytes, &from).ok());
  ASSERT_TRUE(DeviceBuffer::make(kGpu, kBusyBytes, &to).ok());
  const Stream busy;
  const Stream stream;
  std::vector<std::byte> first;
  for (int run = 0; run < 100; ++run) {
    Case c = fresh;
    ASSERT_TRUE(c.upload(kGpu).ok());
    for (int i = 0; i < 8; ++i) {
      expect_ok(cudaMemcpyAsync(to.data(), from.data(), kBusyBytes, cudaMemcpyDeviceToDevice, busy.get()));
    }
    const Status status = call(c, stream);
    ASSERT_TRUE(status.ok()) << status.message();
    stream.wait();
    ASSERT_TRUE(c.download().ok());
    if (run == 0) first = bytes_of(c, written);
    const Verdict same = expect_bitwise("written", bytes_of(c, written), first);
    ASSERT_TRUE(same.ok) << c.problem.line() << " run " << run << ": " << same.detail;
  }
  busy.wait();
}

/// A pool of `slots` slots with any stride on the device, filled with 0xff bytes.
class Pool {
 public:
  Pool(int64_t slots, int64_t stride, int64_t payload, size_t element)
      : stride_(static_cast<size_t>(stride) * element), payload_(static_cast<size_t>(payload) * element) {
    EXPECT_TRUE(DeviceBuffer::make(kGpu, static_cast<size_t>(slots) * stride_, &buffer_).ok());
    expect_ok(cudaMemset(buffer_.data(), 0xff, buffer_.bytes()));
  }
  [[nodiscard]] std::byte* slot(int64_t index) const { return buffer_.data() + static_cast<size_t>(index) * stride_; }
  void put(int64_t index, const void* device_source) const {
    expect_ok(cudaMemcpyAsync(slot(index), device_source, payload_, cudaMemcpyDeviceToDevice, nullptr));
  }
  void take(int64_t index, void* device_target) const {
    expect_ok(cudaMemcpy(device_target, slot(index), payload_, cudaMemcpyDeviceToDevice));
  }
  /// The slot's payload equals `want`, and what follows up to the next slot is untouched.
  void expect_slot(int64_t index, const std::byte* want, std::string_view what) {
    page_.resize(stride_);
    expect_ok(cudaMemcpy(page_.data(), slot(index), stride_, cudaMemcpyDeviceToHost));
    ASSERT_EQ(std::memcmp(page_.data(), want, payload_), 0) << what << " of slot " << index;
    expect_filled(page_.data() + payload_, page_.data() + stride_, what, index);
  }
  void expect_untouched(int64_t index, std::string_view what) {
    page_.resize(stride_);
    expect_ok(cudaMemcpy(page_.data(), slot(index), stride_, cudaMemcpyDeviceToHost));
    expect_filled(page_.data(), page_.data() + stride_, what, index);
  }

 private:
  static void expect_filled(const std::byte* begin, const std::byte* end, std::string_view what, int64_t index) {
    const bool filled = std::all_of(begin, end, [](std::byte b) { return b == std::byte{0xff}; });
    ASSERT_TRUE(filled) << what << ": slot " << index << " was written outside its payload";
  }

  size_t stride_;
  size_t payload_;
  DeviceBuffer buffer_;
  std::vector<std::byte> page_;
};

/// Two rows on the device that are `stride` elements apart, beyond 2^31: a copy of the first two rows of `source`,
/// which are `elements` long each.
class FarRows {
 public:
  FarRows(const CaseTensor& source, int64_t stride, int64_t elements)
      : row_bytes_(static_cast<size_t>(elements) * size_of(source.dtype())),
        step_(static_cast<size_t>(stride) * size_of(source.dtype())),
        near_step_(static_cast<size_t>(source.view().stride[0]) * size_of(source.dtype())) {
    EXPECT_TRUE(DeviceBuffer::make(kGpu, step_ + row_bytes_, &buffer_).ok());
    view_ = source.view();
    near_ = static_cast<std::byte*>(view_.data);
    copy(true);
    view_.data = buffer_.data();
    view_.stride[0] = stride;
  }
  [[nodiscard]] const TensorView& view() const { return view_; }
  /// Back to where the rows came from.
  void bring_back() const { copy(false); }

 private:
  void copy(bool out) const {
    for (size_t row = 0; row < 2; ++row) {
      std::byte* far = buffer_.data() + row * step_;
      std::byte* near = near_ + row * near_step_;
      expect_ok(cudaMemcpy(out ? far : near, out ? near : far, row_bytes_, cudaMemcpyDeviceToDevice));
    }
  }

  size_t row_bytes_;
  size_t step_;
  size_t near_step_;
  TensorView view_;
  std::byte* near_ = nullptr;
  DeviceBuffer buffer_;
};

/// Where slot `index` of a pool tensor stands on the device.
inline std::byte* device_slot(const CaseTensor& pool, int64_t index) {
  const TensorView view = pool.view();
  return static_cast<std::byte*>(view.data) + static_cast<size_t>(index * view.stride[0]) * size_of(view.dtype);
}

}  // namespace silt::cuda_test
