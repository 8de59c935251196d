#include "cuda/product.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <sstream>

namespace lockstep::cuda {

namespace {

bool is_fp8(DType type) { return type == DType::f8_e4m3 || type == DType::f8_e5m2; }

void require(bool holds, const Product& product, std::string_view rule) {
  if (holds) return;
  fail(ExitCode::bug, "a product of {} and {} values to {} ({} x {} x {}) breaks a rule of cublasLt: {}",
       name_of(product.a.type), name_of(product.b.type), name_of(product.type), product.m, product.n, product.k, rule);
}

int alignment_of(const void* address) {
  constexpr int most = 256;
  const auto number = std::bit_cast<std::uintptr_t>(address);
  return number == 0 ? most : std::min(most, 1 << std::min(8, std::countr_zero(number)));
}

/// A row-major matrix of (rows, columns) is its transpose in column-major order.
ColumnMatrix turned(const void* data, DType type, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return {.type = type, .rows = columns, .columns = rows, .leading = stride, .alignment = alignment_of(data)};
}

/// A factor that enters as (rows, columns).
ColumnMatrix turned(const Factor& factor, std::int64_t rows, std::int64_t columns) {
  if (factor.trans == Trans::yes) std::swap(rows, columns);
  return turned(factor.data, factor.type, rows, columns, factor.stride);
}

void require_types(const Product& product) {
  const DType a = product.a.type, b = product.b.type, y = product.type;
  const bool short_floats = a == DType::bf16 || a == DType::f16;
  if (is_fp8(a) || is_fp8(b)) {
    require(is_fp8(a) && is_fp8(b), product, "both factors are fp8");
    require(a == DType::f8_e4m3 || b == DType::f8_e4m3, product, "one of two fp8 factors is e4m3");
    require(y == DType::f32 || y == DType::bf16 || y == DType::f16 || is_fp8(y), product, "the type of the result");
    require(product.a.trans == Trans::no && product.b.trans == Trans::yes, product,
            "fp8 factors are stored as (m, k) and (n, k)");
    constexpr std::int64_t multiple = 16;
    require(product.n % multiple == 0 && product.k % multiple == 0, product, "n and k are multiples of 16 for fp8");
    require(product.a.stride % multiple == 0 && product.b.stride % multiple == 0, product,
            "rows of fp8 values begin at multiples of 16 bytes");
  } else {
    require(a == b, product, "both factors have one type");
    require(a == DType::f32 || a == DType::f64 || short_floats, product, "the type of the factors");
    require(y == a || (short_floats && y == DType::f32), product, "the type of the result");
  }
  require(is_fp8(a) || (product.a.scale == nullptr && product.b.scale == nullptr), product, "scales are for fp8");
  require(is_fp8(y) || (product.y_scale == nullptr && product.maximum == nullptr), product,
          "a scale and the maximum of the result are for fp8");
}

void require_places(const Product& product) {
  const auto rows_fit = [](const Factor& factor, std::int64_t rows, std::int64_t columns) {
    return factor.stride >= (factor.trans == Trans::no ? columns : rows);
  };
  require(product.m > 0 && product.n > 0 && product.k > 0, product, "no side is empty");
  constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();
  require(std::max({product.m, product.n, product.k}) <= longest, product, "sides are 32-bit numbers");
  require(product.a.data != nullptr && product.b.data != nullptr && product.y != nullptr, product,
          "factors and result have memory");
  require(rows_fit(product.a, product.m, product.k) && rows_fit(product.b, product.k, product.n) &&
              product.stride >= product.n,
          product, "rows are not longer than their stride");
  const bool reads_base = product.factors != nullptr ? product.base != nullptr : product.beta != 0;
  require(!reads_base || (product.base != nullptr && product.base_stride >= product.n), product,
          "beta needs a base, with rows of at least n values");
  require(product.bias == nullptr || product.bias_type == bias_type_of(product), product,
          "a bias has the type of the result, or a 16-bit type with fp8 factors");
}

}  // namespace

DType sum_type(const Product& product) { return product.a.type == DType::f64 ? DType::f64 : DType::f32; }

DType base_type_of(const Product& product) { return is_fp8(product.type) ? DType::bf16 : product.type; }

DType bias_type_of(const Product& product) {
  if (!is_fp8(product.a.type)) return product.type;
  return product.type == DType::f16 ? DType::f16 : DType::bf16;
}

ColumnProduct column_major(const Product& product) {
  require_types(product);
  require_places(product);
  const bool has_base = product.base != nullptr && (product.factors != nullptr || product.beta != 0);
  ColumnProduct turned_product{
      .a = turned(product.b, product.k, product.n),
      .b = turned(product.a, product.m, product.k),
      .c = has_base ? turned(product.base, base_type_of(product), product.m, product.n, product.base_stride)
                    : turned(product.y, base_type_of(product), product.m, product.n, product.stride),
      .d = turned(product.y, product.type, product.m, product.n, product.stride),
      .trans_a = product.b.trans,
      .trans_b = product.a.trans,
      .sums = sum_type(product),
      .bias = bias_type_of(product),
      .has_bias = product.bias != nullptr,
      .has_base = has_base,
      .has_scales = product.a.scale != nullptr || product.b.scale != nullptr || product.y_scale != nullptr,
      .has_maximum = product.maximum != nullptr,
      .has_factors = product.factors != nullptr};
  turned_product.d.alignment = std::min(turned_product.d.alignment, alignment_of(product.bias));
  return turned_product;
}

namespace {

std::string text_of(const ColumnMatrix& matrix) {
  return fmt::format("{} {} {} {} {}", name_of(matrix.type), matrix.rows, matrix.columns, matrix.leading,
                     matrix.alignment);
}

/// Calls visit(name, value) for each property that a product has or has not.
template <class Flags, class Visit>
void for_each_flag(Flags& product, const Visit& visit) {
  visit("with_bias", product.has_bias);
  visit("with_base", product.has_base);
  visit("with_scales", product.has_scales);
  visit("with_maximum", product.has_maximum);
  visit("with_factors", product.has_factors);
  visit("tf32", product.may_round_to_tf32);
}

/// Reads words. What is missing or wrong becomes a value with another text.
class Words {
 public:
  explicit Words(const std::string& text) : words_(text) {}
  std::string next() {
    std::string word;
    words_ >> word;
    return word;
  }
  DType type() { return parse_dtype(next()).value_or(DType::boolean); }
  template <class Number>
  Number number() {
    Number value = 0;
    words_ >> value;
    return value;
  }
  ColumnMatrix matrix() {
    next();  // its name
    ColumnMatrix read{.type = type()};
    read.rows = number<std::int64_t>();
    read.columns = number<std::int64_t>();
    read.leading = number<std::int64_t>();
    read.alignment = number<int>();
    return read;
  }
  Trans trans() { return next() == "t" ? Trans::yes : Trans::no; }

 private:
  std::istringstream words_;
};

}  // namespace

std::string text_of(const ColumnProduct& product) {
  const auto letter = [](Trans trans) { return trans == Trans::yes ? 't' : 'n'; };
  std::string text = fmt::format("a {} {} b {} {} c {} d {} sums {} bias {}", text_of(product.a),
                                 letter(product.trans_a), text_of(product.b), letter(product.trans_b),
                                 text_of(product.c), text_of(product.d), name_of(product.sums), name_of(product.bias));
  for_each_flag(product, [&](const char* name, bool is_set) {
    if (is_set) text += fmt::format(" {}", name);
  });
  return text;
}

ColumnProduct product_of(const std::string& text) {
  Words words(text);
  ColumnProduct product;
  product.a = words.matrix();
  product.trans_a = words.trans();
  product.b = words.matrix();
  product.trans_b = words.trans();
  product.c = words.matrix();
  product.d = words.matrix();
  words.next();
  product.sums = words.type();
  words.next();
  product.bias = words.type();
  for (std::string word = words.next(); !word.empty(); word = words.next())
    for_each_flag(product, [&](const char* name, bool& is_set) { is_set = is_set || word == name; });
  if (text_of(product) != text || product.a.type == DType::boolean)
    fail(ExitCode::input, "this is no product of cublasLt: '{}'", text);
  return product;
}

}  // namespace lockstep::cuda
