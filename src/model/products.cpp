#include "model/products.hpp"

#include <dnnl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/log.hpp"
#include "core/status.hpp"
#include "core/workers.hpp"
#include "model/on_cpu.hpp"

// The OpenMP runtime that oneDNN is built with. Declared here because not every compiler ships its header.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}

namespace silt {
namespace {

// Row counts that primitives are made for. 1..8 exactly (decoding), then steps of at most a third; a block of another
// size runs as the next larger one on copied rows.
constexpr std::array<int64_t, 14> kRowCounts = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64};
constexpr int64_t kMostRows = kRowCounts.back();
// Columns of a panel: two of oneDNN's 64-wide blocks, so that the smallest model's products still split over the cores;
// wider panels were not faster at K = 256 (measured).
constexpr int64_t kPanelColumns = 128;

size_t bucket_of(int64_t rows) {
  return static_cast<size_t>(std::lower_bound(kRowCounts.begin(), kRowCounts.end(), rows) - kRowCounts.begin());
}

Status dnnl_failed(std::string_view what, dnnl_status_t code) {
  const StatusCode status = code == dnnl_out_of_memory ? StatusCode::out_of_memory : StatusCode::device_error;
  return failed(status, "matrix product: {}: oneDNN status {}", what, static_cast<int>(code));
}

#define SILT_TRY_DNNL(what, expression)                                                                   \
  do {                                                                                                    \
    if (const dnnl_status_t code_ = (expression); code_ != dnnl_success) return dnnl_failed(what, code_); \
  } while (false)

/// Never destroyed: packed weights of static duration may outlive every order of destruction.
dnnl_engine_t engine() {
  static dnnl_engine_t instance = [] {
    dnnl_engine_t made = nullptr;
    dnnl_engine_create(&made, dnnl_cpu, 0);
    return made;
  }();
  return instance;
}

/// oneDNN sizes its work by the OpenMP setting of the calling thread: one thread for the scope.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

dnnl_data_type_t dnnl_type(DType dtype) { return dtype == DType::bf16 ? dnnl_bf16 : dnnl_f32; }

/// One oneDNN primitive and what its memories look like.
struct Primitive {
  dnnl_primitive_t handle = nullptr;
  dnnl_memory_desc_t x{};
  dnnl_memory_desc_t w{};
  dnnl_memory_desc_t y{};
  dnnl_memory_desc_t scratch{};
};

/// All row counts and output types of one weight shape. Lives as long as the process, shared by all matrices.
class PanelKernel {
 public:
  PanelKernel(int64_t n, int64_t k, DType type) : n_(n), k_(k), type_(type) {}

  /// Makes the primitive at first use. Any thread.
  Status get(size_t bucket, DType y, const Primitive** primitive) {
    std::atomic<const Primitive*>& place = made_[bucket][y == DType::bf16 ? 0 : 1];
    *primitive = place.load(std::memory_order_acquire);
    if (*primitive != nullptr) return {};
    const std::lock_guard lock(mutex_);
    *primitive = place.load(std::memory_order_relaxed);
    if (*primitive != nullptr) return {};
    auto fresh = std::make_unique<Primitive>();
    SILT_TRY(make(kRowCounts[bucket], y, fresh.get()));
    *primitive = fresh.release();  // kept for the life of the process
    place.store(*primitive, std::memory_order_release);
    return {};
  }

 private:
  Status make(int64_t rows, DType y, Primitive* primitive) {
    const OneThread scope;
    const dnnl_data_type_t type = dnnl_type(type_);
    const dnnl_dims_t x_dims = {rows, k_};
    const dnnl_dims_t w_dims = {n_, k_};
    const dnnl_dims_t y_dims = {rows, n_};
    dnnl_memory_desc_t w{};
    SILT_TRY_DNNL("x", dnnl_memory_desc_init_by_tag(&primitive->x, 2, x_dims, type, dnnl_ab));
    SILT_TRY_DNNL("y", dnnl_memory_desc_init_by_tag(&primitive->y, 2, y_dims, dnnl_type(y), dnnl_ab));
    if (packed_known_) {
      w = packed_;
    } else {
      SILT_TRY_DNNL("w", dnnl_memory_desc_init_by_tag(&w, 2, w_dims, type, dnnl_format_tag_any));
    }
    dnnl_inner_product_desc_t desc{};
    SILT_TRY_DNNL("description", dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_inference, &primitive->x, &w,
                                                                      nullptr, &primitive->y));
    dnnl_primitive_attr_t attr = nullptr;
    SILT_TRY_DNNL("attributes", dnnl_primitive_attr_create(&attr));
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    dnnl_primitive_desc_t pd = nullptr;
    const dnnl_status_t found = dnnl_primitive_desc_create(&pd, &desc, attr, engine(), nullptr);
    dnnl_primitive_attr_destroy(attr);
    SILT_TRY_DNNL("no implementation", found);
    const Status status = finish(pd, rows, primitive);
    dnnl_primitive_desc_destroy(pd);
    return status;
  }

  Status finish(dnnl_primitive_desc_t pd, int64_t rows, Primitive* primitive) {
    const char* name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, static_cast<void*>(&name));
    if (std::string_view(name).starts_with("ref")) {
      // Its reference is a thousand times slower; better refused than mistaken for a hang.
      return failed(StatusCode::unsupported,
                    "matrix product: has only oneDNN's reference for {}x{}x{} {}, needs a kernel", rows, n_, k_,
                    to_string(type_));
    }
    primitive->w = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    primitive->scratch = *dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    SILT_TRY_DNNL("primitive", dnnl_primitive_create(&primitive->handle, pd));
    packed_ = primitive->w;
    packed_known_ = true;
    return {};
  }

  int64_t n_;
  int64_t k_;
  DType type_;
  std::mutex mutex_;
  bool packed_known_ = false;  // the first primitive decides how weights are packed; the others take that form
  dnnl_memory_desc_t packed_{};
  std::array<std::array<std::atomic<const Primitive*>, 2>, kRowCounts.size()> made_{};
};

PanelKernel& panel_kernel(int64_t n, int64_t k, DType type) {
  using Key = std::tuple<int64_t, int64_t, DType>;
  static std::mutex mutex;
  static auto& kernels = *new std::map<Key, std::unique_ptr<PanelKernel>>();  // like engine()
  const std::lock_guard lock(mutex);
  std::unique_ptr<PanelKernel>& entry = kernels[Key(n, k, type)];
  if (!entry) entry = std::make_unique<PanelKernel>(n, k, type);
  return *entry;
}

struct MemoryDelete {
  void operator()(dnnl_memory_t memory) const { dnnl_memory_destroy(memory); }
};
using Memory = std::unique_ptr<dnnl_memory, MemoryDelete>;

Status make_memory(const dnnl_memory_desc_t& desc, void* data, Memory* memory) {
  dnnl_memory_t made = nullptr;
  SILT_TRY_DNNL("memory", dnnl_memory_create(&made, &desc, engine(), data));
  memory->reset(made);
  return {};
}

/// What one thread needs to run primitives: a stream, memory objects per primitive, rows in the right type and scratch.
class ThreadState {
 public:
  ThreadState() { dnnl_stream_create(&stream_, engine(), dnnl_stream_default_flags); }
  ~ThreadState() {
    memories_.clear();
    dnnl_stream_destroy(stream_);
  }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

  Status run(const Primitive& primitive, const void* x, dnnl_memory_t w, void* y) {
    Memories& memories = memories_[&primitive];
    if (!memories.x) {
      SILT_TRY(make_memory(primitive.x, nullptr, &memories.x));
      SILT_TRY(make_memory(primitive.y, nullptr, &memories.y));
      SILT_TRY(make_memory(primitive.scratch, nullptr, &memories.scratch));
    }
    const size_t scratch = dnnl_memory_desc_get_size(&primitive.scratch);
    if (scratch_.size() < scratch + kAlign) scratch_.resize(scratch + kAlign);
    dnnl_memory_set_data_handle(memories.x.get(), const_cast<void*>(x));
    dnnl_memory_set_data_handle(memories.y.get(), y);
    dnnl_memory_set_data_handle(memories.scratch.get(), aligned(scratch_.data()));
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memories.x.get()},
                                    {DNNL_ARG_WEIGHTS, w},
                                    {DNNL_ARG_DST, memories.y.get()},
                                    {DNNL_ARG_SCRATCHPAD, memories.scratch.get()}};
    SILT_TRY_DNNL("execution", dnnl_primitive_execute(primitive.handle, stream_, 4, args));
    return {};
  }

  void* x_rows(size_t bytes) { return room(&x_, bytes); }
  void* y_rows(size_t bytes) { return room(&y_, bytes); }

 private:
  static constexpr size_t kAlign = 64;
  struct Memories {
    Memory x;
    Memory y;
    Memory scratch;
  };
  static void* aligned(std::byte* data) {
    return data + (kAlign - reinterpret_cast<uintptr_t>(data) % kAlign) % kAlign;
  }
  static void* room(std::vector<std::byte>* buffer, size_t bytes) {
    if (buffer->size() < bytes + kAlign) buffer->resize(bytes + kAlign);
    return aligned(buffer->data());
  }

  dnnl_stream_t stream_ = nullptr;
  std::unordered_map<const Primitive*, Memories> memories_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> x_;
  std::vector<std::byte> y_;
};

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

SILT_LOOP void widen(const bf16* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = to_float(from[i]);
}
SILT_LOOP void round_row(const float* from, bf16* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = to_bf16(from[i]);
}

template <class To, class From>
void convert_row(const void* from, void* to, int64_t count) {
  const From* source = static_cast<const From*>(from);
  To* target = static_cast<To*>(to);
  if constexpr (std::is_same_v<To, From>) {
    std::memcpy(target, source, static_cast<size_t>(count) * sizeof(To));
  } else if constexpr (std::is_same_v<To, bf16>) {
    on_cpu<round_row>(source, target, count);
  } else {
    on_cpu<widen>(source, target, count);
  }
}

using ConvertRow = void (*)(const void*, void*, int64_t);
ConvertRow converter(DType from, DType to) {
  if (from == DType::bf16) return to == DType::bf16 ? convert_row<bf16, bf16> : convert_row<float, bf16>;
  return to == DType::bf16 ? convert_row<bf16, float> : convert_row<float, float>;
}

/// Row by row between a strided view and dense memory; steps are in bytes.
void convert_rows(ConvertRow convert, const std::byte* from, size_t from_step, std::byte* to, size_t to_step,
                  int64_t rows, int64_t count) {
  for (int64_t r = 0; r < rows; ++r) {
    convert(from, to, count);
    from += from_step;
    to += to_step;
  }
}

}  // namespace

struct Matrix::Parts {
  struct Panel {
    int64_t first = 0;
    int64_t columns = 0;
    PanelKernel* kernel = nullptr;
    Buffer packed;
    Memory memory;
  };
  int64_t n = 0;
  int64_t k = 0;
  DType type = DType::f32;
  int64_t bytes = 0;
  std::vector<Panel> panels;
};

namespace {

Status pack_panel(const HostMatrix& rows, Matrix::Parts::Panel* panel) {
  const OneThread scope;
  const Primitive* primitive = nullptr;
  SILT_TRY(panel->kernel->get(kRowCounts.size() - 1, rows.dtype, &primitive));
  dnnl_memory_desc_t plain{};
  const dnnl_dims_t dims = {panel->columns, rows.cols};
  SILT_TRY_DNNL("plain weights", dnnl_memory_desc_init_by_tag(&plain, 2, dims, dnnl_type(rows.dtype), dnnl_ab));
  panel->packed = Buffer(dnnl_memory_desc_get_size(&primitive->w));
  SILT_TRY(make_memory(primitive->w, panel->packed.data(), &panel->memory));
  Memory source;
  SILT_TRY(make_memory(plain, const_cast<std::byte*>(rows.row(panel->first)), &source));
  dnnl_primitive_desc_t pd = nullptr;
  SILT_TRY_DNNL("reorder", dnnl_reorder_primitive_desc_create(&pd, &plain, engine(), &primitive->w, engine(), nullptr));
  dnnl_primitive_t reorder = nullptr;
  const dnnl_status_t made = dnnl_primitive_create(&reorder, pd);
  dnnl_primitive_desc_destroy(pd);
  SILT_TRY_DNNL("reorder", made);
  dnnl_stream_t stream = nullptr;
  dnnl_status_t ran = dnnl_stream_create(&stream, engine(), dnnl_stream_default_flags);
  if (ran == dnnl_success) {
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source.get()}, {DNNL_ARG_TO, panel->memory.get()}};
    ran = dnnl_primitive_execute(reorder, stream, 2, args);
    dnnl_stream_destroy(stream);
  }
  dnnl_primitive_destroy(reorder);
  SILT_TRY_DNNL("reorder", ran);
  return {};
}

/// Rows [first, first + rows) of one panel; at most kMostRows.
Status run_block(const Product& product, const Matrix::Parts::Panel& panel, int64_t first, int64_t rows) {
  const Matrix::Parts& matrix = product.matrix->parts();
  const size_t bucket = bucket_of(rows);
  const bool exact = kRowCounts[bucket] == rows;
  // With fp32 products a bf16 result is rounded here; bf16 products round inside oneDNN.
  const DType made = matrix.type == DType::f32 ? DType::f32 : product.y.dtype;
  const Primitive* primitive = nullptr;
  SILT_TRY(panel.kernel->get(bucket, made, &primitive));
  ThreadState& state = thread_state();

  const size_t x_step = static_cast<size_t>(product.x.stride[0]) * size_of(product.x.dtype);
  const size_t x_row = static_cast<size_t>(matrix.k) * size_of(matrix.type);
  const auto* x = static_cast<const std::byte*>(product.x.data) + static_cast<size_t>(first) * x_step;
  const bool dense_x = product.x.dtype == matrix.type && (x_step == x_row || rows == 1);
  if (!exact || !dense_x) {
    auto* copy = static_cast<std::byte*>(state.x_rows(static_cast<size_t>(kRowCounts[bucket]) * x_row));
    convert_rows(converter(product.x.dtype, matrix.type), x, x_step, copy, x_row, rows, matrix.k);
    x = copy;
  }
  const size_t y_step = static_cast<size_t>(product.y.stride[0]) * size_of(product.y.dtype);
  const size_t y_row = static_cast<size_t>(panel.columns) * size_of(made);
  auto* y = static_cast<std::byte*>(product.y.data) + static_cast<size_t>(first) * y_step +
            static_cast<size_t>(panel.first) * size_of(product.y.dtype);
  const bool dense_y = product.y.dtype == made && (y_step == y_row || rows == 1);
  if (exact && dense_y) return state.run(*primitive, x, panel.memory.get(), y);
  auto* result = static_cast<std::byte*>(state.y_rows(static_cast<size_t>(kRowCounts[bucket]) * y_row));
  SILT_TRY(state.run(*primitive, x, panel.memory.get(), result));
  convert_rows(converter(made, product.y.dtype), result, y_row, y, y_step, rows, panel.columns);
  return {};
}

int64_t blocks_of(const Product& product) { return (product.x.shape[0] + kMostRows - 1) / kMostRows; }

int64_t items_of(const Product& product) {
  return blocks_of(product) * static_cast<int64_t>(product.matrix->parts().panels.size());
}

/// Item `index` of a product: blocks of rows vary fastest, so that a thread reads a panel once.
Status run_item(const Product& product, int64_t index) {
  const int64_t blocks = blocks_of(product);
  const int64_t first = index % blocks * kMostRows;
  const auto& panel = product.matrix->parts().panels[static_cast<size_t>(index / blocks)];
  return run_block(product, panel, first, std::min(kMostRows, product.x.shape[0] - first));
}

}  // namespace

ProductType product_type(Precision precision) {
  if (precision == Precision::f32) return ProductType::f32;
  static const bool has_bf16 = [] {
    const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
    const auto needed = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
    if ((isa & needed) != needed) return false;
    const Primitive* primitive = nullptr;
    return panel_kernel(kPanelColumns, kPanelColumns, DType::bf16).get(0, DType::bf16, &primitive).ok();
  }();
  return has_bf16 ? ProductType::bf16 : ProductType::f32;
}

std::string_view describe_products(Precision precision) {
  if (precision == Precision::f32) return "oneDNN, fp32";
  if (product_type(precision) == ProductType::bf16) return "oneDNN, bf16 with fp32 sums";
  return "oneDNN, fp32 with results rounded to bf16 (no bf16 products on this CPU)";
}

Matrix::Matrix() = default;
Matrix::~Matrix() = default;
Matrix::Matrix(Matrix&& other) noexcept = default;
Matrix& Matrix::operator=(Matrix&& other) noexcept = default;

int64_t Matrix::n() const { return parts_ ? parts_->n : 0; }
int64_t Matrix::k() const { return parts_ ? parts_->k : 0; }
int64_t Matrix::bytes() const { return parts_ ? parts_->bytes : 0; }

Status Matrix::pack(const HostMatrix& rows, int threads, Matrix* matrix) {
  auto parts = std::make_unique<Parts>();
  parts->n = rows.rows;
  parts->k = rows.cols;
  parts->type = rows.dtype;
  for (int64_t first = 0; first < rows.rows; first += kPanelColumns) {
    Parts::Panel panel;
    panel.first = first;
    panel.columns = std::min(kPanelColumns, rows.rows - first);
    panel.kernel = &panel_kernel(panel.columns, rows.cols, rows.dtype);
    parts->panels.push_back(std::move(panel));
  }
  std::vector<Status> results(parts->panels.size());
  parallel_ranges(static_cast<int64_t>(results.size()), threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<size_t>(i);
      try {
        results[index] = pack_panel(rows, &parts->panels[index]);
      } catch (const std::bad_alloc&) {
        results[index] =
            failed(StatusCode::out_of_memory, "matrix product: has no memory for {}x{} weights", rows.rows, rows.cols);
      }
    }
  });
  for (size_t i = 0; i < results.size(); ++i) {
    SILT_TRY(results[i]);
    parts->bytes += static_cast<int64_t>(parts->panels[i].packed.bytes());
  }
  matrix->parts_ = std::move(parts);
  return {};
}

Status multiply(std::span<const Product> products, int threads) {
  int64_t items = 0;
  for (const Product& product : products) items += items_of(product);
  std::mutex mutex;
  Status result;
  parallel_ranges(items, threads, [&](int64_t begin, int64_t end) {
    const OneThread scope;
    int64_t before = 0;
    for (const Product& product : products) {
      const int64_t count = items_of(product);
      for (int64_t i = std::max(begin, before); i < std::min(end, before + count); ++i) {
        if (Status status = run_item(product, i - before); !status.ok()) {
          const std::lock_guard lock(mutex);
          result = std::move(status);
        }
      }
      before += count;
    }
  });
  return result;
}

Status multiply_here(const Product& product) {
  const OneThread scope;
  for (int64_t i = 0; i < items_of(product); ++i) SILT_TRY(run_item(product, i));
  return {};
}

Status multiply_small(const SmallProduct& p) {
  const OneThread scope;
  SILT_TRY_DNNL("sgemm", dnnl_sgemm('N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k, 1.0F, p.a, p.a_stride, p.b,
                                    p.b_stride, p.add ? 1.0F : 0.0F, p.c, p.c_stride));
  return {};
}

}  // namespace silt
