// causal_conv1d_update as silt-bench measures it.
#pragma once

#include "bench/subject.hpp"

namespace silt::bench {

Room causal_conv1d_update_room();

}  // namespace silt::bench
