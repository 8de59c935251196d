#include "cuda/kernels/adafactor_passes.hpp"

#include "cuda/kernels/changed_weights.cuh"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/reductions.cuh"

#include <algorithm>

namespace lockstep::cuda {

namespace {

constexpr unsigned threads = 256;
constexpr std::int64_t chunks = 64;  // of the rows of a matrix, for sums over all of them

/// A part of a pass, as kernels see it: AdafactorPart with its places in the buffers.
template <class M>
struct Part {
  bool factored, scales;
  std::int64_t matrix_rows, matrix_columns, matrices, first_row, rows, columns, sums_a_matrix, offset;
  const M* gradient;
  M scale;
  double *sums, *steps;  // of a matrix in `sums`: rows, columns, weights; of a vector: weights, steps
  std::int64_t steps_apart;
  M *factors, *first_state, *second_state, *averages;
  double toward, eps, least_scale, clip, rate, decay, momentum, elements;

  __device__ std::int64_t matrix_of(std::int64_t row) const { return factored ? (first_row + row) / matrix_rows : 0; }
  __device__ std::int64_t row_in_matrix(std::int64_t row) const { return (first_row + row) % matrix_rows; }
  __device__ double* sums_of(std::int64_t matrix) const { return sums + matrix * sums_a_matrix; }
  __device__ double* weight_sum(std::int64_t matrix) const {
    return sums_of(matrix) + (factored ? matrix_rows + matrix_columns : 0);
  }
  __device__ M* factors_of(std::int64_t matrix) const {
    return factors + (factored ? matrix * (matrix_rows + matrix_columns) : 0);
  }
  __device__ const M* column_factors(std::int64_t row) const {
    return factors_of(matrix_of(row)) + (factored ? matrix_rows : 0);
  }
  __device__ M row_scale(std::int64_t row) const {
    return factored ? scale * factors_of(matrix_of(row))[row_in_matrix(row)] : scale;
  }
  /// The rows of a matrix that this rank has: [first, last).
  __device__ std::int64_t first_of(std::int64_t matrix) const {
    return factored ? max(std::int64_t{0}, matrix * matrix_rows - first_row) : 0;
  }
  __device__ std::int64_t last_of(std::int64_t matrix) const {
    return factored ? min(rows, (matrix + 1) * matrix_rows - first_row) : rows;
  }
  __device__ static std::int64_t max(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
  __device__ static std::int64_t min(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
};

template <class M>
Part<M> part_of(const AdafactorPass<M>& pass, const AdafactorPart& of) {
  const bool factored = pass.factored;
  double* const sums = pass.first + of.first;
  M* const averages = pass.states[factored ? 2 : 1];
  const auto state = [&](std::size_t index) {
    return pass.states[index] == nullptr ? nullptr : pass.states[index] + of.states[index];
  };
  return {.factored = factored,
          .scales = of.scales,
          .matrix_rows = factored ? of.matrix[0] : 1,
          .matrix_columns = factored ? of.matrix[1] : of.columns,
          .matrices = of.matrices,
          .first_row = of.first_row,
          .rows = of.rows,
          .columns = of.columns,
          .sums_a_matrix = of.sums_a_matrix,
          .offset = of.offset,
          .gradient = pass.gradient + of.offset,
          .scale = pass.scale,
          .sums = sums,
          .steps = factored ? pass.second + of.second : sums + 1,
          .steps_apart = factored ? 1 : 0,
          .factors = pass.factors + of.factors,
          .first_state = state(0),
          .second_state = factored ? state(1) : nullptr,
          .averages = of.momentum == 0 ? nullptr : averages,
          .toward = of.toward,
          .eps = of.eps,
          .least_scale = of.least_scale,
          .clip = of.clip,
          .rate = of.rate,
          .decay = of.decay,
          .momentum = of.momentum,
          .elements = static_cast<double>(elements(of.matrix))};
}

/// Runs that are handed over with a launch. Part, UpdatedWeights and these have room in the 4 KiB of its arguments.
struct Runs {
  static constexpr int most = 64;
  int count = 0;
  BoxRun of[most];
};

template <class Work>
void for_some_runs(const std::vector<BoxRun>& runs, const Work& work) {
  for (std::size_t next = 0; next < runs.size();) {
    Runs some;
    for (; next < runs.size() && some.count < Runs::most; ++next) some.of[some.count++] = runs[next];
    work(some);
  }
}

__device__ double square(double value) { return value * value; }

/// Sums of the squares of each row of the gradient: a block has a row.
template <class M>
__global__ void __launch_bounds__(threads) row_squares(Part<M> part) {
  const std::int64_t row = blockIdx.x;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < part.columns; i += threads)
    sum += square(static_cast<double>(part.gradient[row * part.columns + i] * part.scale));
  sum = block_sum(sum);
  if (threadIdx.x == 0) part.sums_of(part.matrix_of(row))[part.row_in_matrix(row)] = sum;
}

/// Adds the squares of each column of a run: a block has 32 columns of a matrix, and each warp every eighth row.
template <class M>
__global__ void __launch_bounds__(threads) column_squares(Part<M> part, BoxRun run, std::int64_t tiles) {
  constexpr unsigned warps = threads / warp_size;
  LOCKSTEP_SHARED(double, of_warps, threads);
  const std::int64_t matrix = blockIdx.x / tiles;
  const std::int64_t column = blockIdx.x % tiles * warp_size + threadIdx.x % warp_size;
  double sum = 0;
  if (column < run.length)
    for (std::int64_t row = part.first_of(matrix) + threadIdx.x / warp_size; row < part.last_of(matrix); row += warps)
      sum += square(static_cast<double>(part.gradient[row * part.columns + run.in_b + column] * part.scale));
  of_warps[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= warp_size || column >= run.length) return;
  for (unsigned warp = 1; warp < warps; ++warp) sum += of_warps[warp * warp_size + threadIdx.x];
  part.sums_of(matrix)[part.matrix_rows + run.in_a + column] += sum;
}

/// A weight in the type in which the update computes.
template <class M>
__device__ M weight_at(const UpdatedWeights<M>& weights, std::int64_t at) {
  if (weights.short_weights == nullptr) return weights.master[at];
  if constexpr (std::is_same_v<M, float>)
    return widened(weights.short_weights[at]) +
           (weights.compensation == nullptr ? 0 : widened(weights.compensation[at]));
  return 0;
}

/// sums[matrix · chunks + chunk] = the sum of squares of `value(row, column of the part, column of the matrix)`.
template <class M, class Value>
__device__ void sum_chunk(const Part<M>& part, const Runs& runs, double* sums, const Value& value) {
  const std::int64_t matrix = blockIdx.x / chunks, chunk = blockIdx.x % chunks;
  double sum = 0;
  for (std::int64_t row = part.first_of(matrix) + chunk; row < part.last_of(matrix); row += chunks)
    for (int r = 0; r < runs.count; ++r)
      for (std::int64_t i = threadIdx.x; i < runs.of[r].length; i += threads)
        sum += square(static_cast<double>(value(row, runs.of[r].in_b + i, runs.of[r].in_a + i)));
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <class M>
__global__ void __launch_bounds__(threads)
    weight_squares(Part<M> part, Runs runs, UpdatedWeights<M> weights, double* sums) {
  sum_chunk(part, runs, sums, [&](std::int64_t row, std::int64_t column, std::int64_t) {
    return weight_at(weights, part.offset + row * part.columns + column);
  });
}

template <class M>
__global__ void __launch_bounds__(threads) step_squares(Part<M> part, Runs runs, double* sums) {
  sum_chunk(part, runs, sums, [&](std::int64_t row, std::int64_t column, std::int64_t in_matrix) {
    return part.gradient[row * part.columns + column] * part.row_scale(row) * part.column_factors(row)[in_matrix];
  });
}

/// to[matrix · apart] += the sums of its chunks, in their order.
__global__ void __launch_bounds__(32) add_chunks(const double* sums, std::int64_t apart, double* to) {
  if (threadIdx.x != 0) return;
  double sum = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += sums[blockIdx.x * chunks + chunk];
  to[blockIdx.x * apart] += sum;
}

template <class M>
double* chunk_sums(const Part<M>& part) {
  return static_cast<double*>(kernel_scratch(static_cast<std::size_t>(part.matrices * chunks) * sizeof(double)));
}

template <class M>
void sum_steps(const Part<M>& part, const std::vector<BoxRun>& all_runs) {
  for_some_runs(all_runs, [&](const Runs& runs) {
    double* const sums = chunk_sums(part);
    launch(step_squares<M>, part.matrices * chunks, threads, 0, part, runs, sums);
    launch(add_chunks, part.matrices, 32, 0, sums, part.steps_apart, part.steps);
  });
}

/// The second moments of a matrix by rows and columns, and the factors of steps: a block has a matrix.
template <class M>
__global__ void __launch_bounds__(threads, 1) follow_means(Part<M> part) {
  const std::int64_t matrix = blockIdx.x, rows = part.matrix_rows, columns = part.matrix_columns;
  const double* const sums = part.sums_of(matrix);
  M* const of_rows = part.first_state + matrix * rows;
  M* const of_columns = part.second_state + matrix * columns;
  M* const factors = part.factors_of(matrix);
  const auto follow = [&](M& mean, double sum, std::int64_t count) {
    const auto before = static_cast<double>(mean);
    mean = static_cast<M>(before + part.toward * (sum / static_cast<double>(count) + part.eps - before));
  };
  double mean = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += threads) {
    follow(of_rows[row], sums[row], columns);
    mean += static_cast<double>(of_rows[row]);
  }
  mean = block_sum(mean) / static_cast<double>(rows);
  for (std::int64_t row = threadIdx.x; row < rows; row += threads)
    factors[row] = static_cast<M>(sqrt(mean / static_cast<double>(of_rows[row])));
  for (std::int64_t column = threadIdx.x; column < columns; column += threads) {
    follow(of_columns[column], sums[rows + column], rows);
    factors[rows + column] = static_cast<M>(1 / sqrt(static_cast<double>(of_columns[column])));
  }
}

/// The second moments of a vector, and the factors of its steps.
template <class M>
__global__ void __launch_bounds__(threads) follow_squares(Part<M> part) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= part.columns) return;
  const M g = part.gradient[i] * part.scale;
  M square_mean = part.first_state[i];
  square_mean += static_cast<M>(part.toward) * (g * g + static_cast<M>(part.eps) - square_mean);
  part.first_state[i] = square_mean;
  part.factors[i] = 1 / sqrt(square_mean);
}

/// Updates the weights of a run: a block has 256 columns of a row.
template <class M>
__global__ void __launch_bounds__(threads)
    follow_steps(Part<M> part, BoxRun run, std::int64_t blocks_a_row, UpdatedWeights<M> weights) {
  const std::int64_t row = blockIdx.x / blocks_a_row;
  const std::int64_t i = blockIdx.x % blocks_a_row * threads + threadIdx.x;
  if (i >= run.length) return;
  const std::int64_t matrix = part.matrix_of(row);
  const auto root_mean = [&](double sum) { return sqrt(sum / part.elements); };
  double rate = part.rate;
  if (part.scales) {
    const double size = root_mean(*part.weight_sum(matrix));
    rate *= size > part.least_scale ? size : part.least_scale;
  }
  const double length = root_mean(part.steps[matrix * part.steps_apart]) / part.clip;
  const M clip = static_cast<M>(1 / (length > 1 ? length : 1)), pace = static_cast<M>(rate);
  const std::int64_t place = row * part.columns + run.in_b + i, at = part.offset + place;
  M step = part.gradient[place] * (part.row_scale(row) * clip) * part.column_factors(row)[run.in_a + i];
  if (part.averages != nullptr) {
    const M momentum = static_cast<M>(part.momentum);
    step = part.averages[at] * momentum + step * (1 - momentum);
    part.averages[at] = step;
  }
  change_weights<1>(weights, Elements{at, 1, false},
                    [&](auto& w) { w[0] = w[0] * static_cast<M>(1 - part.decay) - pace * step; });
}

std::int64_t blocks_for(std::int64_t count, std::int64_t of_block) { return (count + of_block - 1) / of_block; }

}  // namespace

template <class M>
void adafactor_sums(const AdafactorPass<M>& pass) {
  for (const AdafactorPart& of : pass.parts) {
    const Part<M> part = part_of(pass, of);
    if (pass.factored) {
      launch(row_squares<M>, part.rows, threads, 0, part);
      for (const BoxRun& run : of.runs) {
        const std::int64_t tiles = blocks_for(run.length, warp_size);
        launch(column_squares<M>, part.matrices * tiles, threads, 0, part, run, tiles);
      }
    } else {
      launch(follow_squares<M>, blocks_for(part.columns, threads), threads, 0, part);
      sum_steps(part, of.runs);
    }
    if (!of.scales) continue;
    // All elements of a row, one behind the other.
    double* const sums = chunk_sums(part);
    const Runs all{.count = 1, .of = {{0, 0, part.columns}}};
    launch(weight_squares<M>, part.matrices * chunks, threads, 0, part, all, pass.weights, sums);
    launch(add_chunks, part.matrices, 32, 0, sums, part.sums_a_matrix,
           part.sums + (pass.factored ? part.matrix_rows + part.matrix_columns : 0));
  }
}

template <class M>
void adafactor_means(const AdafactorPass<M>& pass) {
  for (const AdafactorPart& of : pass.parts) launch(follow_means<M>, of.matrices, threads, 0, part_of(pass, of));
  for (const AdafactorPart& of : pass.parts) sum_steps(part_of(pass, of), of.runs);
}

template <class M>
void adafactor_follow(const AdafactorPass<M>& pass) {
  for (const AdafactorPart& of : pass.parts)
    for (const BoxRun& run : of.runs) {
      const Part<M> part = part_of(pass, of);
      const std::int64_t blocks = blocks_for(run.length, threads);
      launch(follow_steps<M>, part.rows * blocks, threads, 0, part, run, blocks, pass.weights);
    }
}

#define LOCKSTEP_INSTANTIATE(M)                              \
  template void adafactor_sums<M>(const AdafactorPass<M>&);  \
  template void adafactor_means<M>(const AdafactorPass<M>&); \
  template void adafactor_follow<M>(const AdafactorPass<M>&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
