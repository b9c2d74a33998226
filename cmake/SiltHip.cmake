# The AMD kernels. SILT_HIP: AUTO builds what the compilers at hand can build, ON demands all of it, OFF nothing. No ROCm:
# clang with its AMDGPU target and lld, per architecture the first compiler that can.
#
#   gfx942  clang 19 or newer (Debian: clang-19 lld-19)
#   gfx950  clang 20 or newer, which the Python wheel `ziglang` brings with its own lld
#
#   silt_hip_kernels(NAME SOURCE.hip [FLAG...])  in a room: compiles the source for every architecture (with these flags
#                                      more), adds it to the stand-in device that the tests run it on, and tells the
#                                      room's kernels.cpp
#   silt_hip_embed()                   once, at the end: the code objects as a source of silt_objects
#
# SILT_HIP_OUT_OF_PLACE compiles moves between lanes so that their destination is never their source: correct code
# either way, but some functional emulators update lanes one after the other and get the in-place form wrong.
set(SILT_HIP AUTO CACHE STRING "Build the AMD kernels: AUTO (what the compilers at hand can build), ON (all) or OFF")
set_property(CACHE SILT_HIP PROPERTY STRINGS AUTO ON OFF)
option(SILT_HIP_OUT_OF_PLACE "Code objects for functional emulators: moves between lanes are never in place" OFF)
set(SILT_HIP_ISAS "")
set(silt_hip_all_isas gfx942 gfx950)
define_property(GLOBAL PROPERTY SILT_HIP_SOURCES BRIEF_DOCS "name|file|flags of every kernel source")

set(silt_hip_flags -x hip --offload-device-only -nogpuinc -nogpulib -fuse-cuid=none -O3 -std=c++20 -ffp-contract=off
  -Wall -Wextra -Wconversion -Wshadow -Werror -I${PROJECT_SOURCE_DIR}/src)
if(SILT_HIP_OUT_OF_PLACE)
  list(APPEND silt_hip_flags -mllvm -amdgpu-dpp-combine=0)
endif()

# silt_hip_try(ISA RESULT_CLANG RESULT_LLD CLANG LLD): sets the results where an empty kernel goes the whole way.
function(silt_hip_try isa result_clang result_lld clang lld)
  set(base ${PROJECT_BINARY_DIR}/CMakeFiles/silt_hip_${isa})
  file(WRITE ${base}.hip "extern \"C\" __attribute__((global)) void probe(int* p) { *p = 1; }\n")
  execute_process(COMMAND ${clang} ${silt_hip_flags} --offload-arch=${isa} -S -o ${base}.s ${base}.hip
    RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
  if(code EQUAL 0)
    execute_process(COMMAND ${clang} --target=amdgcn-amd-amdhsa -mcpu=${isa} -c -o ${base}.o ${base}.s
      RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
  endif()
  if(code EQUAL 0)
    execute_process(COMMAND ${lld} -shared -o ${base}.hsaco ${base}.o RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
  endif()
  if(code EQUAL 0)
    set(${result_clang} "${clang}" CACHE INTERNAL "")
    set(${result_lld} "${lld}" CACHE INTERNAL "")
  endif()
endfunction()

function(silt_hip_find_compiler isa)
  list(APPEND known ${SILT_HIP_CLANG_${isa}})
  list(POP_FRONT known program)
  if(EXISTS "${program}")
    return()
  endif()
  unset(SILT_HIP_CLANG_${isa} CACHE)
  foreach(name clang-19 clang-20 clang-21 clang-22 clang)
    find_program(silt_hip_program NAMES ${name} NO_CACHE)
    if(silt_hip_program AND NOT SILT_HIP_CLANG_${isa})
      execute_process(COMMAND ${silt_hip_program} -print-prog-name=ld.lld OUTPUT_VARIABLE lld
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      silt_hip_try(${isa} SILT_HIP_CLANG_${isa} SILT_HIP_LLD_${isa} "${silt_hip_program}" "${lld}")
    endif()
    unset(silt_hip_program)
  endforeach()
  find_program(silt_hip_python NAMES python3 NO_CACHE)
  foreach(python ${PROJECT_SOURCE_DIR}/.venv/bin/python ${silt_hip_python})
    if(NOT SILT_HIP_CLANG_${isa} AND EXISTS ${python})
      silt_hip_try(${isa} SILT_HIP_CLANG_${isa} SILT_HIP_LLD_${isa} "${python};-m;ziglang;clang"
        "${python};-m;ziglang;ld.lld")
    endif()
  endforeach()
endfunction()

if(SILT_HIP)
  foreach(isa ${silt_hip_all_isas})
    silt_hip_find_compiler(${isa})
    if(SILT_HIP_CLANG_${isa})
      list(APPEND SILT_HIP_ISAS ${isa})
      list(JOIN SILT_HIP_CLANG_${isa} " " command)
      message(STATUS "HIP kernels for ${isa}: ${command}")
    elseif(SILT_HIP STREQUAL AUTO)
      message(STATUS "HIP kernels for ${isa}: not built, no compiler at hand has it")
    else()
      message(FATAL_ERROR "SILT_HIP=${SILT_HIP}: no compiler for ${isa}: gfx942 needs clang >= 19 with lld (Debian: "
        "clang-19 lld-19), gfx950 clang >= 20 (pip install ziglang into .venv or python3)")
    endif()
  endforeach()
endif()

macro(silt_hip_kernels name source)
  set(silt_hip_extra ${ARGN})
  list(JOIN silt_hip_extra "|" silt_hip_extra)
  set_property(GLOBAL APPEND PROPERTY SILT_HIP_SOURCES "${name}|${CMAKE_CURRENT_SOURCE_DIR}/${source}|${silt_hip_extra}")
  foreach(isa ${SILT_HIP_ISAS})
    string(TOUPPER ${isa} upper)
    set_property(SOURCE kernels.cpp TARGET_DIRECTORY silt_objects APPEND PROPERTY COMPILE_DEFINITIONS SILT_BUILT_HIP_${upper})
  endforeach()
endmacro()

# silt_hip_code_object(NAME ISA SOURCE [FLAG...]): by way of assembly, which tests/test_hip_build.py reads: what it counts is what
# runs.
function(silt_hip_code_object name isa source)
  set(base ${PROJECT_BINARY_DIR}/hip/${name}.${isa})
  add_custom_command(OUTPUT ${base}.hsaco
    COMMAND ${SILT_HIP_CLANG_${isa}} ${silt_hip_flags} ${ARGN} --offload-arch=${isa} -Xclang -dependency-file -Xclang ${base}.d -Xclang -MT
      -Xclang ${base}.hsaco
      -S -o ${base}.s ${source}
    COMMAND ${SILT_HIP_CLANG_${isa}} --target=amdgcn-amd-amdhsa -mcpu=${isa} -c -o ${base}.o ${base}.s
    COMMAND ${SILT_HIP_LLD_${isa}} -shared -o ${base}.hsaco ${base}.o
    DEPENDS ${source} DEPFILE ${base}.d COMMENT "HIP ${isa} ${name}" VERBATIM)
endfunction()

# Custom commands belong to the directory of the target that uses them, so this is called where silt_objects is made.
function(silt_hip_embed)
  get_property(sources GLOBAL PROPERTY SILT_HIP_SOURCES)
  set(images "")
  set(names "")
  set(entries "")
  set(files "")
  foreach(entry ${sources})
    string(REPLACE "|" ";" parts ${entry})
    list(GET parts 0 name)
    list(GET parts 1 source)
    list(SUBLIST parts 2 -1 flags)
    foreach(isa ${SILT_HIP_ISAS})
      silt_hip_code_object(${name} ${isa} ${source} ${flags})
      set(file ${PROJECT_BINARY_DIR}/hip/${name}.${isa}.hsaco)
      list(APPEND files ${file})
      set(symbol silt_hip_${name}_${isa})
      string(APPEND images
        "asm(\".pushsection .rodata\\n.balign 64\\n.hidden ${symbol}\\n.globl ${symbol}\\n${symbol}:\\n\"\n"
        "    \".incbin \\\"${file}\\\"\\n.hidden ${symbol}_end\\n.globl ${symbol}_end\\n${symbol}_end:\\n.byte 0\\n\"\n"
        "    \".popsection\\n\");\n")
      string(APPEND names
        "extern \"C\" const unsigned char ${symbol}[];\nextern \"C\" const unsigned char ${symbol}_end[];\n")
      string(APPEND entries "      {\"${name}\", \"${isa}\", {${symbol}, ${symbol}_end}},\n")
    endforeach()
  endforeach()
  set(body "  return {};\n")
  if(files)
    set(body "  static const CodeObject objects[] = {\n${entries}  };\n  return objects;\n")
  endif()
  set(generated ${PROJECT_BINARY_DIR}/hip/code_objects.cpp)
  file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT "// Written by cmake/SiltHip.cmake.
#include \"device/hip_objects.hpp\"

@images@@names@
namespace silt::hip {

std::span<const CodeObject> code_objects() {
@body@}

}  // namespace silt::hip
")
  set_property(SOURCE ${generated} PROPERTY OBJECT_DEPENDS "${files}")
  target_sources(silt_objects PRIVATE ${generated})
endfunction()

# The stand-in device of the tests: a libamdhip64 that runs the same kernel sources on the CPU.
function(silt_hip_stand_in)
  if(NOT SILT_BUILD_TESTS OR NOT SILT_HIP_ISAS)
    return()
  endif()
  set(kernels "")
  get_property(sources GLOBAL PROPERTY SILT_HIP_SOURCES)
  foreach(entry ${sources})
    string(REGEX REPLACE "^[^|]*[|]([^|]*)[|].*$" "\\1" source ${entry})
    list(APPEND kernels ${source})
  endforeach()
  set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX)
  set(shim ${PROJECT_SOURCE_DIR}/src/gpu/hip/shim)
  add_library(silt_hip_stand_in SHARED ${shim}/fiber.cpp ${shim}/runtime.cpp ${shim}/workgroup.cpp ${kernels})
  target_include_directories(silt_hip_stand_in PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(silt_hip_stand_in PRIVATE silt_settings fmt::fmt)
  # The first name that device/hip_runtime.cpp looks for, so that it goes before a real one where this folder does.
  set_target_properties(silt_hip_stand_in PROPERTIES OUTPUT_NAME amdhip64 SUFFIX .so.7 NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/hip/stand_in)
endfunction()

# silt_hip_test(NAME TARGET ARGUMENTS...): runs a test program that exists on the stand-in device.
function(silt_hip_test name target)
  if(NOT TARGET silt_hip_stand_in)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${target} ${ARGN})
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT_MODIFICATION "LD_LIBRARY_PATH=path_list_prepend:${PROJECT_BINARY_DIR}/hip/stand_in")
  add_dependencies(${target} silt_hip_stand_in)
endfunction()
