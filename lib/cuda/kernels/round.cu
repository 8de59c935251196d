#include "cuda/kernels/round.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"

namespace lockstep::cuda {

namespace {

template <class T>
struct Round {
  static constexpr int lanes = lanes_of_access<Math<T>>;
  const Math<T>* x;
  bool packed;
  T* y;

  __device__ void operator()(std::int64_t, std::int64_t column, int count) const {
    Math<T> values[lanes];
    load_values(x + column, count, packed, values);
    store_values(values, count, packed, y + column);
  }
};

}  // namespace

template <class T>
void round_to(const Math<T>* x, std::int64_t count, T* y) {
  over_rows(1, count, Round<T>{x, packable(0, Round<T>::lanes, {x, y}), y});
}

template void round_to<float>(const float*, std::int64_t, float*);
template void round_to<double>(const double*, std::int64_t, double*);
template void round_to<Bf16>(const float*, std::int64_t, Bf16*);
template void round_to<Fp16>(const float*, std::int64_t, Fp16*);

}  // namespace lockstep::cuda
