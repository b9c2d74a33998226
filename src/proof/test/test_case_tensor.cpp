#include <gtest/gtest.h>

#include <cmath>

#include "proof/case_tensor.hpp"

namespace silt {
namespace {

// What a faulty kernel does: the sanitizer, which would stop it, is not asked.
__attribute__((noinline, no_sanitize("address"))) bf16 exchange(bf16* at, bf16 value) {
  const bf16 before = *at;
  *at = value;
  return before;
}

TEST(CaseTensor, StridedElementsAndGuards) {
  CaseTensor tensor(DType::bf16, {2, 3}, {10, 1}, 1);
  tensor.fill([](int64_t i) { return static_cast<float>(i); });
  ASSERT_TRUE(tensor.to_device({}).ok());
  const std::vector<std::byte> before = tensor.bytes();
  const TensorView view = tensor.view();
  auto* data = static_cast<bf16*>(view.data);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 4, 2u) << "one element off";
  EXPECT_EQ(to_float(data[10 + 2]), 5.0F);
  EXPECT_TRUE(std::isnan(to_float(data[3]))) << "padding is poison";

  data[12] = to_bf16(9.0F);
  ASSERT_TRUE(tensor.from_device().ok());
  EXPECT_EQ(tensor.get(5), 9.0F);
  EXPECT_TRUE(tensor.outside_untouched("x", before).ok) << "an element of the view may change";
  for (const int64_t stray : {-1, 3, 9, 13}) {
    const bf16 saved = exchange(data + stray, to_bf16(1.0F));
    ASSERT_TRUE(tensor.from_device().ok());
    EXPECT_FALSE(tensor.outside_untouched("x", before).ok) << stray;
    exchange(data + stray, saved);
  }
}

#ifdef SILT_SANITIZES_ADDRESSES
TEST(CaseTensor, ReadingAroundItStopsTheProgram) {
  CaseTensor tensor(DType::f32, {16});
  tensor.fill([](int64_t) { return 1.0F; });
  ASSERT_TRUE(tensor.to_device({}).ok());
  const auto* data = static_cast<const volatile float*>(tensor.view().data);
  EXPECT_EQ(data[15], 1.0F);
  EXPECT_DEATH(static_cast<void>(data[-1]), "use-after-poison");
  EXPECT_DEATH(static_cast<void>(data[16]), "use-after-poison");
}
#endif

TEST(CaseTensor, RangeUntouchedFindsAChange) {
  CaseTensor tensor(DType::f32, {4});
  tensor.fill([](int64_t) { return 1.0F; });
  const CaseTensor before = tensor;
  tensor.set(2, 1.0000001F);
  EXPECT_TRUE(tensor.range_untouched("x", before, 0, 2).ok);
  EXPECT_FALSE(tensor.range_untouched("x", before, 0, 4).ok);
}

}  // namespace
}  // namespace silt
