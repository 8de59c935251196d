// Norms and rotations of heads on the device, run on the host, against the formulas in double.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/head_norms.cu"
#include "cuda/kernels/rotate.cu"
#include "kernel_checks.hpp"

BOOST_AUTO_TEST_SUITE(cuda_heads)

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr double eps = 1e-3;

struct Case {
  std::int64_t rows;
  AttentionShape shape;
  Start start = Start::aligned;
  double beta = 0.5;
};

/// y, rstd, dqkv, dquery_weight, dkey_weight.
template <class T>
void check_norms(const Case& of, const std::string& type) {
  const std::int64_t width = of.shape.width(), size = of.shape.head_size, normed = of.shape.heads + of.shape.kv_heads;
  Values<T> qkv(normal_values(of.rows * width, 1), of.start), dy(normal_values(of.rows * width, 2), of.start);
  Values<T> query_weight(normal_values(size, 3), of.start), key_weight(normal_values(size, 4), of.start);
  Results wanted(5);
  wanted[3] = Values<Math<T>>(normal_values(size, 5)).all();
  wanted[4] = Values<Math<T>>(normal_values(size, 6)).all();
  for (const std::size_t i : {3, 4}) {
    for (double& value : wanted[i]) value *= of.beta;
  }
  for (std::int64_t head = 0; head < of.rows * width / size; ++head) {
    const std::int64_t in_row = head % (width / size);
    const Values<T>& weight = in_row < of.shape.heads ? query_weight : key_weight;
    double squares = 0, product = 0;
    for (std::int64_t i = 0; i < size; ++i) squares += std::pow(qkv[head * size + i], 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(size) + eps);
    for (std::int64_t i = 0; i < size; ++i)
      product += dy[head * size + i] * weight[i] * qkv[head * size + i] * scale / static_cast<double>(size);
    if (in_row < normed) wanted[1].push_back(scale);
    for (std::int64_t i = 0; i < size; ++i) {
      const double x = qkv[head * size + i], g = dy[head * size + i];
      wanted[0].push_back(in_row < normed ? x * scale * weight[i] : x);
      wanted[2].push_back(in_row < normed ? scale * (g * weight[i] - x * scale * product) : g);
      if (in_row < normed) wanted[in_row < of.shape.heads ? 3 : 4][static_cast<std::size_t>(i)] += g * x * scale;
    }
  }
  const Results found = in_any_order([&]() -> Results {
    Values<T> y(of.rows * width, of.start), dqkv(of.rows * width, of.start);
    Values<Math<T>> rstd(of.rows * normed), dquery(normal_values(size, 5)), dkey(normal_values(size, 6));
    if (of.beta == 0) dquery = dkey = Values<Math<T>>(size);
    cuda::head_norm_forward<T>(qkv.data(), of.shape, query_weight.data(), key_weight.data(), eps, of.rows, y.data(),
                               rstd.data());
    cuda::head_norm_backward<T>(dy.data(), qkv.data(), of.shape, query_weight.data(), key_weight.data(), rstd.data(),
                                of.rows, dqkv.data(), dquery.data(), of.beta, dkey.data(), of.beta);
    return {y.all(), rstd.all(), dqkv.all(), dquery.all(), dkey.all()};
  });
  const char* const names[] = {", y", ", rstd", ", dqkv", ", dquery_weight", ", dkey_weight"};
  for (std::size_t i = 0; i < 5; ++i)
    check_near(found[i], wanted[i], i % 2 == 0 && i < 4 ? 2 * rounding<T> : 8 * rounding<Math<T>>, type + names[i]);
}

template <class T>
void check_rotation(const Case& of, const std::string& type) {
  const std::int64_t width = of.shape.width(), size = of.shape.head_size, half = size / 2;
  const std::int64_t rotated = of.shape.heads + of.shape.kv_heads;
  std::vector<std::int32_t> positions;
  for (std::int64_t r = 0; r < of.rows; ++r) positions.push_back(static_cast<std::int32_t>(7 * r % 11));
  std::vector<double> cosines, sines;
  for (std::int64_t i = 0; i < 11 * half; ++i) {
    cosines.push_back(1.5 * std::cos(0.1 * static_cast<double>(i)));
    sines.push_back(1.5 * std::sin(0.1 * static_cast<double>(i)));
  }
  Values<Math<T>> cosine(cosines), sine(sines);
  Values<T> qkv(normal_values(of.rows * width, 1), of.start);
  const Rotation<Math<T>> rotation{cosine.data(), sine.data()};
  for (const cuda::RotateBy by : {cuda::RotateBy::position, cuda::RotateBy::minus_position}) {
    std::vector<double> wanted;
    for (std::int64_t i = 0; i < qkv.count(); ++i) {
      const std::int64_t row = i / width, head = i % width / size, pair = i % half;
      const std::int64_t angle = positions[static_cast<std::size_t>(row)] * half + pair;
      const bool is_first = i % size < half;
      const double other = qkv[is_first ? i + half : i - half];
      const double sign = (by == cuda::RotateBy::position) == is_first ? -1 : 1;
      wanted.push_back(head < rotated ? qkv[i] * cosine[angle] + sign * other * sine[angle] : qkv[i]);
    }
    const Results found = in_any_order([&]() -> Results {
      Values<T> y(of.rows * width, of.start), in_place(qkv.all(), of.start);
      cuda::rotate_heads<T>(qkv.data(), of.shape, rotation, positions.data(), of.rows, by, y.data());
      cuda::rotate_heads<T>(in_place.data(), of.shape, rotation, positions.data(), of.rows, by, in_place.data());
      return {y.all(), in_place.all()};
    });
    check_near(found[0], wanted, rounding<T>, type + ", rotated");
    check_near(found[1], found[0], 0, type + ", in place");
  }
}

/// Columns [first, first + count) of a matrix with `width` columns.
std::vector<double> columns_of(const std::vector<double>& all, std::int64_t width, std::int64_t first,
                               std::int64_t count) {
  std::vector<double> part;
  for (std::size_t row = 0; row < all.size(); row += static_cast<std::size_t>(width))
    for (std::int64_t i = 0; i < count; ++i) part.push_back(all[row + static_cast<std::size_t>(first + i)]);
  return part;
}

/// Gradients apart become those side by side, rotated back or as they are.
template <class T>
void check_join(const Case& of, const std::string& type) {
  const std::int64_t width = of.shape.width(), size = of.shape.head_size, half = size / 2;
  const std::int64_t queries = of.shape.heads * size, keys = of.shape.kv_heads * size;
  const std::vector<std::int32_t> positions(static_cast<std::size_t>(of.rows), 2);
  std::vector<double> cosines, sines;
  for (std::int64_t i = 0; i < 3 * half; ++i) {
    cosines.push_back(1.5 * std::cos(0.1 * static_cast<double>(i)));
    sines.push_back(1.5 * std::sin(0.1 * static_cast<double>(i)));
  }
  Values<Math<T>> cosine(cosines), sine(sines);
  const std::vector<double> all = Values<T>(normal_values(of.rows * width, 1)).all();
  Values<T> dq(columns_of(all, width, 0, queries), of.start), dk(columns_of(all, width, queries, keys), of.start);
  Values<T> dv(columns_of(all, width, queries + keys, keys), of.start);
  std::vector<double> turned = all;
  for (std::int64_t i = 0; i < of.rows * width; ++i) {
    const std::int64_t angle = 2 * half + i % half;
    if (i % width >= queries + keys) continue;
    const bool is_first = i % size < half;
    const double other = all[static_cast<std::size_t>(is_first ? i + half : i - half)];
    turned[static_cast<std::size_t>(i)] =
        all[static_cast<std::size_t>(i)] * cosine[angle] + (is_first ? other : -other) * sine[angle];
  }
  const Results found = in_any_order([&]() -> Results {
    Values<T> joined(of.rows * width, of.start), back(of.rows * width, of.start);
    cuda::join_gradients<T>(dq.data(), dk.data(), dv.data(), of.shape, {}, nullptr, of.rows, joined.data());
    cuda::join_gradients<T>(dq.data(), dk.data(), dv.data(), of.shape, {cosine.data(), sine.data()}, positions.data(),
                            of.rows, back.data());
    return {joined.all(), back.all()};
  });
  check_near(found[0], all, 0, type + ", joined");
  check_near(found[1], turned, rounding<T>, type + ", rotated back");
}

}  // namespace

BOOST_AUTO_TEST_CASE(norms_of_heads_agree_with_double_in_all_types) {
  for_each_type([]<class T>(const std::string& type) {
    check_norms<T>({5, {4, 2, 16}}, type);
    check_norms<T>({3, {3, 1, 6}, Start::unaligned}, type);
    check_norms<T>({2, {2, 2, 128}, Start::aligned, 0}, type);
    check_norms<T>({2, {1, 1, 250}}, type);
  });
}

BOOST_AUTO_TEST_CASE(more_heads_than_blocks_are_summed) { check_norms<float>({700, {2, 1, 256}}, "fp32"); }

BOOST_AUTO_TEST_CASE(a_head_of_more_than_256_elements_is_refused) {
  Values<float> none(0);
  BOOST_CHECK_THROW(cuda::head_norm_forward<float>(none.data(), {1, 1, 264}, none.data(), none.data(), eps, 0,
                                                   none.data(), none.data()),
                    std::runtime_error);
}

BOOST_AUTO_TEST_CASE(heads_are_rotated_by_their_positions_and_back) {
  for_each_type([]<class T>(const std::string& type) {
    check_rotation<T>({5, {4, 2, 32}}, type);
    check_rotation<T>({3, {2, 1, 6}, Start::unaligned}, type);
    check_rotation<T>({3, {1, 1, 2}}, type);
  });
}

BOOST_AUTO_TEST_CASE(gradients_of_queries_keys_and_values_are_put_side_by_side) {
  for_each_type([]<class T>(const std::string& type) {
    check_join<T>({5, {4, 2, 32}}, type);
    check_join<T>({3, {2, 1, 6}, Start::unaligned}, type);
    check_join<T>({3, {1, 1, 16}}, type);
  });
}

BOOST_AUTO_TEST_SUITE_END()
