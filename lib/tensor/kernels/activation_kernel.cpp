#include "tensor/kernels/activation_kernel.hpp"

#include "tensor/kernels/row_grain.hpp"
#include "tensor/kernels/wide.hpp"
#include "tensor/parallel.hpp"

#include <numbers>
#include <type_traits>

namespace lockstep {

namespace {

// Each has value(x) and slope(x) = d value / dx.
struct GeluTanh {
  template <class M>
  static LOCKSTEP_INLINE M inner(M x) {
    return static_cast<M>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x + static_cast<M>(0.044715) * x * x * x);
  }
  template <class M>
  static LOCKSTEP_INLINE M value(M x) {
    return static_cast<M>(0.5) * x * (1 + hyperbolic_tangent(inner(x)));
  }
  template <class M>
  static LOCKSTEP_INLINE M slope(M x) {
    const M t = hyperbolic_tangent(inner(x));
    const M inner_slope =
        static_cast<M>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (1 + static_cast<M>(3 * 0.044715) * x * x);
    return static_cast<M>(0.5) * (1 + t) + static_cast<M>(0.5) * x * (1 - t * t) * inner_slope;
  }
};

struct GeluErf {
  template <class M>
  static LOCKSTEP_INLINE M value(M x) {
    return static_cast<M>(0.5) * x * (1 + std::erf(x * static_cast<M>(1 / std::numbers::sqrt2)));
  }
  template <class M>
  static LOCKSTEP_INLINE M slope(M x) {
    const M density =
        static_cast<M>(std::numbers::inv_sqrtpi / std::numbers::sqrt2) * exp(-static_cast<M>(0.5) * x * x);
    return static_cast<M>(0.5) * (1 + std::erf(x * static_cast<M>(1 / std::numbers::sqrt2))) + x * density;
  }
};

struct Silu {
  template <class M>
  static LOCKSTEP_INLINE M value(M x) {
    return x / (1 + exp(-x));
  }
  template <class M>
  static LOCKSTEP_INLINE M slope(M x) {
    const M sigmoid = 1 / (1 + exp(-x));
    return sigmoid * (1 + x * (1 - sigmoid));
  }
};

struct Relu {
  template <class M>
  static LOCKSTEP_INLINE M value(M x) {
    return x > 0 ? x : M{0};
  }
  template <class M>
  static LOCKSTEP_INLINE M slope(M x) {
    return x > 0 ? M{1} : M{0};
  }
};

template <class F, class T>
LOCKSTEP_CLONES void activate(const T* u, const T* bias, std::int64_t rows, std::int64_t columns, T* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* in = u + row * columns;
    T* out = y + row * columns;
    if (bias) {
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) store(out[c], F::value(load(in[c]) + load(bias[c])));
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) store(out[c], F::value(load(in[c])));
    }
  }
}

template <class F, class T>
LOCKSTEP_CLONES void differentiate(const T* dy, const T* u, const T* bias, std::int64_t rows, std::int64_t columns,
                                   T* du) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* in = u + row * columns;
    const T* gradient = dy + row * columns;
    T* out = du + row * columns;
    if (bias) {
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c)
        store(out[c], load(gradient[c]) * F::slope(load(in[c]) + load(bias[c])));
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) store(out[c], load(gradient[c]) * F::slope(load(in[c])));
    }
  }
}

#ifdef LOCKSTEP_INTRINSICS

/// GELU by tanh is x·σ(z) with z = 2·inner(x), for tanh(z / 2) = 2σ(z) - 1.
struct WideGelu {
  static constexpr float factor = 2 * std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;

  static LOCKSTEP_WIDE LOCKSTEP_INLINE __m512 sigmoid(__m512 x, __m512 square) {
    const __m512 slope = _mm512_fmadd_ps(square, _mm512_set1_ps(0.044715f * factor), _mm512_set1_ps(factor));
    return sigmoid_wide(_mm512_mul_ps(x, slope));
  }
  static LOCKSTEP_WIDE LOCKSTEP_INLINE __m512 value(__m512 x) {
    return _mm512_mul_ps(x, sigmoid(x, _mm512_mul_ps(x, x)));
  }
  static LOCKSTEP_WIDE LOCKSTEP_INLINE __m512 slope(__m512 x) {
    const __m512 square = _mm512_mul_ps(x, x), s = sigmoid(x, square);
    const __m512 inner = _mm512_fmadd_ps(square, _mm512_set1_ps(3 * 0.044715f * factor), _mm512_set1_ps(factor));
    const __m512 sigmoid_slope = _mm512_fnmadd_ps(s, s, s);
    return _mm512_fmadd_ps(_mm512_mul_ps(x, sigmoid_slope), inner, s);
  }
};

template <class T>
LOCKSTEP_WIDE LOCKSTEP_INLINE __m512 biased(const T* in, const T* bias, std::int64_t c, __mmask16 lanes) {
  const __m512 x = load_wide(in + c, lanes);
  return bias ? _mm512_add_ps(x, load_wide(bias + c, lanes)) : x;
}

template <class T>
LOCKSTEP_WIDE void gelu_wide(const T* u, const T* bias, std::int64_t rows, std::int64_t columns, T* y) {
  for (std::int64_t row = 0; row < rows; ++row, u += columns, y += columns) {
    for (std::int64_t c = 0; c < columns; c += wide_lanes) {
      const __mmask16 lanes = lanes_of(columns - c);
      store_wide(y + c, lanes, WideGelu::value(biased(u, bias, c, lanes)));
    }
  }
}

template <class T>
LOCKSTEP_WIDE void gelu_backward_wide(const T* dy, const T* u, const T* bias, std::int64_t rows, std::int64_t columns,
                                      T* du) {
  for (std::int64_t row = 0; row < rows; ++row, dy += columns, u += columns, du += columns) {
    for (std::int64_t c = 0; c < columns; c += wide_lanes) {
      const __mmask16 lanes = lanes_of(columns - c);
      store_wide(du + c, lanes, _mm512_mul_ps(load_wide(dy + c, lanes), WideGelu::slope(biased(u, bias, c, lanes))));
    }
  }
}

#else

template <class T>
void gelu_wide(const T*, const T*, std::int64_t, std::int64_t, T*) {}
template <class T>
void gelu_backward_wide(const T*, const T*, const T*, std::int64_t, std::int64_t, T*) {}

#endif

/// Whether functor F has the form above for elements that are computed in fp32.
template <class F>
bool has_wide() {
  return std::is_same_v<F, GeluTanh> && is_wide();
}

/// How much of a row its own gate lets through.
template <bool has_row_gates, class T>
LOCKSTEP_INLINE Math<T> opening(const T* row_gates, std::int64_t row) {
  if constexpr (has_row_gates) return 1 / (1 + exp(-load(row_gates[row])));
  return 1;
}

template <class F, bool has_row_gates, class T>
LOCKSTEP_CLONES void gate(const T* gate_up, const T* row_gates, std::int64_t rows, std::int64_t columns, T* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* gates = gate_up + row * 2 * columns;
    const T* ups = gates + columns;
    const Math<T> open = opening<has_row_gates>(row_gates, row);
    T* out = y + row * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) store(out[c], open * (F::value(load(gates[c])) * load(ups[c])));
  }
}

template <class F, bool has_row_gates, class T>
LOCKSTEP_CLONES void gate_backward(const T* dy, const T* gate_up, const T* row_gates, std::int64_t rows,
                                   std::int64_t columns, T* dgate_up, T* drow_gates) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* gates = gate_up + row * 2 * columns;
    const T* ups = gates + columns;
    const T* gradient = dy + row * columns;
    const Math<T> open = opening<has_row_gates>(row_gates, row);
    T* dgates = dgate_up + row * 2 * columns;
    T* dups = dgates + columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto g = load(gates[c]), passed = open * load(gradient[c]);
      store(dgates[c], passed * load(ups[c]) * F::slope(g));
      store(dups[c], passed * F::value(g));
    }
    if constexpr (has_row_gates) {  // in a loop of its own: a sum would slow the one above, of all gated activations
      Math<T> dopen = 0;
#pragma omp simd reduction(+ : dopen)
      for (std::int64_t c = 0; c < columns; ++c) dopen += load(gradient[c]) * F::value(load(gates[c])) * load(ups[c]);
      store(drow_gates[row], dopen * open * (1 - open));
    }
  }
}

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

constexpr std::int64_t values_per_thread = 8192;

}  // namespace

template <class T>
void activation_forward(Activation activation, const T* u, const T* bias, std::int64_t rows, std::int64_t columns,
                        T* y) {
  with_functor(activation, [=](auto functor) {
    parallel_for(rows, row_grain(columns, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
      const std::int64_t offset = begin * columns;
      if constexpr (std::is_same_v<Math<T>, float>) {
        if (has_wide<decltype(functor)>()) return gelu_wide(u + offset, bias, end - begin, columns, y + offset);
      }
      activate<decltype(functor), T>(u + offset, bias, end - begin, columns, y + offset);
    });
  });
}

template <class T>
void activation_backward(Activation activation, const T* dy, const T* u, const T* bias, std::int64_t rows,
                         std::int64_t columns, T* du) {
  with_functor(activation, [=](auto functor) {
    parallel_for(rows, row_grain(columns, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
      const std::int64_t offset = begin * columns;
      if constexpr (std::is_same_v<Math<T>, float>) {
        if (has_wide<decltype(functor)>())
          return gelu_backward_wide(dy + offset, u + offset, bias, end - begin, columns, du + offset);
      }
      differentiate<decltype(functor), T>(dy + offset, u + offset, bias, end - begin, columns, du + offset);
    });
  });
}

template <class T>
void gated_forward(Activation activation, const T* gate_up, const T* row_gates, std::int64_t rows, std::int64_t columns,
                   T* y) {
  with_functor(activation, [=](auto functor) {
    parallel_for(rows, row_grain(columns, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
      const std::int64_t offset = begin * columns;
      if (row_gates)
        gate<decltype(functor), true, T>(gate_up + 2 * offset, row_gates + begin, end - begin, columns, y + offset);
      else
        gate<decltype(functor), false, T>(gate_up + 2 * offset, nullptr, end - begin, columns, y + offset);
    });
  });
}

template <class T>
void gated_backward(Activation activation, const T* dy, const T* gate_up, const T* row_gates, std::int64_t rows,
                    std::int64_t columns, T* dgate_up, T* drow_gates) {
  with_functor(activation, [=](auto functor) {
    parallel_for(rows, row_grain(columns, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
      const std::int64_t offset = begin * columns;
      if (row_gates)
        gate_backward<decltype(functor), true, T>(dy + offset, gate_up + 2 * offset, row_gates + begin, end - begin,
                                                  columns, dgate_up + 2 * offset, drow_gates + begin);
      else
        gate_backward<decltype(functor), false, T>(dy + offset, gate_up + 2 * offset, nullptr, end - begin, columns,
                                                   dgate_up + 2 * offset, nullptr);
    });
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

}  // namespace lockstep
