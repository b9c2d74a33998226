/* silt from C, or from any language that can call C. The contract of every operator is that of the C++ header of the
 * same name; this file only says it in C.
 *
 * Structures that a caller fills start with `struct_size`. A later version of the library may append fields whose zero
 * means what was the case before; so a caller that was compiled against an older header passes a smaller size, and the
 * fields it does not know count as zero. A caller that is newer than the library may pass a larger size as long as the
 * bytes which the library does not know are zero; otherwise the call is refused. The silt_..._defaults functions set
 * the size and every default.
 *
 *   silt_attn_res_args args = silt_attn_res_defaults();
 *   args.prefix = silt_contiguous(prefix, SILT_BF16, 2, (int64_t[]){tokens, hidden});
 *   ...
 *   if (silt_attn_res(&args, NULL) != SILT_OK) fprintf(stderr, "%s\n", silt_last_error());
 */
#ifndef SILT_SILT_H
#define SILT_SILT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "silt/export.hpp"

#ifdef __cplusplus
extern "C" {
#endif

/* What a call reports back. Nothing has been written when it is not SILT_OK. */
typedef enum silt_status {
  SILT_OK = 0,
  SILT_INVALID_ARGUMENT = 1, /* the arguments break the operator's contract */
  SILT_UNSUPPORTED = 2,      /* a kernel required by name does not take this problem, or no kernel does */
  SILT_DEVICE_ERROR = 3,     /* a driver or launch error */
  SILT_IO_ERROR = 4,
  SILT_OUT_OF_MEMORY = 5,
  SILT_EXHAUSTED = 6
} silt_status;

/* The text of the last call of this thread that was not SILT_OK: operator, argument, what it has, what it needs. Valid
 * until the next such call of this thread; never null. */
SILT_API const char* silt_last_error(void);

enum { SILT_BF16 = 1, SILT_F32 = 2, SILT_I32 = 3 };              /* silt_tensor.dtype */
enum { SILT_CPU = 0, SILT_CUDA = 1, SILT_HIP = 2 };              /* silt_tensor.device_kind */
enum { SILT_AUTOMATIC = 0, SILT_PREFER = 1, SILT_REQUIRE = 2 };  /* silt_launch.policy */
enum { SILT_PDL_OFF = 0, SILT_PDL_WAIT = 1, SILT_PDL_LATE = 2 }; /* silt_launch.pdl */
enum { SILT_SIGMOID = 0, SILT_SILU = 1 };                        /* silt_rms_norm_gated_args.activation */

/* A view of memory that the caller owns. rank 0 is an absent optional tensor. Strides are in elements. This structure
 * does not grow. */
typedef struct silt_tensor {
  void* data; /* inputs are only read */
  int32_t dtype;
  int32_t rank; /* at most 4 */
  int64_t shape[4];
  int64_t stride[4];
  int32_t device_kind;
  int32_t device_index; /* ordinal of a GPU, 0 for the CPU */
} silt_tensor;

/* Where and how a call runs; a null pointer in its place means the defaults. */
typedef struct silt_launch {
  size_t struct_size;
  void* stream;    /* cudaStream_t or hipStream_t; null is the default stream; ignored on the CPU */
  int32_t threads; /* CPU workers including the caller; 0: every core the process may use */
  int32_t pdl;
  int32_t policy;
  const char* kernel; /* with SILT_PREFER and SILT_REQUIRE */
  int32_t debug;      /* 0 or 1: memory is checked before the launch, as with SILT_DEBUG=1 (silt/choose.hpp) */
  int32_t reserved;   /* 0 */
} silt_launch;

typedef struct silt_attn_res_args {
  size_t struct_size;
  silt_tensor prefix;
  silt_tensor delta;
  silt_tensor blocks;
  silt_tensor norm_weight;
  silt_tensor qk_weight;
  silt_tensor output_norm_weight;
  int64_t num_blocks;
  int64_t block_write_idx;
  float eps;
  float output_norm_eps;
  silt_tensor output;
  int64_t stable_blocks;
} silt_attn_res_args;

typedef struct silt_attn_res_partials_args {
  size_t struct_size;
  silt_tensor blocks;
  silt_tensor norm_weight;
  silt_tensor qk_weight;
  int64_t num_blocks;
  silt_tensor statistics;
  silt_tensor mix;
  int64_t stable_blocks;
  float eps;
  int32_t reserved; /* 0 */
} silt_attn_res_partials_args;

typedef struct silt_attn_res_merge_args {
  size_t struct_size;
  silt_tensor prefix;
  silt_tensor delta;
  silt_tensor statistics;
  silt_tensor mix;
  silt_tensor slot;
  silt_tensor norm_weight;
  silt_tensor qk_weight;
  silt_tensor output_norm_weight;
  float eps;
  float output_norm_eps;
  silt_tensor output;
  int32_t stable_partials; /* 0 or 1 */
  int32_t reserved;        /* 0 */
} silt_attn_res_merge_args;

typedef struct silt_kda_decode_args {
  size_t struct_size;
  silt_tensor x;
  silt_tensor conv_weight;
  silt_tensor conv_bias;
  silt_tensor conv_state;
  silt_tensor raw_gate;
  silt_tensor raw_beta;
  silt_tensor A_log;
  silt_tensor dt_bias;
  silt_tensor state_indices;
  silt_tensor state;
  silt_tensor output_gate;
  silt_tensor norm_weight;
  silt_tensor output;
  int32_t safe_gate;
  float lower_bound;
  float norm_eps;
  int32_t null_slot;
} silt_kda_decode_args;

typedef struct silt_kda_prefill_args {
  size_t struct_size;
  silt_tensor x;
  silt_tensor conv_weight;
  silt_tensor conv_bias;
  silt_tensor conv_state;
  silt_tensor raw_gate;
  silt_tensor raw_beta;
  silt_tensor A_log;
  silt_tensor dt_bias;
  silt_tensor offsets;
  silt_tensor state_indices;
  silt_tensor has_initial_state;
  silt_tensor state;
  silt_tensor output_gate;
  silt_tensor norm_weight;
  silt_tensor output;
  int32_t safe_gate;
  float lower_bound;
  float norm_eps;
  int32_t null_slot;
} silt_kda_prefill_args;

typedef struct silt_causal_conv1d_update_args {
  size_t struct_size;
  silt_tensor x;
  silt_tensor weight;
  silt_tensor bias;
  silt_tensor conv_state;
  silt_tensor state_indices;
  silt_tensor output;
  int32_t null_slot;
  int32_t reserved; /* 0 */
} silt_causal_conv1d_update_args;

typedef struct silt_kda_recurrence_args {
  size_t struct_size;
  silt_tensor q;
  silt_tensor k;
  silt_tensor v;
  silt_tensor raw_gate;
  silt_tensor raw_beta;
  silt_tensor A_log;
  silt_tensor dt_bias;
  silt_tensor offsets;
  silt_tensor state_indices;
  silt_tensor accepted; /* int32 [N] with a table of slots (speculative verification), or absent */
  silt_tensor state;
  silt_tensor output;
  int32_t safe_gate;
  float lower_bound;
  int32_t null_slot;
  int32_t reserved; /* 0 */
} silt_kda_recurrence_args;

typedef struct silt_rms_norm_gated_args {
  size_t struct_size;
  silt_tensor x;
  silt_tensor gate;
  silt_tensor weight;
  silt_tensor output;
  float eps;
  int32_t activation;
} silt_rms_norm_gated_args;

SILT_API silt_status silt_attn_res(const silt_attn_res_args* args, const silt_launch* launch);
SILT_API silt_status silt_attn_res_partials(const silt_attn_res_partials_args* args, const silt_launch* launch);
SILT_API silt_status silt_attn_res_merge(const silt_attn_res_merge_args* args, const silt_launch* launch);
SILT_API silt_status silt_kda_decode(const silt_kda_decode_args* args, const silt_launch* launch);
SILT_API silt_status silt_kda_prefill(const silt_kda_prefill_args* args, const silt_launch* launch);
SILT_API silt_status silt_causal_conv1d_update(const silt_causal_conv1d_update_args* args, const silt_launch* launch);
SILT_API silt_status silt_kda_recurrence(const silt_kda_recurrence_args* args, const silt_launch* launch);
SILT_API silt_status silt_rms_norm_gated(const silt_rms_norm_gated_args* args, const silt_launch* launch);

/* "0.1.0" */
SILT_API const char* silt_version(void);

/* Texts go to a buffer of the caller, as with snprintf: at most capacity - 1 characters and a terminating zero are
 * written, *length (which may be null) is what the whole text takes without that zero. */

/* The table of the chooser for a problem line. `device` is the name of a known device ("h200"), a device at hand
 * ("cpu", "cuda:0") or null for this CPU; `kernel` is a required kernel or null. */
SILT_API silt_status silt_explain(const char* problem_line, const char* device, const char* kernel, char* text,
                                  size_t capacity, size_t* length);
/* One line of facts of a device, named as for silt_explain. */
SILT_API silt_status silt_device_text(const char* device, char* text, size_t capacity, size_t* length);
/* How often a kernel has run since the start of the process, and how often because a better one refused. */
SILT_API silt_status silt_kernel_runs(const char* op, const char* kernel, uint64_t* runs, uint64_t* fallbacks);

/* A view whose last axis is the fastest and that has no holes. */
static inline silt_tensor silt_contiguous(void* data, int32_t dtype, int32_t rank, const int64_t* shape) {
  silt_tensor tensor;
  int64_t step = 1;
  int32_t axis = 0;
  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.rank = rank;
  for (axis = rank; axis-- > 0;) {
    tensor.shape[axis] = shape[axis];
    tensor.stride[axis] = step;
    step *= shape[axis];
  }
  return tensor;
}

static inline silt_launch silt_launch_defaults(void) {
  silt_launch launch;
  memset(&launch, 0, sizeof launch);
  launch.struct_size = sizeof launch;
  launch.pdl = SILT_PDL_WAIT;
  return launch;
}

static inline silt_attn_res_args silt_attn_res_defaults(void) {
  silt_attn_res_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.block_write_idx = -1;
  args.eps = 1e-5F;
  args.output_norm_eps = 1e-5F;
  args.stable_blocks = -1;
  return args;
}

static inline silt_attn_res_partials_args silt_attn_res_partials_defaults(void) {
  silt_attn_res_partials_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.eps = 1e-5F;
  args.stable_blocks = -1;
  return args;
}

static inline silt_attn_res_merge_args silt_attn_res_merge_defaults(void) {
  silt_attn_res_merge_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.eps = 1e-5F;
  args.output_norm_eps = 1e-5F;
  return args;
}

static inline silt_kda_decode_args silt_kda_decode_defaults(void) {
  silt_kda_decode_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.safe_gate = 1;
  args.lower_bound = -5.0F;
  args.norm_eps = 1e-5F;
  return args;
}

static inline silt_kda_prefill_args silt_kda_prefill_defaults(void) {
  silt_kda_prefill_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.safe_gate = 1;
  args.lower_bound = -5.0F;
  args.norm_eps = 1e-5F;
  return args;
}

static inline silt_causal_conv1d_update_args silt_causal_conv1d_update_defaults(void) {
  silt_causal_conv1d_update_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  return args;
}

static inline silt_kda_recurrence_args silt_kda_recurrence_defaults(void) {
  silt_kda_recurrence_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.safe_gate = 1;
  args.lower_bound = -5.0F;
  return args;
}

static inline silt_rms_norm_gated_args silt_rms_norm_gated_defaults(void) {
  silt_rms_norm_gated_args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.eps = 1e-5F;
  return args;
}

#ifdef __cplusplus
}
#endif

#endif /* SILT_SILT_H */
