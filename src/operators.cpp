// The list of the library's operators: the one place outside the rooms that names them all.
#include <array>

#include "attn_res/cases.hpp"
#include "dispatch/operator.hpp"
#include "kda/decode/cases.hpp"

namespace silt {

std::span<const Operator> all_operators() {
  static const std::array operators = {
      attn_res_operator(),
      kda_decode_operator(),
  };
  return operators;
}

}  // namespace silt
