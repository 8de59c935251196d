#include "cuda/kernels/activations.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"
#include "cuda/kernels/reductions.cuh"

#include <numbers>
#include <utility>

namespace lockstep::cuda {

namespace {

// Each has value(x) and slope(x) = d value / dx.
struct GeluTanh {
  // GELU by tanh is x·σ(z) with z = x·(factor + cubic·x²), for tanh(z / 2) = 2σ(z) − 1.
  static constexpr double factor = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715 * factor;

  template <class M>
  static __device__ M value(M x) {
    return x * sigmoid(x * (static_cast<M>(factor) + static_cast<M>(cubic) * x * x));
  }
  template <class M>
  static __device__ M slope(M x) {
    const M square = x * x, s = sigmoid(x * (static_cast<M>(factor) + static_cast<M>(cubic) * square));
    return s + x * (s - s * s) * (static_cast<M>(factor) + static_cast<M>(3 * cubic) * square);
  }
};

struct GeluErf {
  template <class M>
  static __device__ M value(M x) {
    return static_cast<M>(0.5) * x * (1 + erf(x * static_cast<M>(1 / std::numbers::sqrt2)));
  }
  template <class M>
  static __device__ M slope(M x) {
    const M density =
        static_cast<M>(std::numbers::inv_sqrtpi / std::numbers::sqrt2) * exp(-static_cast<M>(0.5) * x * x);
    return static_cast<M>(0.5) * (1 + erf(x * static_cast<M>(1 / std::numbers::sqrt2))) + x * density;
  }
};

struct Silu {
  template <class M>
  static __device__ M value(M x) {
    return x * sigmoid(x);
  }
  template <class M>
  static __device__ M slope(M x) {
    const M s = sigmoid(x);
    return s * (1 + x * (1 - s));
  }
};

struct Relu {
  template <class M>
  static __device__ M value(M x) {
    return x > 0 ? x : M{0};
  }
  template <class M>
  static __device__ M slope(M x) {
    return x > 0 ? M{1} : M{0};
  }
};

/// Calls body with a value of the activation's functor type.
template <class Body>
void with_functor(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::gelu_tanh: return body(GeluTanh{});
    case Activation::gelu_erf: return body(GeluErf{});
    case Activation::silu: return body(Silu{});
    case Activation::relu: return body(Relu{});
  }
}

/// x = u + bias.
template <int V, class T>
__device__ void load_biased(const T* u, const T* bias, std::int64_t column, int count, bool packed, Math<T> (&x)[V]) {
  load_values(u, count, packed, x);
  if (bias == nullptr) return;
  Math<T> b[V];
  load_values(bias + column, count, packed, b);
#pragma unroll
  for (int i = 0; i < V; ++i) x[i] += b[i];
}

template <class F, class T>
struct Activate {
  static constexpr int lanes = lanes_of_access<T>;
  const T *u, *bias;
  std::int64_t columns;
  bool packed;
  T* y;

  __device__ void operator()(std::int64_t row, std::int64_t column, int count) const {
    const std::int64_t at = row * columns + column;
    Math<T> x[lanes];
    load_biased(u + at, bias, column, count, packed, x);
#pragma unroll
    for (int i = 0; i < lanes; ++i) x[i] = F::value(x[i]);
    store_values(x, count, packed, y + at);
  }
};

template <class F, class T>
struct ActivateBackward {
  static constexpr int lanes = lanes_of_access<T>;
  const T *dy, *u, *bias;
  std::int64_t columns;
  bool packed;
  T* du;

  __device__ void operator()(std::int64_t row, std::int64_t column, int count) const {
    const std::int64_t at = row * columns + column;
    Math<T> x[lanes], g[lanes];
    load_biased(u + at, bias, column, count, packed, x);
    load_values(dy + at, count, packed, g);
#pragma unroll
    for (int i = 0; i < lanes; ++i) x[i] = g[i] * F::slope(x[i]);
    store_values(x, count, packed, du + at);
  }
};

template <class F, class T>
struct Gate {
  static constexpr int lanes = lanes_of_access<T>;
  const T *gate_up, *row_gates;
  std::int64_t columns;
  bool packed;
  T* y;

  __device__ void operator()(std::int64_t row, std::int64_t column, int count) const {
    const T* const gates = gate_up + row * 2 * columns + column;
    const Math<T> open = row_gates ? sigmoid(widened(row_gates[row])) : Math<T>{1};
    Math<T> g[lanes], u[lanes];
    load_values(gates, count, packed, g);
    load_values(gates + columns, count, packed, u);
#pragma unroll
    for (int i = 0; i < lanes; ++i) g[i] = open * (F::value(g[i]) * u[i]);
    store_values(g, count, packed, y + row * columns + column);
  }
};

template <class F, class T>
struct GateBackward {
  static constexpr int lanes = lanes_of_access<T>;
  const T *dy, *gate_up;
  std::int64_t columns;
  bool packed;
  T* dgate_up;

  /// Returns the derivative with respect to the opening of the row, from these columns.
  __device__ Math<T> pass(std::int64_t row, std::int64_t column, int count, Math<T> open) const {
    const std::int64_t at = row * 2 * columns + column;
    Math<T> g[lanes], u[lanes], d[lanes], dopen = 0;
    load_values(gate_up + at, count, packed, g);
    load_values(gate_up + at + columns, count, packed, u);
    load_values(dy + row * columns + column, count, packed, d);
#pragma unroll
    for (int i = 0; i < lanes; ++i) {
      const Math<T> value = F::value(g[i]), passed = open * d[i];
      if (i < count) dopen += d[i] * value * u[i];
      g[i] = passed * u[i] * F::slope(g[i]);
      u[i] = passed * value;
    }
    store_values(g, count, packed, dgate_up + at);
    store_values(u, count, packed, dgate_up + at + columns);
    return dopen;
  }
  __device__ void operator()(std::int64_t row, std::int64_t column, int count) const { pass(row, column, count, 1); }
};

/// With row gates: a block has a row, for the sum over its columns.
template <class F, class T>
__global__ void __launch_bounds__(256, 1)
    gate_row_backward(GateBackward<F, T> gate, const T* row_gates, T* drow_gates) {
  constexpr int lanes = lanes_of_access<T>;
  const std::int64_t row = blockIdx.x;
  const Math<T> open = sigmoid(widened(row_gates[row]));
  Math<T> dopen = 0;
  for (std::int64_t column = threadIdx.x * lanes; column < gate.columns; column += blockDim.x * lanes)
    dopen += gate.pass(row, column, lanes_left<lanes>(gate.columns - column), open);
  dopen = block_sum(dopen);
  if (threadIdx.x == 0) narrow(dopen * open * (1 - open), drow_gates[row]);
}

}  // namespace

template <class T>
void activation_forward(Activation activation, const T* u, const T* bias, std::int64_t rows, std::int64_t columns,
                        T* y) {
  if (bias == nullptr) columns = std::exchange(rows, 1) * columns;  // one long row
  const bool packed = packable(rows == 1 ? 0 : columns, lanes_of_access<T>, {u, bias, y});
  with_functor(activation, [=](auto functor) {
    over_rows(rows, columns, Activate<decltype(functor), T>{u, bias, columns, packed, y});
  });
}

template <class T>
void activation_backward(Activation activation, const T* dy, const T* u, const T* bias, std::int64_t rows,
                         std::int64_t columns, T* du) {
  if (bias == nullptr) columns = std::exchange(rows, 1) * columns;
  const bool packed = packable(rows == 1 ? 0 : columns, lanes_of_access<T>, {dy, u, bias, du});
  with_functor(activation, [=](auto functor) {
    over_rows(rows, columns, ActivateBackward<decltype(functor), T>{dy, u, bias, columns, packed, du});
  });
}

template <class T>
void gated_forward(Activation activation, const T* gate_up, const T* row_gates, std::int64_t rows, std::int64_t columns,
                   T* y) {
  const bool packed = packable(columns, lanes_of_access<T>, {gate_up, y});
  with_functor(activation, [=](auto functor) {
    over_rows(rows, columns, Gate<decltype(functor), T>{gate_up, row_gates, columns, packed, y});
  });
}

template <class T>
void gated_backward(Activation activation, const T* dy, const T* gate_up, const T* row_gates, std::int64_t rows,
                    std::int64_t columns, T* dgate_up, T* drow_gates) {
  const bool packed = packable(columns, lanes_of_access<T>, {dy, gate_up, dgate_up});
  with_functor(activation, [=](auto functor) {
    const GateBackward<decltype(functor), T> gate{dy, gate_up, columns, packed, dgate_up};
    if (row_gates == nullptr) return over_rows(rows, columns, gate);
    launch(gate_row_backward<decltype(functor), T>, rows, 256, 0, gate, row_gates, drow_gates);
  });
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                   \
  template void activation_forward<T>(Activation, const T*, const T*, std::int64_t, std::int64_t, T*);            \
  template void activation_backward<T>(Activation, const T*, const T*, const T*, std::int64_t, std::int64_t, T*); \
  template void gated_forward<T>(Activation, const T*, const T*, std::int64_t, std::int64_t, T*);                 \
  template void gated_backward<T>(Activation, const T*, const T*, const T*, std::int64_t, std::int64_t, T*, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
