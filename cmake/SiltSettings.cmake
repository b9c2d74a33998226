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

if(SILT_MODEL)
  set(SILT_DNNL DNNL::dnnl gomp) # gomp: its threads are set per call
endif()

# silt_test(NAME sources...): one GoogleTest program of the internal library, registered with CTest.
function(silt_test name)
  if(NOT SILT_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE silt_internal silt_settings GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE SILT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "90a-real;100f-real") # kernels of tests use PDL
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
endfunction()
