#include "optim/adafactor.hpp"

#include "base/error.hpp"
#include "layout/box_runs.hpp"
#include "optim/adafactor_kernel.hpp"
#include "optim/muon.hpp"
#include "optim/unit_stretches.hpp"
#include "tensor/block_lane.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

constexpr std::int64_t elements_in_turn = 8192;  // of a thread

/// What this rank has of a parameter: some rows of its matrices, one behind the other, and of each the same columns. A
/// vector is one row, whose columns have second moments of their own.
struct Part {
  const Parameter* parameter;
  const ParameterSettings* settings;
  Shape matrix;                                     // of each matrix, or the length of the vector
  std::int64_t matrices = 1;                        // whose means this rank keeps
  std::int64_t first_row = 0;                       // of these
  std::int64_t rows = 0;                            // that it has,
  std::int64_t columns = 0;                         // of each so many elements,
  std::vector<BoxRun> runs = {};                    // in_a: the column; in_b: where that lies in a row that it has
  std::int64_t first = 0, second = 0, factors = 0;  // where its sums and factors lie in memory of the unit

  std::int64_t matrix_of(std::int64_t row) const { return matrix.size() < 2 ? 0 : (first_row + row) / matrix[0]; }
  std::int64_t row_in_matrix(std::int64_t row) const { return (first_row + row) % matrix[0]; }
};

Part part_of(const Parameter& parameter, const ParameterSettings& settings) {
  Part part{.parameter = &parameter, .settings = &settings, .matrix = parameter.description().shape};
  const Box& box = parameter.box();
  if (!settings.rule.factored) {
    part.columns = elements(box);
    part.rows = part.columns > 0 ? 1 : 0;
    part.runs = {{0, 0, part.columns}};
    return part;
  }
  part.matrix = matrix_shape(parameter.description());
  const Box& means = parameter.state_places().front().box;
  const bool stacked = means.extent.size() == 2;
  if (stacked) part.matrices = means.extent[0];
  if (empty(box)) return part;
  const Shape& view = parameter.layout().global;
  invariant(view[0] == parameter.description().shape[0], "the view of a matrix has as many rows as the matrix");
  part.first_row = box.begin[0] - (stacked ? means.begin[0] * part.matrix[0] : 0);
  part.rows = box.extent[0];
  const Box row{{box.begin.begin() + 1, box.begin.end()}, {box.extent.begin() + 1, box.extent.end()}};
  part.columns = elements(row);
  for_each_run(row, whole({view.begin() + 1, view.end()}), row, [&](const BoxRun& run) { part.runs.push_back(run); });
  return part;
}

template <class M>
class Update {
 public:
  Update(Unit& unit, const SettingsByParameter& settings, std::int64_t step, double lr, double gradient_scale)
      : unit_(unit),
        weights_(unit),
        factored_(settings.at(unit.parameters().front().get()).rule.factored),
        step_(static_cast<double>(step)),
        lr_(lr),
        scale_(static_cast<M>(gradient_scale)) {
    std::int64_t first = 0, second = 0, factors = 0;
    for (const auto& parameter : unit.parameters()) {
      Part& part = parts_.emplace_back(part_of(*parameter, settings.at(parameter.get())));
      invariant(part.settings->rule.factored == factored_, "the tensors of a unit are all factored or all not");
      part.first = first;
      part.second = second;
      part.factors = factors;
      const UpdateSums sums = update_sums(part.matrix);
      first += part.matrices * sums.first;
      second += part.matrices * sums.second;
      factors += factored_ ? part.matrices * (part.matrix[0] + part.matrix[1]) : part.columns;
    }
    const at::TensorOptions options = unit.gradient().options();
    first_ = at::zeros({first}, options.dtype(at::kDouble));
    second_ = at::zeros({second}, options.dtype(at::kDouble));
    factors_ = at::empty({factors}, options);
  }

  void run() {
    if (factored_) {
      for (const Part& part : parts_) sum_gradients(part);
      add_up(first_);
      for (const Part& part : parts_) follow_means(part);
      for (const Part& part : parts_) sum_steps(part, second_.mutable_data_ptr<double>() + part.second);
      add_up(second_);
    } else {
      for (const Part& part : parts_) {
        follow_squares(part);
        sum_steps(part, sums_of(part, 0) + 1);
        sum_weights(part);
      }
      add_up(first_);
    }
    for (const Part& part : parts_) follow_steps(part);
  }

 private:
  void add_up(const at::Tensor& sums) const {
    if (unit_.sharers() != nullptr) unit_.sharers()->all_reduce(sums);
  }
  const M* gradient(const Part& part, std::int64_t row) const {
    return values_of<M>(unit_.gradient()).data() + part.parameter->shard_offset() + row * part.columns;
  }
  /// Of a matrix: squares of rows, of columns and of weights; of a vector: of weights and of steps.
  double* sums_of(const Part& part, std::int64_t matrix) const {
    return first_.mutable_data_ptr<double>() + part.first + matrix * update_sums(part.matrix).first;
  }
  double& weight_sum(const Part& part, std::int64_t matrix) const {
    return sums_of(part, matrix)[factored_ ? part.matrix[0] + part.matrix[1] : 0];
  }
  double step_sum(const Part& part, std::int64_t matrix) const {
    return factored_ ? second_.const_data_ptr<double>()[part.second + matrix] : sums_of(part, 0)[1];
  }
  /// Of a matrix: what steps of rows are multiplied with, and of columns; of a vector, of elements that this rank has.
  M* factors_of(const Part& part, std::int64_t matrix) const {
    return factors_.mutable_data_ptr<M>() + part.factors +
           (factored_ ? matrix * (part.matrix[0] + part.matrix[1]) : std::int64_t{0});
  }
  const M* column_factors(const Part& part, std::int64_t row) const {
    return factors_of(part, part.matrix_of(row)) + (factored_ ? part.matrix[0] : std::int64_t{0});
  }
  M row_scale(const Part& part, std::int64_t row) const {
    return factored_ ? scale_ * factors_of(part, part.matrix_of(row))[part.row_in_matrix(row)] : scale_;
  }
  M* kept(const Part& part, std::size_t index) const {
    return buffer_of<M>(unit_, index) + part.parameter->state_places()[index].offset;
  }
  /// How far means go towards those of this step.
  double fresh(const Part& part) const { return std::pow(step_, part.settings->rule.adafactor_decay); }

  template <class Work>
  void for_each_row(const Part& part, const Work& work) const {
    const std::int64_t in_turn = std::max<std::int64_t>(1, elements_in_turn / std::max<std::int64_t>(1, part.columns));
    parallel_for(part.rows, in_turn, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) work(row);
    });
  }
  /// Adds up what `sum_of` says of the rows of each matrix: into sums[matrix · apart].
  template <class SumOf>
  void sum_rows(const Part& part, double* sums, std::int64_t apart, const SumOf& sum_of) const {
    std::vector<double> of_rows(static_cast<std::size_t>(part.rows));
    for_each_row(part, [&](std::int64_t row) { of_rows[static_cast<std::size_t>(row)] = sum_of(row); });
    for (std::int64_t row = 0; row < part.rows; ++row)
      sums[part.matrix_of(row) * apart] += of_rows[static_cast<std::size_t>(row)];
  }

  void sum_gradients(const Part& part) const {
    for_each_row(part, [&](std::int64_t row) {
      sums_of(part, part.matrix_of(row))[part.row_in_matrix(row)] =
          sum_squares<M>(part.columns, gradient(part, row), scale_);
    });
    const std::int64_t in_turn = std::max<std::int64_t>(64, elements_in_turn / std::max<std::int64_t>(1, part.rows));
    parallel_for(part.columns, in_turn, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = 0; row < part.rows; ++row) {
        double* const columns = sums_of(part, part.matrix_of(row)) + part.matrix[0];
        for (const BoxRun& run : part.runs) {
          const std::int64_t from = std::max(begin, run.in_b), to = std::min(end, run.in_b + run.length);
          if (from < to)
            add_squares<M>(to - from, gradient(part, row) + from, scale_, columns + run.in_a + (from - run.in_b));
        }
      }
    });
    sum_weights(part);
  }
  void sum_weights(const Part& part) const {
    if (!part.settings->rule.adafactor_scale) return;
    sum_rows(part, &weight_sum(part, 0), update_sums(part.matrix).first, [&](std::int64_t row) {
      const std::int64_t from = part.parameter->shard_offset() + row * part.columns;
      double sum = 0;
      weights_.read(from, from + part.columns, [&](std::int64_t begin, std::int64_t end, const M* weight) {
        sum += sum_squares<M>(end - begin, weight, 1);
      });
      return sum;
    });
  }

  void follow_means(const Part& part) const {
    const double toward = fresh(part), eps = part.settings->rule.adafactor_eps[0];
    const std::int64_t rows = part.matrix[0], columns = part.matrix[1];
    for (std::int64_t matrix = 0; matrix < part.matrices; ++matrix) {
      const double* const sums = sums_of(part, matrix);
      M* const of_rows = kept(part, 0) + matrix * rows;
      M* const of_columns = kept(part, 1) + matrix * columns;
      M* const factors = factors_of(part, matrix);
      const auto follow = [&](M& mean, double sum, std::int64_t count) {
        const auto before = static_cast<double>(mean);
        mean = static_cast<M>(before + toward * (sum / static_cast<double>(count) + eps - before));
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
  void follow_squares(const Part& part) const {
    const auto toward = static_cast<M>(fresh(part)), eps = static_cast<M>(part.settings->rule.adafactor_eps[0]);
    M* const squares = kept(part, 0);
    M* const factors = factors_of(part, 0);
    const M* const own = gradient(part, 0);
    for (std::int64_t i = 0; i < part.columns; ++i) {
      const M g = own[i] * scale_;
      squares[i] += toward * (g * g + eps - squares[i]);
      factors[i] = 1 / std::sqrt(squares[i]);
    }
  }

  void sum_steps(const Part& part, double* sums) const {
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
  Pace pace_of(const Part& part, std::int64_t matrix) const {
    const UpdateRule& rule = part.settings->rule;
    const auto rms = [&](double sum) { return std::sqrt(sum / static_cast<double>(elements(part.matrix))); };
    double rate = lr_ * part.settings->lr_scale;
    if (rule.adafactor_relative_step) rate = std::min(rate, 1 / std::sqrt(step_));
    if (rule.adafactor_scale) rate *= std::max(rule.adafactor_eps[1], rms(weight_sum(part, matrix)));
    return {static_cast<M>(1 / std::max(1.0, rms(step_sum(part, matrix)) / rule.adafactor_clip)), static_cast<M>(rate)};
  }
  void follow_steps(const Part& part) const {
    const UpdateRule& rule = part.settings->rule;
    const double decay = lr_ * part.settings->lr_scale * part.settings->weight_decay;
    M* const averages = rule.adafactor_momentum == 0 ? nullptr : buffer_of<M>(unit_, factored_ ? 2 : 1);
    std::vector<Pace> paces;
    for (std::int64_t matrix = 0; matrix < part.matrices; ++matrix) paces.push_back(pace_of(part, matrix));
    for_each_row(part, [&](std::int64_t row) {
      const Pace& pace = paces[static_cast<std::size_t>(part.matrix_of(row))];
      const AdafactorFactors<M> factors{row_scale(part, row) * pace.clip, pace.rate, static_cast<M>(1 - decay),
                                        static_cast<M>(rule.adafactor_momentum)};
      for (const BoxRun& run : part.runs) {
        const std::int64_t from = part.parameter->shard_offset() + row * part.columns + run.in_b;
        const M* const of_columns = column_factors(part, row) + run.in_a;
        weights_(from, from + run.length, [&](std::int64_t begin, std::int64_t end, M* weight, Bf16* compute) {
          adafactor_update<M>(factors, end - begin, values_of<M>(unit_.gradient()).data() + begin,
                              of_columns + (begin - from), weight, averages == nullptr ? nullptr : averages + begin,
                              compute);
        });
      }
    });
  }

  Unit& unit_;
  const WeightsInWork<M> weights_;
  bool factored_;
  double step_, lr_;
  M scale_;
  std::vector<Part> parts_;
  at::Tensor first_, second_, factors_;
};

}  // namespace

void Adafactor::update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const {
  with_master_type(unit, [&]<class M>(M) { Update<M>(unit, settings_, step + 1, lr, gradient_scale).run(); });
  complete_copy(unit);
}

std::int64_t sums_bytes(const LogicalTensor& tensor, DType master) {
  const std::int64_t master_bytes = size_of(master);
  constexpr std::int64_t sum_bytes = sizeof(double);
  if (!is_matrix(tensor)) return elements(tensor.shape) * master_bytes + 3 * sum_bytes;
  const Shape matrix = matrix_shape(tensor);
  const std::int64_t matrices = elements(tensor.shape) / elements(matrix);
  const UpdateSums sums = update_sums(matrix);
  return matrices * ((sums.first + sums.second) * sum_bytes + (matrix[0] + matrix[1]) * master_bytes) +
         tensor.shape[0] * sum_bytes;
}

}  // namespace lockstep
