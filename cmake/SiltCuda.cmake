# CUDA, where SILT_CUDA is on: the compiler, what it is asked for, and the architectures of every source.
#
#   silt_cuda_portable(a.cu ...)  sm_80 and PTX: runs on every later GPU, by translation where there is no code for it
#   silt_cuda_native(a.cu ...)    sm_90a and sm_100f (the family of sm_100 and sm_103), nothing else
#
# Both are called in the directory that adds the sources to silt_objects. ptxas reports registers, shared memory and
# spills of every kernel into <object>.ptxas, which the resource tests read.
set(SILT_CUDART "")
if(NOT SILT_CUDA)
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_PATH
    PATHS /usr/local/cuda PATH_SUFFIXES bin REQUIRED)
endif()
set(CMAKE_CUDA_ARCHITECTURES 80) # for CMake's own checks; sources carry theirs
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR "SILT_CUDA: nvcc has version ${CMAKE_CUDA_COMPILER_VERSION}, needs 13 or newer (${CMAKE_CUDA_COMPILER})")
endif()
find_package(CUDAToolkit REQUIRED)
set(SILT_CUDART CUDA::cudart_static)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20") # CMake 3.25 does not know that nvcc has it
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
add_compile_definitions(SILT_BUILT_CUDA) # not SILT_CUDA, which is a name of the C ABI
add_compile_options(
  # No -Wpedantic: nvcc's own line markers break it. The format checks of fmt 9 are consteval functions, which nvcc's
  # front end rejects; g++ checks the same headers in every .cpp.
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wconversion,-Wshadow,-Werror;-DFMT_CONSTEVAL=;-Xptxas=-v,-warn-spills>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=cross-execution-space-call,reorder;--threads=1>"
  # Variants of a kernel differ little: their code shrinks to a fifth. Every driver that runs CUDA 13 can read it.
  "$<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>")

set(SILT_PTXAS_REPORT ${PROJECT_SOURCE_DIR}/cmake/ptxas-report)
set(CMAKE_CUDA_COMPILER_LAUNCHER ${SILT_PTXAS_REPORT} ${CMAKE_CUDA_COMPILER_LAUNCHER})

function(silt_cuda_sources archs)
  set(options "")
  foreach(arch ${archs})
    list(APPEND options "-gencode=${arch}")
  endforeach()
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY silt_objects APPEND PROPERTY COMPILE_OPTIONS ${options})
endfunction()
macro(silt_cuda_portable)
  silt_cuda_sources("arch=compute_80,code=[sm_80,compute_80]" ${ARGN})
endmacro()
macro(silt_cuda_native)
  silt_cuda_sources("arch=compute_90a,code=sm_90a;arch=compute_100f,code=sm_100f" ${ARGN})
endmacro()
