// The embedding kernels of the device, run on the host, against plain loops. Gradients are summed in the order of rows,
// so that fp32 has the bits of the loop.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/embeddings.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

#include <random>

BOOST_AUTO_TEST_SUITE(cuda_embeddings)

using namespace lockstep;
using namespace lockstep::test;

namespace {

std::vector<std::int32_t> drawn_indices(std::int64_t count, std::int32_t entries, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<std::int32_t> draw(-1, entries - 1);
  std::vector<std::int32_t> indices(static_cast<std::size_t>(count));
  for (std::int32_t& index : indices) index = draw(generator);
  return indices;
}

struct Case {
  std::int64_t rows, channels;
  std::int32_t entries;
  Start start = Start::aligned;
  double beta = 0;
};

template <class T>
void check_forward(const Case& of, StoreMode mode, const std::string& type) {
  const std::vector<std::int32_t> indices = drawn_indices(of.rows, of.entries, 1);
  Values<T> table(normal_values(of.entries * of.channels, 2), of.start);
  const bool adds = mode == StoreMode::add;
  const std::vector<double> old = normal_values(of.rows * of.channels, 3);
  const Results found = in_any_order([&]() -> Results {
    Values<Math<T>> y(of.rows * of.channels, of.start);
    if (adds) y = Values<Math<T>>(old, of.start);
    cuda::embedding_forward<T>(table.data(), indices.data(), of.rows, of.channels, mode, y.data());
    return {y.all()};
  });
  std::vector<double> wanted;
  for (std::int64_t i = 0; i < of.rows * of.channels; ++i) {
    const std::int64_t index = indices[i / of.channels];
    wanted.push_back((adds ? old[i] : 0) + (index < 0 ? 0 : table[index * of.channels + i % of.channels]));
  }
  check_near(found[0], wanted, rounding<Math<T>>, type);
}

template <class M>
void check_backward(const Case& of, std::vector<std::int32_t> indices = {}) {
  if (indices.empty()) indices = drawn_indices(of.rows, of.entries, 1);
  Values<M> dy(normal_values(of.rows * of.channels, 2), of.start);
  const std::vector<double> old = normal_values(of.entries * of.channels, 3);
  const auto filled = [&] {
    return of.beta == 0 ? Values<M>(of.entries * of.channels, of.start) : Values<M>(old, of.start);
  };
  const Results found = in_any_order([&]() -> Results {
    Values<M> dtable = filled();
    cuda::embedding_backward<M>(dy.data(), indices.data(), of.rows, of.channels, of.entries, of.beta, dtable.data());
    return {dtable.all()};
  });
  Values<M> wanted = filled();
  const auto beta = static_cast<M>(of.beta);
  for (std::int64_t i = 0; i < wanted.count(); ++i) wanted.data()[i] = of.beta == 0 ? 0 : beta * wanted.data()[i];
  for (std::int64_t i = 0; i < dy.count(); ++i) {
    const std::int64_t index = indices[i / of.channels];
    if (index >= 0) wanted.data()[index * of.channels + i % of.channels] += dy.data()[i];
  }
  check_near(found[0], wanted.all(), 0, std::to_string(of.rows) + " rows");
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_of_the_table_are_looked_up_or_added) {
  for_each_type([]<class T>(const std::string& type) {
    check_forward<T>({9, 20, 5}, StoreMode::overwrite, type);
    check_forward<T>({9, 7, 5, Start::unaligned}, StoreMode::add, type);
  });
}

BOOST_AUTO_TEST_CASE(gradients_of_an_entry_are_summed_in_the_order_of_rows) {
  for (const double beta : {0.0, 1.0, 0.5}) {
    check_backward<float>({100, 12, 70, Start::aligned, beta});
    check_backward<double>({33, 5, 130, Start::unaligned, beta});
  }
  check_backward<float>({50, 1030, 3});
}

BOOST_AUTO_TEST_CASE(more_rows_than_a_block_holds_are_summed) {
  check_backward<float>({5000, 4, 3});
  check_backward<float>({4096, 4, 70, Start::aligned, 1}, std::vector<std::int32_t>(4096, 66));
}

BOOST_AUTO_TEST_CASE(without_rows_the_gradient_is_the_old_one) {
  check_backward<float>({3, 8, 70, Start::aligned, 0.5}, {-1, -1, -1});
  Values<float> dtable(16), none(0);
  cuda::embedding_backward<float>(none.data(), nullptr, 0, 8, 2, 0, dtable.data());
  check_near(dtable.all(), std::vector<double>(16, 0), 0, "dtable");
}

BOOST_AUTO_TEST_CASE(a_table_may_have_more_than_2_to_the_32_values) {
  constexpr std::int64_t channels = 1024;
  constexpr std::int32_t entries = 5000000;
  DistantMemory<float> table(std::int64_t{entries} * channels);
  const std::int32_t index = entries - 1;
  table.data()[index * channels + 3] = 7;
  Values<float> y(channels);
  cuda::embedding_forward<float>(table.data(), &index, 1, channels, StoreMode::overwrite, y.data());
  BOOST_TEST(y[3] == 7);
  const on_host::LastBlocks only(1);
  cuda::embedding_backward<float>(y.data(), &index, 1, channels, entries, 1, table.data());
  BOOST_TEST(table.data()[index * channels + 3] == 14);
}

BOOST_AUTO_TEST_CASE(indices_outside_a_part_of_the_table_are_negative) {
  constexpr std::int32_t largest = std::numeric_limits<std::int32_t>::max();
  const std::int32_t indices[] = {0, 4, 5, 6, 9, 10, -1, largest, std::numeric_limits<std::int32_t>::min()};
  Values<std::int32_t> own(9);
  cuda::indices_of_part(indices, 9, 5, 5, own.data());
  check_near(own.all(), {-1, -1, 0, 1, 4, -1, -1, -1, -1}, 0, "indices");
}

BOOST_AUTO_TEST_SUITE_END()
