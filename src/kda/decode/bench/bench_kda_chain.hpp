// kda_decode as the three operators that it fuses: what silt-bench measures the fused kernels against.
#pragma once

#include <string_view>

#include "silt/choose.hpp"
#include "silt/kda_decode.hpp"

namespace silt::bench {

/// fp32 between the steps, so that the chain equals the fused operator to fp32 rounding and the same oracle holds.
/// chain_f32 takes what every step's own call takes; chain_plain_f32 the portable CPU kernels, which do not look ahead.
inline constexpr std::string_view kChain = "chain_f32";
inline constexpr std::string_view kChainPlain = "chain_plain_f32";

/// What lies between the steps, contiguous fp32.
struct ChainBuffers {
  float* qkv = nullptr;  ///< [B, 3P]
  float* o = nullptr;    ///< [B, H, 128]
};

Status launch_kda_chain(const KdaDecodeArgs& args, const ChainBuffers& between, std::string_view chain,
                        const Launch& options);

/// unsupported, with the reason, where a step has no kernel for this decode problem line on such a device.
Status chain_accepts(std::string_view chain, std::string_view text, const DeviceFacts& facts);

}  // namespace silt::bench
