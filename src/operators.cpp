// The list of the library's operators: the one place outside the rooms that names them all.
#include <array>

#include "attn_res/cases.hpp"
#include "attn_res/two_phase/cases.hpp"
#include "dispatch/operator.hpp"
#include "kda/conv_update/cases.hpp"
#include "kda/decode/cases.hpp"
#include "kda/gated_norm/cases.hpp"
#include "kda/prefill/cases.hpp"
#include "kda/recurrence/cases.hpp"

namespace silt {

std::span<const Operator> all_operators() {
  static const std::array operators = {
      attn_res_operator(),    attn_res_partials_operator(),    attn_res_merge_operator(), kda_decode_operator(),
      kda_prefill_operator(), causal_conv1d_update_operator(), kda_recurrence_operator(), rms_norm_gated_operator(),
  };
  return operators;
}

}  // namespace silt
