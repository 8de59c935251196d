#include "tensor/kernels/adafactor_pass.hpp"

#include "tensor/kernels/adafactor_kernel.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

constexpr std::int64_t elements_in_turn = 8192;  // of a thread

template <class M>
class PassInWork {
 public:
  explicit PassInWork(const AdafactorPass<M>& pass) : pass_(pass), weights_(pass.weights) {}

  void sum() const {
    for (const AdafactorPart& part : pass_.parts) {
      if (pass_.factored) {
        sum_gradients(part);
      } else {
        follow_squares(part);
        sum_steps(part, sums_of(part, 0) + 1);
      }
      sum_weights(part);
    }
  }
  void follow_means() const {
    for (const AdafactorPart& part : pass_.parts) follow_means(part);
    for (const AdafactorPart& part : pass_.parts) sum_steps(part, pass_.second + part.second);
  }
  void follow() const {
    for (const AdafactorPart& part : pass_.parts) follow_steps(part);
  }

 private:
  const M* gradient(const AdafactorPart& part, std::int64_t row) const {
    return pass_.gradient + part.offset + row * part.columns;
  }
  /// Of a matrix: squares of rows, of columns and of weights; of a vector: of weights and of steps.
  double* sums_of(const AdafactorPart& part, std::int64_t matrix) const {
    return pass_.first + part.first + matrix * part.sums_a_matrix;
  }
  double& weight_sum(const AdafactorPart& part, std::int64_t matrix) const {
    return sums_of(part, matrix)[pass_.factored ? part.matrix[0] + part.matrix[1] : 0];
  }
  double step_sum(const AdafactorPart& part, std::int64_t matrix) const {
    return pass_.factored ? pass_.second[part.second + matrix] : sums_of(part, 0)[1];
  }
  /// Of a matrix: what steps of rows are multiplied with, and of columns; of a vector, of elements that this rank has.
  M* factors_of(const AdafactorPart& part, std::int64_t matrix) const {
    return pass_.factors + part.factors +
           (pass_.factored ? matrix * (part.matrix[0] + part.matrix[1]) : std::int64_t{0});
  }
  const M* column_factors(const AdafactorPart& part, std::int64_t row) const {
    return factors_of(part, part.matrix_of(row)) + (pass_.factored ? part.matrix[0] : std::int64_t{0});
  }
  M row_scale(const AdafactorPart& part, std::int64_t row) const {
    return pass_.factored ? pass_.scale * factors_of(part, part.matrix_of(row))[part.row_in_matrix(row)] : pass_.scale;
  }
  M* kept(const AdafactorPart& part, std::size_t index) const { return pass_.states[index] + part.states[index]; }

  template <class Work>
  void for_each_row(const AdafactorPart& part, const Work& work) const {
    const std::int64_t in_turn = std::max<std::int64_t>(1, elements_in_turn / std::max<std::int64_t>(1, part.columns));
    parallel_for(part.rows, in_turn, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) work(row);
    });
  }
  /// Adds up what `sum_of` says of the rows of each matrix: into sums[matrix · apart].
  template <class SumOf>
  void sum_rows(const AdafactorPart& part, double* sums, std::int64_t apart, const SumOf& sum_of) const {
    std::vector<double> of_rows(static_cast<std::size_t>(part.rows));
    for_each_row(part, [&](std::int64_t row) { of_rows[static_cast<std::size_t>(row)] = sum_of(row); });
    for (std::int64_t row = 0; row < part.rows; ++row)
      sums[part.matrix_of(row) * apart] += of_rows[static_cast<std::size_t>(row)];
  }

  void sum_gradients(const AdafactorPart& part) const {
    for_each_row(part, [&](std::int64_t row) {
      sums_of(part, part.matrix_of(row))[part.row_in_matrix(row)] =
          sum_squares<M>(part.columns, gradient(part, row), pass_.scale);
    });
    const std::int64_t in_turn = std::max<std::int64_t>(64, elements_in_turn / std::max<std::int64_t>(1, part.rows));
    parallel_for(part.columns, in_turn, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = 0; row < part.rows; ++row) {
        double* const columns = sums_of(part, part.matrix_of(row)) + part.matrix[0];
        for (const BoxRun& run : part.runs) {
          const std::int64_t from = std::max(begin, run.in_b), to = std::min(end, run.in_b + run.length);
          if (from < to)
            add_squares<M>(to - from, gradient(part, row) + from, pass_.scale, columns + run.in_a + (from - run.in_b));
        }
      }
    });
  }
  void sum_weights(const AdafactorPart& part) const {
    if (!part.scales) return;
    sum_rows(part, &weight_sum(part, 0), part.sums_a_matrix, [&](std::int64_t row) {
      const std::int64_t from = part.offset + row * part.columns;
      double sum = 0;
      weights_.read(from, from + part.columns, [&](std::int64_t begin, std::int64_t end, const M* weight) {
        sum += sum_squares<M>(end - begin, weight, 1);
      });
      return sum;
    });
  }

  void follow_means(const AdafactorPart& part) const {
    const std::int64_t rows = part.matrix[0], columns = part.matrix[1];
    for (std::int64_t matrix = 0; matrix < part.matrices; ++matrix) {
      const double* const sums = sums_of(part, matrix);
      M* const of_rows = kept(part, 0) + matrix * rows;
      M* const of_columns = kept(part, 1) + matrix * columns;
      M* const factors = factors_of(part, matrix);
      const auto follow = [&](M& mean, double sum, std::int64_t count) {
        const auto before = static_cast<double>(mean);
        mean = static_cast<M>(before + part.toward * (sum / static_cast<double>(count) + part.eps - before));
      };
      double mean = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        follow(of_rows[row], sums[row], columns);
        mean += static_cast<double>(of_rows[row]);
      }
      mean /= static_cast<double>(rows);
      for (std::int64_t row = 0; row < rows; ++row)
        factors[row] = static_cast<M>(std::sqrt(mean / static_cast<double>(of_rows[row])));
      for (std::int64_t column = 0; column < columns; ++column) {
        follow(of_columns[column], sums[rows + column], rows);
        factors[rows + column] = static_cast<M>(1 / std::sqrt(static_cast<double>(of_columns[column])));
      }
    }
  }
  void follow_squares(const AdafactorPart& part) const {
    const auto toward = static_cast<M>(part.toward), eps = static_cast<M>(part.eps);
    M* const squares = kept(part, 0);
    M* const factors = factors_of(part, 0);
    const M* const own = gradient(part, 0);
    for (std::int64_t i = 0; i < part.columns; ++i) {
      const M g = own[i] * pass_.scale;
      squares[i] += toward * (g * g + eps - squares[i]);
      factors[i] = 1 / std::sqrt(squares[i]);
    }
  }

  void sum_steps(const AdafactorPart& part, double* sums) const {
    sum_rows(part, sums, 1, [&](std::int64_t row) {
      const M scale = row_scale(part, row);
      double sum = 0;
      for (const BoxRun& run : part.runs)
        sum += sum_squares<M>(run.length, gradient(part, row) + run.in_b, scale, column_factors(part, row) + run.in_a);
      return sum;
    });
  }
  /// What steps of a matrix are multiplied with where they are too long, and what its weights move by, of a step of 1.
  struct Pace {
    M clip, rate;
  };
  Pace pace_of(const AdafactorPart& part, std::int64_t matrix) const {
    const auto rms = [&](double sum) { return std::sqrt(sum / static_cast<double>(elements(part.matrix))); };
    double rate = part.rate;
    if (part.scales) rate *= std::max(part.least_scale, rms(weight_sum(part, matrix)));
    return {static_cast<M>(1 / std::max(1.0, rms(step_sum(part, matrix)) / part.clip)), static_cast<M>(rate)};
  }
  void follow_steps(const AdafactorPart& part) const {
    M* const averages = part.momentum == 0 ? nullptr : pass_.states[pass_.factored ? 2 : 1];
    std::vector<Pace> paces;
    for (std::int64_t matrix = 0; matrix < part.matrices; ++matrix) paces.push_back(pace_of(part, matrix));
    for_each_row(part, [&](std::int64_t row) {
      const Pace& pace = paces[static_cast<std::size_t>(part.matrix_of(row))];
      const AdafactorFactors<M> factors{row_scale(part, row) * pace.clip, pace.rate, static_cast<M>(1 - part.decay),
                                        static_cast<M>(part.momentum)};
      for (const BoxRun& run : part.runs) {
        const std::int64_t from = part.offset + row * part.columns + run.in_b;
        const M* const of_columns = column_factors(part, row) + run.in_a;
        weights_(from, from + run.length, [&](std::int64_t begin, std::int64_t end, M* weight, Bf16* compute) {
          adafactor_update<M>(factors, end - begin, pass_.gradient + begin, of_columns + (begin - from), weight,
                              averages == nullptr ? nullptr : averages + begin, compute);
        });
      }
    });
  }

  const AdafactorPass<M>& pass_;
  const WeightsInWork<M> weights_;
};

}  // namespace

template <class M>
void adafactor_sums(const AdafactorPass<M>& pass) {
  PassInWork<M>(pass).sum();
}
template <class M>
void adafactor_means(const AdafactorPass<M>& pass) {
  PassInWork<M>(pass).follow_means();
}
template <class M>
void adafactor_follow(const AdafactorPass<M>& pass) {
  PassInWork<M>(pass).follow();
}

#define LOCKSTEP_INSTANTIATE(M)                              \
  template void adafactor_sums<M>(const AdafactorPass<M>&);  \
  template void adafactor_means<M>(const AdafactorPass<M>&); \
  template void adafactor_follow<M>(const AdafactorPass<M>&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
