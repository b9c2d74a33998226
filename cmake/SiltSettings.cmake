# Language, warnings, sanitizers: the same for every target of this repository.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3") # asserts stay on: they are cheap where they stand

add_library(silt_settings INTERFACE)
target_compile_options(silt_settings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow;-Wnon-virtual-dtor;-Wold-style-cast;-Werror>
  # Contracted multiply-adds would make the plain loops differ between compilers; kernels that want them say so.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(SILT_SANITIZE)
  add_compile_options(-fsanitize=${SILT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SILT_SANITIZE})
endif()

# Two builds of one commit differ in nothing but time: with precompiled headers a source costs a third less, without them a
# header that is not included where it is needed is found. The sanitizer builds have them, the release build does not.
option(SILT_PRECOMPILE "Precompile the headers of the standard library and fmt" OFF)
# silt_precompile(TARGET HEADER...): not for sources with instruction sets of their own.
function(silt_precompile target)
  if(NOT SILT_PRECOMPILE)
    return()
  endif()
  set(headers ${ARGN})
  list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

# The precompiled headers of all tests: a program, since code of programs is compiled in a mode of its own.
function(silt_test_headers)
  if(TARGET silt_test_headers)
    return()
  endif()
  file(WRITE ${PROJECT_BINARY_DIR}/test_headers.cpp "int main() {}\n")
  add_executable(silt_test_headers EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/test_headers.cpp)
  target_link_libraries(silt_test_headers PRIVATE silt_internal silt_settings GTest::gtest_main)
  target_compile_definitions(silt_test_headers PRIVATE SILT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(silt_test_headers PRIVATE -O0)
  silt_precompile(silt_test_headers algorithm array atomic cmath cstdint cstring functional memory optional random span
    string string_view thread vector fmt/format.h gtest/gtest.h)
endfunction()

# silt_test(NAME sources...): one GoogleTest program of the internal library, registered with CTest.
function(silt_test name)
  if(NOT SILT_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE silt_internal silt_settings GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE SILT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(SILT_SANITIZE)
    target_compile_options(${name} PRIVATE -O0) # half the time to compile; what is tested is in silt_internal
    if(SILT_PRECOMPILE)
      silt_test_headers()
      target_precompile_headers(${name} REUSE_FROM silt_test_headers)
    endif()
  else()
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  endif()
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "90a-real;100f-real") # kernels of tests use PDL
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
endfunction()
