// kda_decode as silt-bench measures it.
#pragma once

#include "bench/subject.hpp"

namespace silt::bench {

Room kda_decode_room();

}  // namespace silt::bench
