#include <fmt/format.h>

#include "silt/device.hpp"

int main() { fmt::print("{}", silt::describe_devices()); }
