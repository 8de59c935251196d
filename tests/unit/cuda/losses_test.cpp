// The cross entropy of the device, run on the host, against the formula in double, and in parts for tensor parallelism.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/losses.cu"
#include "distant_memory.hpp"
#include "kernel_checks.hpp"

#include <limits>

BOOST_AUTO_TEST_SUITE(cuda_losses)

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr TargetDistribution one_hot{};

TargetDistribution smoothed(std::int64_t vocabulary) { return {0.2 / static_cast<double>(vocabulary), 0.8}; }

struct Row {
  double loss = 0, correct = 0;
  std::vector<double> derivative;
};

Row expected(const std::vector<double>& logits, std::int32_t label, TargetDistribution target) {
  Row row{0, 0, std::vector<double>(logits.size())};
  if (label < 0 || label >= static_cast<std::int64_t>(logits.size())) return row;
  double largest = -infinity, sum = 0;
  for (const double logit : logits) largest = logit > largest ? logit : largest;
  for (const double logit : logits) sum += std::exp(logit - largest);
  row.correct = logits[static_cast<std::size_t>(label)] == largest ? 1 : 0;
  for (std::size_t v = 0; v < logits.size(); ++v) {
    const double share = target.everywhere + (static_cast<std::int32_t>(v) == label ? target.at_label : 0);
    if (share != 0) row.loss += share * (std::log(sum) + largest - logits[v]);
    row.derivative[v] = std::exp(logits[v] - largest) / sum - share;
  }
  return row;
}

struct Case {
  std::int64_t vocabulary;
  TargetDistribution target = one_hot;
  Start start = Start::aligned;
  std::int64_t padding = 0;  // values after each row
  std::int64_t stride() const { return vocabulary + padding; }
};

/// Rows of `columns` values with `padding` NaN after each.
std::vector<double> with_padding(const std::vector<double>& values, std::int64_t columns, std::int64_t padding) {
  std::vector<double> padded;
  for (auto row = values.begin(); row != values.end(); row += columns) {
    padded.insert(padded.end(), row, row + columns);
    padded.insert(padded.end(), static_cast<std::size_t>(padding), NAN);
  }
  return padded;
}

const std::vector<std::int32_t>& labels_for(std::int64_t vocabulary) {
  static std::vector<std::int32_t> labels;
  const auto last = static_cast<std::int32_t>(vocabulary - 1);
  return labels = {0, last, -1, static_cast<std::int32_t>(vocabulary / 2), -100, last + 1};
}

template <class T>
struct Inputs {
  explicit Inputs(const Case& of, std::vector<double> some = {})
      : labels(labels_for(of.vocabulary)),
        rows(static_cast<std::int64_t>(labels.size())),
        logits(with_padding(some.empty() ? normal_values(rows * of.vocabulary, 1, 4) : some, of.vocabulary, of.padding),
               of.start) {}
  std::vector<double> row(std::int64_t r, const Case& of) const {
    std::vector<double> values;
    for (std::int64_t v = 0; v < of.vocabulary; ++v) values.push_back(logits[r * of.stride() + v]);
    return values;
  }
  std::vector<std::int32_t> labels;
  std::int64_t rows;
  Values<Math<T>> logits;
};

/// Losses, correct, derivative.
template <class T>
Results expected_rows(const Case& of, const Inputs<T>& in) {
  Results all(3);
  for (std::int64_t r = 0; r < in.rows; ++r) {
    const Row row = expected(in.row(r, of), in.labels[static_cast<std::size_t>(r)], of.target);
    all[0].push_back(row.loss);
    all[1].push_back(row.correct);
    all[2].insert(all[2].end(), row.derivative.begin(), row.derivative.end());
    all[2].insert(all[2].end(), static_cast<std::size_t>(of.padding), 0);
  }
  return all;
}

template <class T>
void check_whole_rows(const Case& of, const std::string& type) {
  using M = Math<T>;
  Inputs<T> in(of);
  const LogitRows rows{in.rows, of.vocabulary, of.stride()};
  const Results wanted = expected_rows(of, in);
  const Results found = in_any_order([&]() -> Results {
    Values<double> losses(in.rows), only_losses(in.rows), correct(in.rows);
    Values<T> derivative(in.rows * of.stride(), of.start);
    cuda::cross_entropy<T>(in.logits.data(), in.labels.data(), rows, of.target, losses.data(), derivative.data());
    cuda::cross_entropy_loss<M>(in.logits.data(), in.labels.data(), rows, of.target, only_losses.data(),
                                correct.data());
    return {losses.all(), correct.all(), derivative.all(), only_losses.all()};
  });
  const std::string name = type + ", vocabulary " + std::to_string(of.vocabulary);
  check_near(found[0], wanted[0], 2 * rounding<M>, name + ", losses");
  check_near(found[1], wanted[1], 0, name + ", correct");
  check_near(found[2], wanted[2], rounding<T>, name + ", derivative");
  check_near(found[3], found[0], 0, name + ", losses alone");
  if constexpr (std::is_same_v<T, M>) {
    Values<T> in_place(in.logits.all(), of.start);
    Values<double> losses(in.rows);
    cuda::cross_entropy<T>(in_place.data(), in.labels.data(), rows, of.target, losses.data(), in_place.data());
    check_near(in_place.all(), found[2], 0, name + ", in place");
    check_near(losses.all(), found[0], 0, name + ", losses in place");
  }
}

/// The vocabulary on several ranks.
template <class T>
void check_parts(const Case& of, const std::vector<std::int64_t>& widths, const std::string& type) {
  using M = Math<T>;
  const std::int64_t padding = of.padding;  // of each part
  const Case whole_rows{of.vocabulary, of.target, of.start};
  Inputs<T> in(whole_rows);
  const Results wanted = expected_rows(whole_rows, in);
  const auto ranks = static_cast<std::int64_t>(widths.size());
  std::vector<Values<M>> parts;
  for (std::int64_t rank = 0, first = 0; rank < ranks; first += widths[static_cast<std::size_t>(rank++)]) {
    std::vector<double> own;
    for (std::int64_t i = 0; i < in.rows * widths[static_cast<std::size_t>(rank)]; ++i) {
      const std::int64_t width = widths[static_cast<std::size_t>(rank)];
      own.push_back(in.logits[i / width * of.vocabulary + first + i % width]);
    }
    parts.emplace_back(with_padding(own, widths[static_cast<std::size_t>(rank)], padding), of.start);
  }
  const Results found = in_any_order([&]() -> Results {
    std::vector<RowStatistics> of_ranks(static_cast<std::size_t>(ranks * in.rows), {NAN, NAN, NAN});
    std::vector<RowStatistics> whole(static_cast<std::size_t>(in.rows), {NAN, NAN, NAN});
    Values<double> losses(in.rows), correct(in.rows);
    std::vector<double> derivative(static_cast<std::size_t>(in.rows * of.vocabulary));
    std::int64_t first = 0;
    for (std::int64_t rank = 0; rank < ranks; first += widths[static_cast<std::size_t>(rank++)]) {
      const std::int64_t width = widths[static_cast<std::size_t>(rank)];
      cuda::row_statistics<M>(parts[static_cast<std::size_t>(rank)].data(), in.labels.data(),
                              {in.rows, width, width + padding}, first, of.target, of_ranks.data() + rank * in.rows);
    }
    cuda::combine_statistics(of_ranks.data(), ranks, in.rows, in.labels.data(), of.vocabulary, whole.data(),
                             losses.data(), correct.data());
    first = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t width = widths[static_cast<std::size_t>(rank)];
      const std::int64_t stride = width + padding;
      Values<T> own(in.rows * stride, of.start);
      cuda::cross_entropy_derivative<T>(parts[static_cast<std::size_t>(rank)].data(), in.labels.data(),
                                        {in.rows, width, stride}, first, of.target, whole.data(), own.data());
      for (std::int64_t i = 0; i < own.count(); ++i) {
        if (i % stride >= width)
          BOOST_TEST(own[i] == 0);
        else
          derivative[static_cast<std::size_t>(i / stride * of.vocabulary + first + i % stride)] = own[i];
      }
      first += width;
    }
    return {losses.all(), correct.all(), derivative};
  });
  const std::string name = type + ", in parts";
  check_near(found[0], wanted[0], 2 * rounding<M>, name + ", losses");
  if (of.target.everywhere == 0) check_near(found[1], wanted[1], 0, name + ", correct");
  check_near(found[2], wanted[2], rounding<T>, name + ", derivative");
}

}  // namespace

BOOST_AUTO_TEST_CASE(losses_and_derivatives_agree_with_double_in_all_types) {
  for_each_type([]<class T>(const std::string& type) {
    check_whole_rows<T>({40}, type);
    check_whole_rows<T>({77, smoothed(77)}, type);
    check_whole_rows<T>({1, one_hot, Start::unaligned}, type);
  });
}

BOOST_AUTO_TEST_CASE(a_vocabulary_wider_than_a_block_is_complete) {
  check_whole_rows<float>({4104, smoothed(4104)}, "fp32");
  check_whole_rows<Bf16>({5003, one_hot, Start::unaligned}, "bf16");
}

BOOST_AUTO_TEST_CASE(parts_of_the_vocabulary_add_up) {
  for_each_type([]<class T>(const std::string& type) {
    check_parts<T>({30}, {12, 17, 1}, type);
    check_parts<T>({68, smoothed(68)}, {40, 28}, type);
  });
}

BOOST_AUTO_TEST_CASE(padding_of_rows_is_not_read_and_becomes_zero_in_a_derivative) {
  for_each_type([]<class T>(const std::string& type) {
    check_whole_rows<T>({77, smoothed(77), Start::aligned, 51}, type);
    check_whole_rows<T>({61, one_hot, Start::unaligned, 3}, type);
    check_parts<T>({30, smoothed(30), Start::aligned, 3}, {12, 17, 1}, type);
    check_parts<T>({69, one_hot, Start::aligned, 23}, {41, 28}, type);
  });
  check_whole_rows<float>({5003, one_hot, Start::aligned, 53}, "fp32");
}

BOOST_AUTO_TEST_CASE(logits_may_be_more_than_2_to_the_32_values) {
  constexpr std::int64_t rows = 5000000, vocabulary = 1000;
  DistantMemory<float> logits(rows * vocabulary);
  DistantMemory<std::int32_t> labels(rows);
  DistantMemory<double> losses(rows);
  labels.data()[rows - 1] = 7;
  const on_host::LastBlocks only(1);
  cuda::cross_entropy<float>(logits.data(), labels.data(), {rows, vocabulary}, one_hot, losses.data(), logits.data());
  BOOST_TEST(near(losses.data()[rows - 1], std::log(1000.0), 1e-6));
  BOOST_TEST(near(logits.data()[(rows - 1) * vocabulary + 7], -0.999, 1e-6));
}

BOOST_AUTO_TEST_CASE(rows_without_a_label_have_no_loss) {
  Values<float> logits(normal_values(3 * 20, 1)), derivative(3 * 20);
  const std::int32_t labels[] = {-1, 20, -100};
  Values<double> losses(3);
  cuda::cross_entropy<float>(logits.data(), labels, {3, 20}, one_hot, losses.data(), derivative.data());
  check_near(losses.all(), {0, 0, 0}, 0, "losses");
  check_near(derivative.all(), std::vector<double>(60, 0), 0, "derivative");
}

BOOST_AUTO_TEST_CASE(infinite_logits_and_nan_give_the_numbers_of_the_formula) {
  std::vector<double> logits = normal_values(6 * 9, 1);
  logits[1] = -infinity;      // not the label
  logits[9 + 8] = -infinity;  // the label
  logits[3 * 9 + 2] = NAN;
  Inputs<float> in({9}, logits);
  const Results wanted = expected_rows<float>({9}, in);
  Values<double> losses(6);
  Values<float> derivative(6 * 9);
  cuda::cross_entropy<float>(in.logits.data(), in.labels.data(), {6, 9}, one_hot, losses.data(), derivative.data());
  check_near(losses.all(), wanted[0], 1e-5, "losses");
  BOOST_TEST(losses[1] == infinity);
  BOOST_TEST(std::isnan(losses[3]));
  check_near(derivative.all(), wanted[2], 1e-5, "derivative");
  std::vector<double> all_lowest(9, -infinity), with_infinity = normal_values(9, 2);
  with_infinity[4] = infinity;
  for (const std::vector<double>& row : {all_lowest, with_infinity}) {
    Values<float> values(row);
    const std::int32_t label = 3;
    cuda::cross_entropy<float>(values.data(), &label, {1, 9}, one_hot, losses.data(), derivative.data());
    BOOST_TEST(!std::isfinite(losses[0]));
  }
}

BOOST_AUTO_TEST_SUITE_END()
