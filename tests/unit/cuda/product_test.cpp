// Products in the column-major terms of cublasLt, carried out by brute force and compared with the row-major product.
#include "cuda/product.hpp"
#include "base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(cuda_product)

using namespace lockstep;
using namespace lockstep::cuda;

namespace {

/// Memory of a matrix. Its elements are doubles whatever their declared type is, for only addresses are compared.
std::vector<double> drawn(std::int64_t count, int seed) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 2654435761u + static_cast<std::size_t>(seed) * 40503u) % 17) - 8;
  return values;
}

double element(const void* data, const ColumnMatrix& matrix, std::int64_t row, std::int64_t column) {
  BOOST_REQUIRE((row < matrix.rows && column < matrix.columns && matrix.rows <= matrix.leading));
  return static_cast<const double*>(data)[column * matrix.leading + row];
}

/// cublasLt's definition of a product, in column-major order. Rows of d that lie between its columns stay.
void multiply_columns(const ColumnProduct& called, const Product& product) {
  const std::int64_t rows = called.d.rows, columns = called.d.columns;
  const std::int64_t depth = called.trans_a == Trans::no ? called.a.columns : called.a.rows;
  BOOST_REQUIRE((called.trans_a == Trans::no ? called.a.rows : called.a.columns) == rows);
  BOOST_REQUIRE((called.trans_b == Trans::no ? called.b.rows : called.b.columns) == depth);
  BOOST_REQUIRE((called.trans_b == Trans::no ? called.b.columns : called.b.rows) == columns);
  BOOST_REQUIRE((called.c.rows == rows && called.c.columns == columns && called.d.leading >= rows));
  std::vector<double> sums;
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::int64_t l = 0; l < depth; ++l) {
        const double left = called.trans_a == Trans::no ? element(product.b.data, called.a, i, l)
                                                        : element(product.b.data, called.a, l, i);
        const double right = called.trans_b == Trans::no ? element(product.a.data, called.b, l, j)
                                                         : element(product.a.data, called.b, j, l);
        sum += left * right;
      }
      sum *= product.alpha;
      if (called.has_base) sum += product.beta * element(product.base, called.c, i, j);
      if (called.has_bias) sum += static_cast<const double*>(product.bias)[i];
      sums.push_back(sum);
    }
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i)
      static_cast<double*>(product.y)[j * called.d.leading + i] = sums[static_cast<std::size_t>(j * rows + i)];
}

double element(const Factor& factor, std::int64_t row, std::int64_t column) {
  if (factor.trans == Trans::yes) std::swap(row, column);
  return static_cast<const double*>(factor.data)[row * factor.stride + column];
}

void multiply_rows(const Product& product) {
  std::vector<double> sums;
  for (std::int64_t i = 0; i < product.m; ++i)
    for (std::int64_t j = 0; j < product.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < product.k; ++l) sum += element(product.a, i, l) * element(product.b, l, j);
      sum *= product.alpha;
      if (product.beta != 0)
        sum += product.beta * static_cast<const double*>(product.base)[i * product.base_stride + j];
      if (product.bias != nullptr) sum += static_cast<const double*>(product.bias)[j];
      sums.push_back(sum);
    }
  for (std::int64_t i = 0; i < product.m; ++i)
    for (std::int64_t j = 0; j < product.n; ++j)
      static_cast<double*>(product.y)[i * product.stride + j] = sums[static_cast<std::size_t>(i * product.n + j)];
}

struct Types {
  DType factors, result;
};
constexpr Types plain_types[] = {{DType::f32, DType::f32},  {DType::f64, DType::f64}, {DType::bf16, DType::bf16},
                                 {DType::bf16, DType::f32}, {DType::f16, DType::f16}, {DType::f16, DType::f32}};

/// A product that cublasLt takes, without memory that anybody reads.
Product small(Types types, Trans a = Trans::no, Trans b = Trans::no) {
  static std::vector<double> memory(64 * 64);
  return {.m = 16,
          .n = 32,
          .k = 48,
          .a = {.data = memory.data(), .type = types.factors, .stride = 48, .trans = a},
          .b = {.data = memory.data(), .type = types.factors, .stride = 48, .trans = b},
          .y = memory.data(),
          .type = types.result,
          .stride = 32};
}

bool is_refused(const Product& product) {
  try {
    column_major(product);
    return false;
  } catch (const Error& error) {
    BOOST_TEST((error.code() == ExitCode::bug));
    BOOST_TEST(std::string(error.what()).find("breaks a rule of cublasLt") != std::string::npos);
    return true;
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_column_major_product_is_the_row_major_one_for_all_types_transpositions_strides_and_beta) {
  constexpr std::int64_t sides[][3] = {{1, 1, 1}, {3, 5, 4}, {7, 2, 3}, {1, 6, 5}};
  int cases = 0;
  for (const Types types : plain_types)
    for (const auto& [m, n, k] : sides)
      for (const Trans trans_a : {Trans::no, Trans::yes})
        for (const Trans trans_b : {Trans::no, Trans::yes})
          for (const std::int64_t gap : {0, 3})
            for (const double beta : {0.0, 1.0, -0.5})
              for (const bool in_place : {true, false})
                for (const bool has_bias : {false, true}) {
                  const std::int64_t stride_a = (trans_a == Trans::no ? k : m) + gap;
                  const std::int64_t stride_b = (trans_b == Trans::no ? n : k) + gap / 2;
                  const std::int64_t stride = n + gap, base_stride = in_place ? stride : n + 1;
                  const auto a = drawn(std::max(m, k) * stride_a, 1), b = drawn(std::max(n, k) * stride_b, 2);
                  const auto base = drawn(m * base_stride, 3), bias = drawn(n, 4);
                  auto y = drawn(m * stride, 5), expected = y;
                  Product product{.m = m,
                                  .n = n,
                                  .k = k,
                                  .a = {a.data(), types.factors, stride_a, trans_a},
                                  .b = {b.data(), types.factors, stride_b, trans_b},
                                  .alpha = 2,
                                  .beta = beta,
                                  .base = in_place ? y.data() : base.data(),
                                  .base_stride = base_stride,
                                  .bias = has_bias ? bias.data() : nullptr,
                                  .bias_type = types.result,
                                  .y = y.data(),
                                  .type = types.result,
                                  .stride = stride};
                  multiply_columns(column_major(product), product);
                  product.y = expected.data();
                  if (in_place) product.base = expected.data();
                  multiply_rows(product);
                  BOOST_REQUIRE(y == expected);
                  ++cases;
                }
  BOOST_TEST(cases == 6 * 4 * 2 * 2 * 2 * 3 * 2 * 2);
}

BOOST_AUTO_TEST_CASE(sums_are_fp32_except_for_fp64_and_a_base_enters_only_with_beta) {
  for (const Types types : plain_types) {
    Product product = small(types);
    BOOST_TEST((column_major(product).sums == (types.factors == DType::f64 ? DType::f64 : DType::f32)));
    product.base = product.y;
    product.base_stride = 32;
    BOOST_TEST(!column_major(product).has_base);
    product.beta = 1;
    BOOST_TEST(column_major(product).has_base);
    product.beta = 0;
    product.factors = product.y;  // beta is on the device, and may be anything
    BOOST_TEST(column_major(product).has_base);
  }
}

BOOST_AUTO_TEST_CASE(a_bias_to_an_fp32_result_is_fp32) {
  for (const Types types : plain_types)
    for (const DType bias : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      Product product = small(types);
      product.bias = product.y;
      product.bias_type = bias;
      BOOST_TEST(is_refused(product) == (bias != types.result));
    }
}

BOOST_AUTO_TEST_CASE(fp8_factors_are_stored_with_their_sums_along_rows) {
  const Types types{DType::f8_e4m3, DType::bf16};
  for (const Trans a : {Trans::no, Trans::yes})
    for (const Trans b : {Trans::no, Trans::yes})
      BOOST_TEST(is_refused(small(types, a, b)) == !(a == Trans::no && b == Trans::yes));
  const Product taken = small(types, Trans::no, Trans::yes);
  const ColumnProduct called = column_major(taken);
  BOOST_TEST((called.trans_a == Trans::yes && called.trans_b == Trans::no));  // "TN"
  for (const DType result : {DType::f32, DType::f16, DType::f8_e4m3}) {
    Product product = taken;
    product.type = result;
    BOOST_TEST(!is_refused(product));
    product.bias = product.y;
    for (const DType bias : {DType::f32, DType::bf16, DType::f16}) {
      product.bias_type = bias;
      BOOST_TEST(is_refused(product) == (bias != (result == DType::f16 ? DType::f16 : DType::bf16)));
    }
  }
  for (const auto& spoil : std::vector<std::function<void(Product&)>>{
           [](Product& one) { one.n = 33; }, [](Product& one) { one.k = 40; }, [](Product& one) { one.a.stride = 50; },
           [](Product& one) { one.b.type = DType::bf16; }, [](Product& one) { one.type = DType::f64; },
           [](Product& one) { one.a.type = one.b.type = DType::f8_e5m2; }}) {
    Product product = taken;
    spoil(product);
    BOOST_TEST(is_refused(product));
  }
}

BOOST_AUTO_TEST_CASE(scales_and_the_maximum_are_for_fp8) {
  const float on_device = 1;
  float maximum = 0;
  Product product = small({DType::f8_e4m3, DType::bf16}, Trans::no, Trans::yes);
  product.a.scale = product.b.scale = &on_device;
  BOOST_TEST(column_major(product).has_scales);
  product.maximum = &maximum;
  BOOST_TEST(is_refused(product));
  product.type = DType::f8_e4m3;
  product.y_scale = &on_device;
  BOOST_TEST(column_major(product).has_maximum);
  BOOST_TEST((column_major(product).c.type == DType::bf16));
  for (const Types types : plain_types) {
    Product plain = small(types);
    plain.b.scale = &on_device;
    BOOST_TEST(is_refused(plain));
    plain = small(types);
    plain.maximum = &maximum;
    BOOST_TEST(is_refused(plain));
  }
}

BOOST_AUTO_TEST_CASE(other_types_and_places_that_do_not_fit_are_refused) {
  for (const DType a : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i8})
    for (const DType b : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i8})
      for (const DType y : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i8}) {
        Product product = small({a, y});
        product.b.type = b;
        const bool is_plain =
            a == b && std::ranges::any_of(plain_types, [&](Types one) { return one.factors == a && one.result == y; });
        BOOST_TEST(is_refused(product) == !is_plain);
      }
  for (const auto& spoil : std::vector<std::function<void(Product&)>>{
           [](Product& one) { one.m = 0; }, [](Product& one) { one.k = 0; }, [](Product& one) { one.a.stride = 47; },
           [](Product& one) { one.b.stride = 31; }, [](Product& one) { one.stride = 31; },
           [](Product& one) { one.a.data = nullptr; }, [](Product& one) { one.y = nullptr; },
           [](Product& one) { one.beta = 1; }, [](Product& one) { one.n = std::int64_t{1} << 31; }}) {
    Product product = small({DType::f32, DType::f32});
    spoil(product);
    BOOST_TEST(is_refused(product));
  }
}

BOOST_AUTO_TEST_CASE(alignments_are_those_of_the_addresses) {
  alignas(256) static std::byte memory[1024];
  Product product = small({DType::bf16, DType::bf16});
  for (const int offset : {0, 2, 16, 48, 256}) {
    product.a.data = memory + offset;
    product.y = memory;
    BOOST_TEST(column_major(product).b.alignment == (offset % 256 == 0 ? 256 : (offset & -offset)));
    BOOST_TEST(column_major(product).d.alignment == 256);
  }
  product.bias = memory + 32;
  product.bias_type = DType::bf16;
  BOOST_TEST(column_major(product).d.alignment == 32);
}

BOOST_AUTO_TEST_CASE(products_that_differ_in_addresses_alone_are_equal) {
  const Product one = small({DType::bf16, DType::f32});
  Product other = one;
  alignas(256) static std::byte memory[256];
  other.a.data = memory;
  Product aligned = one;
  alignas(256) static std::byte more[256];
  aligned.a.data = more;
  BOOST_TEST((column_major(other) == column_major(aligned)));
  other.m = 17;
  BOOST_TEST((column_major(other) != column_major(aligned)));
}

BOOST_AUTO_TEST_CASE(a_product_is_what_its_text_says) {
  alignas(256) static std::byte memory[1024];
  std::vector<ColumnProduct> products;
  for (const Types types : plain_types)
    for (const Trans left : {Trans::no, Trans::yes})
      for (const Trans right : {Trans::no, Trans::yes})
        for (const int alignment : {2, 256})
          for (const bool with_bias : {false, true})
            for (const bool with_base : {false, true}) {
              Product product = small(types, left, right);
              product.a.data = memory + alignment;
              if (with_bias) product.bias = memory;
              product.bias_type = bias_type_of(product);
              if (with_base) product.base = memory, product.base_stride = 64, product.beta = 1;
              products.push_back(column_major(product));
            }
  const std::size_t plain = products.size();
  for (std::size_t i = 0; i < plain; ++i) {
    products.push_back(products[i]);
    products.back().may_round_to_tf32 = true;
    products.push_back(products[i]);
    products.back().has_factors = true;
    products.push_back(products[i]);
    products.back().has_scales = products.back().has_maximum = true;
  }
  std::vector<std::string> texts;
  for (const ColumnProduct& product : products) {
    texts.push_back(text_of(product));
    BOOST_TEST((product_of(texts.back()) == product), texts.back());
  }
  std::ranges::sort(texts);
  BOOST_TEST((std::ranges::adjacent_find(texts) == texts.end()));
  for (const std::string& text :
       {std::string(), texts[0] + " more", texts[0] + " ", texts[0].substr(1), texts[0].substr(0, texts[0].size() / 2),
        "x" + texts[0].substr(1), texts[0] + " tf32 tf32"})
    BOOST_CHECK_THROW(static_cast<void>(product_of(text)), Error);
}

BOOST_AUTO_TEST_SUITE_END()
