// The debug mode on an NVIDIA GPU, where it reads memory beside what is running: captures, streams, what is pending on
// them. What it says of every argument is tested in test_debug.cpp, on every device at hand.
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "dispatch/debug.hpp"
#include "kda/decode/cases.hpp"
#include "kda/shared/test/cuda_test.hpp"

namespace silt {
namespace {

using namespace cuda_test;
using namespace std::chrono_literals;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr const char* kLine = "kda_decode b=4 h=12";
constexpr const char* kTold = "kda_decode: state_indices[1]: has 5, needs -1..4";

KdaDecodeCase right_case() { return case_of<KdaDecodeCase>(kLine, 5); }

KdaDecodeCase wrong_case() {
  KdaDecodeCase c = right_case();
  c.state_indices.set_int(1, 5);
  return c;
}

void expect_right(KdaDecodeCase& c) {
  ASSERT_TRUE(c.download().ok());
  const Verdict verdict = c.verify();
  EXPECT_TRUE(verdict.ok) << verdict.detail;
}

class DebugOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no NVIDIA device";
  }
  static Launch checked(const Stream& stream) { return {.stream = stream.get(), .debug = true}; }
};

// A captured stream is refused, and the capture is as good as before; other streams are checked meanwhile, by this
// thread and by others.
TEST_F(DebugOnCuda, ACaptureIsRefusedAndStaysWhole) {
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    const Stream stream;
    const Stream beside;
    KdaDecodeCase captured = right_case();
    KdaDecodeCase here = right_case();
    KdaDecodeCase there = right_case();
    KdaDecodeCase wrong = wrong_case();
    for (KdaDecodeCase* c : {&captured, &here, &there, &wrong}) ASSERT_TRUE(c->upload(kGpu).ok());
    ASSERT_TRUE(kda_decode(here.args(), checked(beside)).ok());  // loads the code, which no capture takes
    ASSERT_TRUE(here.upload(kGpu).ok());
    expect_ok(cudaStreamBeginCapture(stream.get(), mode));
    EXPECT_EQ(kda_decode(captured.args(), checked(stream)).message(),
              "kda_decode: stream: is being captured, needs one that is not with SILT_DEBUG=1 or Launch::debug: memory "
              "cannot be read there, and a replay would go unchecked");
    EXPECT_TRUE(kda_decode(here.args(), checked(beside)).ok());
    EXPECT_EQ(kda_decode(wrong.args(), checked(beside)).message(), kTold);
    std::thread([&] {
      EXPECT_EQ(kda_decode(wrong.args(), checked(beside)).message(), kTold);
      EXPECT_TRUE(kda_decode(there.args(), checked(beside)).ok());
    }).join();
    EXPECT_TRUE(kda_decode(captured.args(), {.stream = stream.get()}).ok());
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    expect_ok(cudaStreamEndCapture(stream.get(), &graph));
    ASSERT_NE(graph, nullptr);
    expect_ok(cudaGraphInstantiate(&replay, graph, 0));
    expect_ok(cudaGraphLaunch(replay, stream.get()));
    stream.wait();
    beside.wait();
    expect_ok(cudaGraphExecDestroy(replay));
    expect_ok(cudaGraphDestroy(graph));
    for (KdaDecodeCase* c : {&captured, &here, &there}) expect_right(*c);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error is left behind";
  }
}

// A captured stream that waits for the default stream: a call there is refused just so, and the capture stays whole.
TEST_F(DebugOnCuda, TheDefaultStreamBesideACaptureIsRefused) {
  KdaDecodeCase captured = right_case();
  KdaDecodeCase other = right_case();
  for (KdaDecodeCase* c : {&captured, &other}) ASSERT_TRUE(c->upload(kGpu).ok());
  ASSERT_TRUE(kda_decode(other.args(), {.debug = true}).ok());
  cudaStream_t blocking = nullptr;
  cudaGraph_t graph = nullptr;
  expect_ok(cudaStreamCreate(&blocking));
  expect_ok(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(kda_decode(other.args(), {.debug = true}).code(), StatusCode::invalid_argument);
  EXPECT_TRUE(kda_decode(captured.args(), {.stream = blocking}).ok());
  expect_ok(cudaStreamEndCapture(blocking, &graph));
  EXPECT_NE(graph, nullptr);
  expect_ok(cudaGraphDestroy(graph));
  expect_ok(cudaStreamDestroy(blocking));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error is left behind";
}

// What is read is what the kernel would find: after all that is pending on the stream.
TEST_F(DebugOnCuda, WhatIsPendingOnTheStreamIsSeen) {
  constexpr size_t kBytes = size_t{256} << 20;
  DeviceBuffer from;
  DeviceBuffer to;
  ASSERT_TRUE(DeviceBuffer::make(kGpu, kBytes, &from).ok());
  ASSERT_TRUE(DeviceBuffer::make(kGpu, kBytes, &to).ok());
  for (const bool mends : {false, true}) {
    const Stream stream;
    KdaDecodeCase c = right_case();
    KdaDecodeCase other = right_case();
    (mends ? c : other).x.set(3, kNaN);
    ASSERT_TRUE(c.upload(kGpu).ok());
    ASSERT_TRUE(other.upload(kGpu).ok());
    for (int i = 0; i < 50; ++i) {
      expect_ok(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, stream.get()));
    }
    const ConstTensorView x = c.args().x;
    const size_t bytes = static_cast<size_t>(c.x.elements()) * size_of(c.x.dtype());
    expect_ok(
        cudaMemcpyAsync(const_cast<void*>(x.data), other.args().x.data, bytes, cudaMemcpyDeviceToDevice, stream.get()));
    const Status status = kda_decode(c.args(), checked(stream));
    EXPECT_EQ(status.message(), mends ? "" : "kda_decode: x[0, 3]: has nan, needs a finite number");
    stream.wait();
  }
}

// A check waits for its own stream and no other.
TEST_F(DebugOnCuda, AnotherStreamIsNotWaitedFor) {
  struct Gate {
    std::atomic<bool> open = false;
    std::atomic<bool> late = false;
  } gate;
  const Stream busy;
  const Stream stream;
  KdaDecodeCase c = right_case();
  ASSERT_TRUE(c.upload(kGpu).ok());
  const auto hold = [](void* data) {
    auto* held = static_cast<Gate*>(data);
    for (int i = 0; i < 10'000 && !held->open; ++i) std::this_thread::sleep_for(1ms);
    held->late = !held->open;
  };
  ASSERT_TRUE(kda_decode(c.args(), checked(stream)).ok());
  stream.wait();
  ASSERT_TRUE(c.upload(kGpu).ok());
  expect_ok(cudaLaunchHostFunc(busy.get(), hold, &gate));
  EXPECT_TRUE(kda_decode(c.args(), checked(stream)).ok());
  stream.wait();
  gate.open = true;
  busy.wait();
  EXPECT_FALSE(gate.late) << "the call waited for a stream that is not its own";
  expect_right(c);
}

// Two threads with a stream each: every call is checked by itself.
TEST_F(DebugOnCuda, TwoStreamsAtOnce) {
  const auto work = [](bool wrong) {
    const Stream stream;
    for (int run = 0; run < 30; ++run) {
      KdaDecodeCase c = wrong ? wrong_case() : right_case();
      ASSERT_TRUE(c.upload(kGpu).ok());
      const Status status = kda_decode(c.args(), checked(stream));
      ASSERT_EQ(status.message(), wrong ? kTold : "");
      stream.wait();
      if (!wrong) expect_right(c);
    }
  };
  std::thread other(work, true);
  work(false);
  other.join();
}

}  // namespace
}  // namespace silt
