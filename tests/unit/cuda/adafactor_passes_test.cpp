// Adafactor's passes on the device, run on the host, against those of the CPU in double.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/adafactor_passes.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"
#include "tensor/kernels/adafactor_pass.hpp"

#include <span>

BOOST_AUTO_TEST_SUITE(cuda_adafactor_passes)

using namespace lockstep;
using namespace lockstep::test;

namespace {

// More rows than chunks of a sum, and more columns than threads of a block.
constexpr std::int64_t tall = 66, wide = 260, elements = 2 * tall * wide + 12;

AdafactorPart part(Shape matrix) {
  return {.matrix = std::move(matrix),
          .toward = 0.25,
          .eps = 1e-3,
          .least_scale = 1e-3,
          .clip = 0.5,
          .rate = 0.125,
          .decay = 0.01,
          .momentum = 0.75,
          .scales = true};
}

/// Two whole matrices, and a part of a third whose columns lie in two runs.
std::vector<AdafactorPart> matrices() {
  AdafactorPart whole = part({tall, wide}), some = part({6, 10});
  whole.matrices = 2;
  whole.rows = 2 * tall;
  whole.columns = wide;
  whole.runs = {{0, 0, wide}};
  whole.sums_a_matrix = tall + wide + 1;
  some.first_row = 2;
  some.rows = 3;
  some.columns = 4;
  some.runs = {{1, 0, 3}, {8, 3, 1}};
  some.sums_a_matrix = 17;
  some.first = 2 * (tall + wide + 1);
  some.second = 2;
  some.factors = 2 * (tall + wide);
  some.offset = 2 * tall * wide;
  some.states = {2 * tall, 2 * wide, 0};
  some.momentum = 0.5;
  some.clip = 4;
  return {whole, some};
}

std::vector<AdafactorPart> vectors() {
  AdafactorPart first = part({700}), second = part({3});
  first.rows = second.rows = 1;
  first.columns = 700;
  second.columns = 3;
  first.runs = {{0, 0, 700}};
  second.runs = {{0, 0, 3}};
  first.sums_a_matrix = second.sums_a_matrix = 2;
  second.first = 2;
  second.factors = second.offset = second.states[0] = 700;
  second.scales = false;
  return {first, second};
}

enum class Kept { master, with_copy, short_alone, compensated };

/// The buffers of a pass, of which a run changes a copy.
template <class M>
struct Buffers {
  std::vector<AdafactorPart> parts;
  bool factored;
  Kept kept;
  Values<double> first, second;
  Values<M> gradient, weights, rows, columns, averages, factors;
  Values<Bf16> compute, short_weights, rest;

  Buffers(std::vector<AdafactorPart> of, bool of_matrices, Kept keeps, bool zero_sums)
      : parts(std::move(of)),
        factored(of_matrices),
        kept(keeps),
        first(zero_sums ? std::vector<double>(sums) : positive(sums, 1)),
        second(zero_sums ? std::vector<double>(3) : positive(3, 2)),
        gradient(normal_values(elements, 3)),
        weights(normal_values(elements, 4)),
        rows(positive(factored ? 2 * tall + 6 : 703, 5)),
        columns(positive(2 * wide + 10, 6)),
        averages(normal_values(elements, 7)),
        factors(positive(factored ? 2 * (tall + wide) + 16 : 703, 8)),
        compute(normal_values(elements, 9)),
        short_weights(normal_values(elements, 4)),
        rest(normal_values(elements, 10, 1e-3)) {}

  static constexpr std::int64_t sums = 2 * (tall + wide + 1) + 17;
  static std::vector<double> positive(std::int64_t count, std::uint32_t seed) {
    std::vector<double> values = normal_values(count, seed);
    for (double& value : values) value = std::abs(value) + 0.1;
    return values;
  }
  AdafactorPass<M> pass() {
    const bool has_master = kept == Kept::master || kept == Kept::with_copy;
    return {.parts = parts,
            .factored = factored,
            .scale = M(0.5),
            .weights = {.master = has_master ? weights.data() : nullptr,
                        .compute = kept == Kept::with_copy ? compute.data() : nullptr,
                        .short_weights = has_master ? nullptr : short_weights.data(),
                        .compensation = kept == Kept::compensated ? rest.data() : nullptr},
            .gradient = gradient.data(),
            .states = {rows.data(), factored ? columns.data() : averages.data(), factored ? averages.data() : nullptr},
            .first = first.data(),
            .second = factored ? second.data() : nullptr,
            .factors = factors.data()};
  }
  Results results() const {
    return {first.all(),    second.all(),  weights.all(), rows.all(),          columns.all(),
            averages.all(), factors.all(), compute.all(), short_weights.all(), rest.all()};
  }
};

template <class M>
void check(bool factored, Kept kept, int stage, double bound) {
  const auto parts = factored ? matrices() : vectors();
  const auto start = [&] { return Buffers<M>(parts, factored, kept, stage == 0); };
  const auto run = [&](auto sums, auto means, auto follow) -> Results {
    Buffers<M> buffers = start();
    const AdafactorPass<M> pass = buffers.pass();
    if (stage == 0) sums(pass);
    if (stage == 1) means(pass);
    if (stage == 2) follow(pass);
    return buffers.results();
  };
  const Results found =
      in_any_order([&] { return run(cuda::adafactor_sums<M>, cuda::adafactor_means<M>, cuda::adafactor_follow<M>); });
  const Results wanted = run(lockstep::adafactor_sums<M>, lockstep::adafactor_means<M>, lockstep::adafactor_follow<M>);
  for (std::size_t i = 0; i < found.size(); ++i)
    check_near(
        found[i], wanted[i], i < 7 ? bound : 2 * rounding<Bf16>,
        "stage " + std::to_string(stage) + (factored ? ", matrices" : ", vectors") + ", buffer " + std::to_string(i));
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_pass_has_the_numbers_of_the_cpu) {
  for (const bool factored : {true, false})
    for (const int stage : {0, 1, 2}) {
      if (stage == 1 && !factored) continue;
      check<double>(factored, Kept::with_copy, stage, 1e-12);
      const std::vector<Kept> all{Kept::compensated, Kept::master, Kept::with_copy, Kept::short_alone};
      for (const Kept kept : std::span(all).first(stage == 0 ? 2 : stage == 1 ? 1 : 4))
        check<float>(factored, kept, stage, 1e-5);
    }
}

namespace {

constexpr std::int64_t many_rows = 1024, many_columns = 4096;

std::vector<double> positive_values(std::int64_t count, std::uint32_t seed) {
  std::vector<double> values = normal_values(count, seed);
  for (double& value : values) value = std::abs(value) + 0.1;
  return values;
}

/// The last of so many matrices after each of the passes. The matrices before it are zero. Only the last 64 blocks of
/// each kernel run: they have some of its rows and columns, and all chunks of its sums.
std::vector<Results> last_matrix(std::int64_t count) {
  constexpr std::int64_t size = many_rows * many_columns, factors_each = many_rows + many_columns;
  const std::int64_t before = count - 1;
  AdafactorPart whole = part({many_rows, many_columns});
  whole.matrices = count;
  whole.rows = count * many_rows;
  whole.columns = many_columns;
  whole.runs = {{0, 0, many_columns}};
  whole.sums_a_matrix = factors_each + 1;
  DistantMemory<float> gradient(count * size), weights(count * size), averages(count * size);
  DistantMemory<float> rows(count * many_rows), columns(count * many_columns), factors(count * factors_each);
  DistantMemory<double> first(count * (factors_each + 1)), second(count);
  constexpr std::int64_t drawn = 64 * many_columns;  // the last rows; those above are zero
  const std::int64_t drawn_from = count * size - drawn;
  gradient.set(drawn_from, normal_values(drawn, 1));
  weights.set(drawn_from, normal_values(drawn, 2));
  averages.set(drawn_from, normal_values(drawn, 3));
  const AdafactorPass<float> pass{.parts = {whole},
                                  .factored = true,
                                  .scale = 0.5f,
                                  .weights = {.master = weights.data()},
                                  .gradient = gradient.data(),
                                  .states = {rows.data(), columns.data(), averages.data()},
                                  .first = first.data(),
                                  .second = second.data(),
                                  .factors = factors.data()};
  const on_host::LastBlocks only(64);
  std::vector<Results> found;
  cuda::adafactor_sums<float>(pass);
  found.push_back({first.values(before * (factors_each + 1), factors_each + 1)});
  first.set(before * (factors_each + 1), positive_values(factors_each + 1, 4));
  rows.set(before * many_rows, positive_values(many_rows, 5));
  columns.set(before * many_columns, positive_values(many_columns, 6));
  cuda::adafactor_means<float>(pass);
  found.push_back({rows.values(before * many_rows, many_rows), columns.values(before * many_columns, many_columns),
                   factors.values(before * factors_each, factors_each), second.values(before, 1)});
  cuda::adafactor_follow<float>(pass);
  found.push_back({weights.values(drawn_from, drawn), averages.values(drawn_from, drawn)});
  if (count > 1) {
    BOOST_CHECK(weights.values(size - drawn, drawn) == std::vector<double>(drawn, 0));
    BOOST_CHECK(averages.values(size - drawn, drawn) == std::vector<double>(drawn, 0));
  }
  return found;
}

/// A vector whose elements, state and factors lie behind `before` others.
Results vector_behind(std::int64_t before) {
  constexpr std::int64_t count = 700;
  AdafactorPart one = part({count});
  one.rows = 1;
  one.columns = count;
  one.runs = {{0, 0, count}};
  one.sums_a_matrix = 2;
  one.offset = before;
  one.factors = one.states[0] = before + 3;
  DistantMemory<float> gradient(before + count), weights(before + count), averages(before + count);
  DistantMemory<float> squares(before + 3 + count), factors(before + 3 + count);
  gradient.set(before, normal_values(count, 1));
  weights.set(before, normal_values(count, 2));
  averages.set(before, normal_values(count, 3));
  squares.set(before + 3, positive_values(count, 4));
  Values<double> first(std::vector<double>(2));
  const AdafactorPass<float> pass{.parts = {one},
                                  .factored = false,
                                  .scale = 0.5f,
                                  .weights = {.master = weights.data()},
                                  .gradient = gradient.data(),
                                  .states = {squares.data(), averages.data(), nullptr},
                                  .first = first.data(),
                                  .second = nullptr,
                                  .factors = factors.data()};
  cuda::adafactor_sums<float>(pass);
  cuda::adafactor_follow<float>(pass);
  return {first.all(), squares.values(before + 3, count), factors.values(before + 3, count),
          averages.values(before, count), weights.values(before, count)};
}

/// The end of a vector of `count` elements after the first and the last pass. Only the last block of each kernel runs:
/// it has no chunk of a sum with elements, so the sums are given.
Results end_of_vector(std::int64_t count) {
  constexpr std::int64_t looked_at = 10;
  const std::int64_t begin = count - looked_at;
  AdafactorPart one = part({count});
  one.rows = 1;
  one.columns = count;
  one.runs = {{0, 0, count}};
  one.sums_a_matrix = 2;
  one.scales = false;
  DistantMemory<float> gradient(count), weights(count), averages(count), squares(count), factors(count);
  gradient.set(begin, normal_values(looked_at, 1));
  weights.set(begin, normal_values(looked_at, 2));
  averages.set(begin, normal_values(looked_at, 3));
  squares.set(begin, positive_values(looked_at, 4));
  Values<double> first(std::vector<double>(2));
  const AdafactorPass<float> pass{.parts = {one},
                                  .factored = false,
                                  .scale = 0.5f,
                                  .weights = {.master = weights.data()},
                                  .gradient = gradient.data(),
                                  .states = {squares.data(), averages.data(), nullptr},
                                  .first = first.data(),
                                  .second = nullptr,
                                  .factors = factors.data()};
  const on_host::LastBlocks only(1);
  cuda::adafactor_sums<float>(pass);
  first.data()[1] = 0;  // steps of less than the clip
  cuda::adafactor_follow<float>(pass);
  return {squares.values(begin, looked_at), factors.values(begin, looked_at), averages.values(begin, looked_at),
          weights.values(begin, looked_at)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_last_of_matrices_with_billions_of_elements_is_updated) {
  constexpr std::int64_t matrices_of_2_32 = (std::int64_t{1} << 32) / (many_rows * many_columns);
  const std::vector<Results> near_by = last_matrix(1);
  BOOST_TEST(near_by[0][0].back() > 0);
  for (const std::int64_t count : {matrices_of_2_32 / 2 + 1, matrices_of_2_32 + 1})
    BOOST_CHECK_MESSAGE(last_matrix(count) == near_by, count << " matrices");
}

BOOST_AUTO_TEST_CASE(vectors_that_lie_or_end_behind_billions_of_elements_are_updated) {
  const Results near_by = vector_behind(5), end_near_by = end_of_vector(256 + 10);
  for (const int bits : {31, 32}) {
    const std::int64_t before = std::int64_t{1} << bits;
    BOOST_CHECK_MESSAGE(vector_behind(before + 5) == near_by, "behind 2^" << bits);
    BOOST_CHECK_MESSAGE(end_of_vector(before + 256 + 10) == end_near_by, "beyond 2^" << bits);
  }
}

BOOST_AUTO_TEST_SUITE_END()
