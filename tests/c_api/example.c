/* silt from C11: two tokens through Attention Residuals without a bank, the table of the chooser, an error's text. The
 * program checks what it prints, so that it is a test as well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "silt/silt.h"

static void need(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "failed: %s (last error: %s)\n", what, silt_last_error());
  exit(1);
}

int main(void) {
  enum { kTokens = 2, kHidden = 4 };
  float prefix[kTokens][kHidden] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  float delta[kTokens][kHidden] = {{0.5F, 0.5F, 0.5F, 0.5F}, {-1, -1, -1, -1}};
  float output[kTokens][kHidden];
  const int64_t shape[] = {kTokens, kHidden};

  silt_attn_res_args args = silt_attn_res_defaults();
  args.prefix = silt_contiguous(prefix, SILT_F32, 2, shape);
  args.delta = silt_contiguous(delta, SILT_F32, 2, shape);
  args.output = silt_contiguous(output, SILT_F32, 2, shape);
  need(silt_attn_res(&args, NULL) == SILT_OK, "attn_res");
  need(output[0][3] == 4.5F && output[1][0] == 4.0F, "the mixture without blocks is prefix + delta");
  need(prefix[0][3] == 4.5F, "prefix is updated in place");
  printf("silt %s: %g %g\n", silt_version(), (double)output[0][3], (double)output[1][0]);

  char table[4096];
  size_t length = 0;
  need(silt_explain("attn_res t=2 n=0 d=4 dtype=f32", NULL, NULL, table, sizeof table, &length) == SILT_OK, "explain");
  need(length == strlen(table) && strstr(table, "chosen") != NULL, "the table names the choice");
  printf("%s", table);

  char line[8];
  need(silt_device_text("h200", line, sizeof line, &length) == SILT_OK, "device text");
  need(length >= sizeof line && strlen(line) == sizeof line - 1, "a short buffer gets what fits");
  need(silt_device_text("h2000", line, sizeof line, &length) == SILT_INVALID_ARGUMENT, "unknown device");

  args.num_blocks = 1;
  need(silt_attn_res(&args, NULL) == SILT_INVALID_ARGUMENT, "a bank is missing");
  need(strcmp(silt_last_error(), "attn_res: num_blocks: has 1, needs 0..0 (slots of blocks)") == 0, "error text");
  printf("%s\n", silt_last_error());

  args.num_blocks = 0;
  args.struct_size = offsetof(silt_attn_res_args, stable_blocks); /* a caller compiled before that field was added */
  need(silt_attn_res(&args, NULL) == SILT_OK, "an older, smaller structure");
  struct {
    silt_attn_res_args args;
    int64_t later_field;
  } newer = {args, 1};
  newer.args.struct_size = sizeof newer;
  need(silt_attn_res(&newer.args, NULL) == SILT_INVALID_ARGUMENT, "a field that this library does not know");
  newer.later_field = 0;
  need(silt_attn_res(&newer.args, NULL) == SILT_OK, "an unknown field that is zero");
  return 0;
}
