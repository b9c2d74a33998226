// The operators as functions of a Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace silt::python {

void add_operators(nanobind::module_& module);

}  // namespace silt::python
