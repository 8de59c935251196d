#include "cuda/product_call.hpp"

#include "base/error.hpp"
#include "cuda/cublaslt.hpp"
#include "cuda/device_failure.hpp"
#include "cuda/libtorch_cuda.hpp"
#include "cuda/moments.hpp"
#include "cuda/product_scratch.hpp"
#include "cuda/stream.hpp"
#include "device/device_products.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>

namespace lockstep::cuda {

namespace {

bool tf32_is_allowed = false;

/// Owns an object of cublasLt, which `destroy` of CublasLt ends.
template <class Handle, auto destroy>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (handle_ != nullptr) release([&] { return (cublaslt().*destroy)(handle_); });
  }
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Handle get() const { return handle_; }
  Handle* place() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};
using Library = Owned<cublasLtHandle_t, &CublasLt::Destroy>;
using Operation = Owned<cublasLtMatmulDesc_t, &CublasLt::MatmulDescDestroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, &CublasLt::MatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, &CublasLt::MatmulPreferenceDestroy>;

/// What products of one shape need for a call.
struct PreparedProduct {
  Operation operation;
  MatrixLayout a, b, c, d;
  cublasLtMatmulAlgo_t algorithm{};
};

cudaDataType_t type_of(DType type) {
  switch (type) {
    case DType::f64: return CUDA_R_64F;
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    case DType::f8_e4m3: return CUDA_R_8F_E4M3;
    case DType::f8_e5m2: return CUDA_R_8F_E5M2;
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u64:
    case DType::u32:
    case DType::u16:
    case DType::u8:
    case DType::boolean: break;
  }
  fail(ExitCode::bug, "products have no factors of type {}", name_of(type));
}

template <class Value>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check_cublaslt(cublaslt().MatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value),
                 "cannot describe a product");
}
template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  check_cublaslt(cublaslt().MatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
                 "cannot describe a product");
}

MatrixLayout layout_of(const ColumnMatrix& matrix) {
  MatrixLayout layout;
  check_cublaslt(
      cublaslt().MatrixLayoutCreate(layout.place(), type_of(matrix.type), static_cast<std::uint64_t>(matrix.rows),
                                    static_cast<std::uint64_t>(matrix.columns), matrix.leading),
      "cannot describe a matrix");
  return layout;
}

cublasComputeType_t compute_type(const ColumnProduct& shape) {
  if (shape.sums == DType::f64) return CUBLAS_COMPUTE_64F;
  return shape.may_round_to_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

Operation operation_of(const ColumnProduct& shape) {
  Operation operation;
  check_cublaslt(cublaslt().MatmulDescCreate(operation.place(), compute_type(shape), type_of(shape.sums)),
                 "cannot describe a product");
  const auto as_stored = [](Trans trans) { return trans == Trans::yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, as_stored(shape.trans_a));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, as_stored(shape.trans_b));
  if (shape.has_factors) set(operation, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
  if (shape.has_bias) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(shape.bias));
  }
  return operation;
}

/// Sets what differs between products of one shape.
void set_addresses(const Operation& operation, const ColumnProduct& shape, const Product& product) {
  if (shape.has_bias) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  if (shape.has_scales) {
    set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product.b.scale);
    set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product.a.scale);
    set(operation, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, product.y_scale);
  }
  if (shape.has_maximum) set(operation, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, product.maximum);
}

ColumnProduct shape_of(const Product& product) {
  ColumnProduct shape = column_major(product);
  shape.may_round_to_tf32 = tf32_is_allowed && shape.a.type == DType::f32;
  return shape;
}

PreparedProduct described(const ColumnProduct& shape) {
  return {.operation = operation_of(shape),
          .a = layout_of(shape.a),
          .b = layout_of(shape.b),
          .c = layout_of(shape.c),
          .d = layout_of(shape.d)};
}

/// ProductClock times work in the compute queue.
class ProductClock {
 public:
  ProductClock() { moments_->wait(now()); }  // from which the device counts
  ~ProductClock() { moments_->close(); }
  ProductClock(const ProductClock&) = delete;
  ProductClock& operator=(const ProductClock&) = delete;

  template <class Work>
  double seconds_of(const Work& work) const {
    const auto begin = now();
    work();
    const auto end = now();
    moments_->wait(end);
    return moments_->seconds_of(*end) - moments_->seconds_of(*begin);
  }

 private:
  std::shared_ptr<MomentOfQueue> now() const { return moments_->record(compute_stream(), DeviceQueue::compute); }
  std::shared_ptr<Moments> moments_ = std::make_shared<Moments>();
};

class Products {
 public:
  Products() {
    check_cublaslt(cublaslt().Create(library_.place()), "cannot start cublasLt");
    workspace_ = device_memory(product_workspace_bytes);
  }
  void multiply(const Product& product) {
    const ColumnProduct shape = shape_of(product);
    start(product, shape, prepared_for(shape, product));
  }
  std::vector<std::string> computed() const {
    std::vector<std::string> texts;
    for (const auto& [shape, prepared] : prepared_) texts.push_back(text_of(shape));
    return texts;
  }
  void use(const ColumnProduct& shape, int proposal) {
    chosen_[shape] = proposal;
    prepared_.erase(shape);
  }
  int fastest(const ColumnProduct& shape) const {
    const ProductScratch scratch(shape);
    PreparedProduct made = described(shape);
    const std::vector<cublasLtMatmulAlgo_t> proposed = proposals(made, shape, scratch.product(), most_proposals);
    const ProductClock clock;
    std::vector<double> least_s(proposed.size(), std::numeric_limits<double>::infinity());
    constexpr int rounds = 3;  // of all proposals, for the clock rate of the device changes meanwhile
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < proposed.size(); ++i) {
        made.algorithm = proposed[i];
        least_s[i] = std::min(least_s[i], seconds_of(scratch.product(), shape, made, clock));
      }
    return static_cast<int>(std::ranges::min_element(least_s) - least_s.begin());
  }

 private:
  static constexpr int most_proposals = DeviceProducts::proposals;

  /// The seconds of one product; infinite if cublasLt refuses to start it.
  double seconds_of(const Product& product, const ColumnProduct& shape, const PreparedProduct& prepared,
                    const ProductClock& clock) const {
    const auto work = [&] { start(product, shape, prepared); };
    try {
      work();  // loads the kernel
    } catch (const Error&) {
      require_sound();
      return std::numeric_limits<double>::infinity();
    }
    constexpr double enough_s = 5e-4, most_calls = 20;
    const double once_s = std::max(clock.seconds_of(work), enough_s / most_calls);
    const int calls = static_cast<int>(std::ceil(enough_s / once_s));
    if (calls == 1) return once_s;
    const double all_s = clock.seconds_of([&] {
      for (int made = 0; made < calls; ++made) work();
    });
    return all_s / calls;
  }

  void start(const Product& product, const ColumnProduct& shape, const PreparedProduct& prepared) const {
    set_addresses(prepared.operation, shape, product);
    const auto narrow_alpha = static_cast<float>(product.alpha), narrow_beta = static_cast<float>(product.beta);
    const bool in_fp64 = shape.sums == DType::f64;
    const void* alpha = in_fp64 ? static_cast<const void*>(&product.alpha) : &narrow_alpha;
    const void* beta = in_fp64 ? static_cast<const void*>(&product.beta) : &narrow_beta;
    if (shape.has_factors) {
      alpha = product.factors;
      beta = static_cast<const std::byte*>(product.factors) + size_of(shape.sums);
    }
    check_cublaslt(cublaslt().Matmul(library_.get(), prepared.operation.get(), alpha, product.b.data, prepared.a.get(),
                                     product.a.data, prepared.b.get(), beta, shape.has_base ? product.base : product.y,
                                     prepared.c.get(), product.y, prepared.d.get(), &prepared.algorithm,
                                     workspace_.get(), product_workspace_bytes, compute_stream()),
                   "cannot start a product");
  }

  const PreparedProduct& prepared_for(const ColumnProduct& shape, const Product& product) {
    if (const auto found = prepared_.find(shape); found != prepared_.end()) return found->second;
    constexpr std::size_t most = 1000;  // a run whose shapes never repeat
    if (prepared_.size() >= most) prepared_.clear();
    PreparedProduct made = described(shape);
    const auto chosen = chosen_.find(shape);
    const int number = chosen == chosen_.end() ? 0 : chosen->second;
    const auto proposed = proposals(made, shape, product, chosen == chosen_.end() ? 1 : most_proposals);
    if (std::cmp_greater_equal(number, proposed.size()))
      throw Error(ExitCode::input,
                  fmt::format("proposal {} was chosen for the product '{}', but cublasLt makes only {}", number,
                              text_of(shape), proposed.size()),
                  "remove products.json in the run folder: the products are then searched anew");
    made.algorithm = proposed[static_cast<std::size_t>(number)];
    return prepared_.emplace(shape, std::move(made)).first->second;
  }

  /// The algorithms that cublasLt proposes, at most `most` and at least one.
  std::vector<cublasLtMatmulAlgo_t> proposals(const PreparedProduct& made, const ColumnProduct& shape,
                                              const Product& product, int most) const {
    set_addresses(made.operation, shape, product);  // the choice goes by their alignment
    Preference preference;
    check_cublaslt(cublaslt().MatmulPreferenceCreate(preference.place()), "cannot describe a product");
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, product_workspace_bytes);
    for (const auto& [attribute, alignment] :
         {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.a.alignment),
          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.b.alignment),
          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.c.alignment),
          std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.d.alignment)})
      set(preference, attribute, static_cast<std::uint32_t>(alignment));
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
    int count = 0;
    check_cublaslt(
        cublaslt().MatmulAlgoGetHeuristic(library_.get(), made.operation.get(), made.a.get(), made.b.get(),
                                          made.c.get(), made.d.get(), preference.get(), most, found.data(), &count),
        "cannot choose how to multiply");
    if (count == 0)
      fail(ExitCode::bug, "cublasLt has no algorithm for a product of {} values to {} ({} x {} x {})",
           name_of(shape.b.type), name_of(shape.d.type), shape.d.columns, shape.d.rows,
           shape.trans_b == Trans::yes ? shape.b.columns : shape.b.rows);
    std::vector<cublasLtMatmulAlgo_t> proposed;
    for (const cublasLtMatmulHeuristicResult_t& one : std::span(found).first(static_cast<std::size_t>(count)))
      proposed.push_back(one.algo);
    return proposed;
  }

  Library library_;
  std::shared_ptr<void> workspace_;
  std::map<ColumnProduct, PreparedProduct> prepared_;
  std::map<ColumnProduct, int> chosen_;  // numbers of proposals
};

std::unique_ptr<Products>& products() {
  static auto* const kept =
      new std::unique_ptr<Products>;  // is released by its device, never by the end of the process
  return *kept;
}

Products& open_products() {
  ready_for_call();
  if (products() == nullptr) products() = std::make_unique<Products>();
  return *products();
}

}  // namespace

void allow_tf32(bool allowed) { tf32_is_allowed = allowed; }

void multiply(const Product& product) { open_products().multiply(product); }

std::string cublaslt_version() {
  constexpr std::size_t major = 10000, minor = 100;  // 130100 is 13.1.0
  const std::size_t version = cublaslt().GetVersion();
  return fmt::format("cublasLt {}.{}.{}", version / major, version % major / minor, version % minor);
}

std::vector<std::string> computed_products() {
  return products() == nullptr ? std::vector<std::string>() : products()->computed();
}

int fastest_algorithm(const std::string& product) { return open_products().fastest(product_of(product)); }

void use_algorithm(const std::string& product, int proposal) { open_products().use(product_of(product), proposal); }

void release_products() noexcept { products().reset(); }

}  // namespace lockstep::cuda
