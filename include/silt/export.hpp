// SILT_API marks what libsilt exports; everything else in the shared library is hidden.
#pragma once

#define SILT_API __attribute__((visibility("default")))

// The version of the headers; silt::version() is that of the library that was loaded.
#define SILT_VERSION_MAJOR 0
#define SILT_VERSION_MINOR 1
#define SILT_VERSION_PATCH 0
