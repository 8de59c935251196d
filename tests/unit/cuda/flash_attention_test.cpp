// The calls of LibTorch's flash attention, on the host: its two operators are brute force in double here, which makes
// the tensors that LibTorch 2.11 makes. The oracle is autograd in double.
#include "cuda/flash_attention.hpp"

#include "architecture/gpu_attention.hpp"
#include "base/error.hpp"
#include "cuda/device_failure.hpp"
#include "cuda/kernels/causal_attention.hpp"
#include "cuda/kernels/rotate.hpp"
#include "cuda_stubs/stubs.hpp"
#include "tensor/live_memory.hpp"
#include "tensor/runtime.hpp"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

constexpr int multiprocessors = 6;

enum class Fault { none, refusal, memory, own, sticky };

/// The calls of the operators, and the one that fails.
struct Operators {
  int forward = 0, backward = 0, own_kernel = 0;
  Fault fault = Fault::none;
  int failing = 0;  // call of either, from 1 on
  std::int64_t longest = 0;
  std::optional<std::int64_t> window;
  std::vector<std::int32_t> starts;
  bool is_deterministic = false;
  bool counts_only = false;  // tensors are made, and have no values

  void note(const at::Tensor& of_starts, std::int64_t most, std::optional<std::int64_t> before) {
    longest = most;
    window = before;
    starts.assign(of_starts.const_data_ptr<std::int32_t>(),
                  of_starts.const_data_ptr<std::int32_t>() + of_starts.numel());
    is_deterministic = at::globalContext().deterministicAlgorithms() &&
                       !at::globalContext().deterministicAlgorithmsWarnOnly() &&
                       !at::globalContext().deterministicFillUninitializedMemory();
    if (forward + backward != failing) return;
    const c10::SourceLocation here{"flash", "flash", 1};
    switch (fault) {
      case Fault::none: return;
      case Fault::refusal: throw c10::Error(here, "head_size should be a multiple of 8\nand more");
      case Fault::memory: throw c10::OutOfMemoryError(here, "CUDA out of memory");
      case Fault::own: throw c10::AcceleratorError(here, 701, "too many resources requested for launch");
      case Fault::sticky: throw c10::AcceleratorError(here, 700, "an illegal memory access was encountered");
    }
  }
};
Operators operators;

void require_heads(const at::Tensor& heads, const at::Tensor& like) {
  TORCH_CHECK(heads.dim() == 3 && heads.stride(-1) == 1 && heads.scalar_type() == like.scalar_type());
  TORCH_CHECK(heads.scalar_type() == at::kBFloat16 || heads.scalar_type() == at::kHalf);
  TORCH_CHECK(heads.size(2) % 8 == 0 && heads.size(2) <= 256);
  TORCH_CHECK(reinterpret_cast<std::uintptr_t>(heads.const_data_ptr()) % 16 == 0);
}

/// Calls pair(query row, key row) for all pairs that attend.
void over_pairs(const at::Tensor& starts, std::optional<std::int64_t> window,
                const std::function<void(std::int64_t, std::int64_t)>& pair) {
  const auto* const first = starts.const_data_ptr<std::int32_t>();
  for (std::int64_t s = 0; s + 1 < starts.numel(); ++s)
    for (std::int64_t query = first[s]; query < first[s + 1]; ++query)
      for (std::int64_t key = first[s]; key <= query; ++key)
        if (!window || *window < 0 || query - key <= *window) pair(query, key);
}

double inner_product(const at::Tensor& a, const at::Tensor& b) { return (a * b).sum().item<double>(); }

using FiveTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

FiveTensors flash_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const std::optional<at::Tensor>& starts, const std::optional<at::Tensor>& key_starts,
                          std::int64_t most_queries, std::int64_t most_keys, double dropout, bool is_causal,
                          bool returns_mask, std::optional<double> scale, std::optional<std::int64_t> left,
                          std::optional<std::int64_t> right, const std::optional<at::Tensor>& used,
                          const std::optional<at::Tensor>& slopes) {
  ++operators.forward;
  operators.note(*starts, most_queries, left);
  for (const at::Tensor& heads : {query, key, value}) require_heads(heads, query);
  TORCH_CHECK(is_causal && dropout == 0 && !returns_mask && !right && !used && !slopes);
  TORCH_CHECK(most_keys == most_queries && key_starts->is_same(*starts) && most_queries > 1);
  const std::int64_t rows = query.size(0), heads = query.size(1), group = heads / key.size(1);
  const at::Tensor output = at::empty({rows, heads, query.size(2)}, query.options());
  const at::Tensor sums = at::empty({heads, rows}, query.options().dtype(at::kFloat));
  const at::Tensor random = at::empty({2}, at::kLong), unused = at::empty({0}, at::kLong);
  if (operators.counts_only) return {output, sums, random, unused, at::empty({0}, query.options())};
  const at::Tensor q = query.to(at::kDouble), k = key.to(at::kDouble), v = value.to(at::kDouble);
  for (std::int64_t head = 0; head < heads; ++head) {
    std::vector<double> total(static_cast<std::size_t>(rows));
    const at::Tensor mean = at::zeros({rows, query.size(2)}, at::kDouble);
    over_pairs(*starts, left, [&](std::int64_t i, std::int64_t j) {
      const double weight = std::exp(*scale * inner_product(q[i][head], k[j][head / group]));
      total[static_cast<std::size_t>(i)] += weight;
      mean[i].add_(v[j][head / group], weight);
    });
    for (std::int64_t i = 0; i < rows; ++i) {
      output[i][head].copy_(mean[i] / total[static_cast<std::size_t>(i)]);
      sums[head][i].fill_(std::log(total[static_cast<std::size_t>(i)]));
    }
  }
  return {output, sums, random, unused, at::empty({0}, query.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(
    const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& output, const at::Tensor& sums, const at::Tensor& starts, const at::Tensor& key_starts,
    std::int64_t most_queries, std::int64_t most_keys, double dropout, bool is_causal, const at::Tensor&,
    const at::Tensor&, std::optional<double> scale, std::optional<std::int64_t> left,
    std::optional<std::int64_t> right) {
  ++operators.backward;
  operators.note(starts, most_queries, left);
  for (const at::Tensor& heads : {query, key, value, output, gradient}) require_heads(heads, query);
  TORCH_CHECK(output.is_contiguous() && gradient.is_contiguous() && sums.is_contiguous());
  TORCH_CHECK(sums.scalar_type() == at::kFloat && sums.size(0) == query.size(1));
  TORCH_CHECK(is_causal && dropout == 0 && !right && most_keys == most_queries && key_starts.is_same(starts));
  const std::int64_t rows = query.size(0), heads = query.size(1), group = heads / key.size(1), size = query.size(2);
  const at::Tensor dq = at::empty({rows, heads, size}, query.options());
  const at::Tensor dk = at::empty({rows, heads / group, size}, query.options()), dv = at::empty_like(dk);
  // Memory of LibTorch besides these.
  const std::int64_t segments = starts.numel() - 1, padded = rows + 128 * segments;
  const std::int64_t copies = (multiprocessors + segments * heads - 1) / (segments * heads);
  const std::int64_t step = size <= 128 ? 32 : 64, columns = (size + step - 1) / step * step;
  const at::Tensor products = at::empty({heads, padded}, at::kFloat);
  const at::Tensor totals = at::empty({copies, padded, heads, columns}, at::kFloat);
  const at::Tensor of_heads = at::empty({group > 1 ? 2 * rows : 0, heads, size}, query.options());
  if (!operators.counts_only) {
    const at::Tensor q = query.to(at::kDouble), k = key.to(at::kDouble), v = value.to(at::kDouble);
    const at::Tensor y = output.to(at::kDouble), dy = gradient.to(at::kDouble);
    const at::Tensor of_q = at::zeros_like(q), of_k = at::zeros_like(k), of_v = at::zeros_like(v);
    for (std::int64_t head = 0; head < heads; ++head)
      over_pairs(starts, left, [&](std::int64_t i, std::int64_t j) {
        const std::int64_t of = head / group;
        const double share = std::exp(*scale * inner_product(q[i][head], k[j][of]) - sums[head][i].item<double>());
        const double slope =
            share * (inner_product(dy[i][head], v[j][of]) - inner_product(dy[i][head], y[i][head])) * *scale;
        of_v[j][of].add_(dy[i][head], share);
        of_q[i][head].add_(k[j][of], slope);
        of_k[j][of].add_(q[i][head], slope);
      });
    dq.copy_(of_q);
    dk.copy_(of_k);
    dv.copy_(of_v);
  }
  return {dq, dk, dv};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_flash_attention_forward", flash_forward);
  library.impl("_flash_attention_backward", flash_backward);
}

}  // namespace

// The kernels that the calls need, on the host. Tests of their own compare them: heads_test.cpp.

namespace lockstep::cuda {

c10::Device tensor_device() { return at::kCPU; }

template <class T>
void turn(const T* from, std::int64_t half, Rotation<Math<T>> rotation, std::int64_t position, double sign, T* to) {
  for (std::int64_t i = 0; i < half; ++i) {
    const double a = load(from[i]), b = load(from[i + half]);
    const double cosine = rotation.cosine[position * half + i], sine = sign * rotation.sine[position * half + i];
    store(to[i], static_cast<Math<T>>(a * cosine - b * sine));
    store(to[i + half], static_cast<Math<T>>(b * cosine + a * sine));
  }
}

template <class T>
void rotate_heads(const T* qkv, const AttentionShape& shape, Rotation<Math<T>> rotation, const std::int32_t* positions,
                  std::int64_t rows, RotateBy by, T* y) {
  const std::int64_t heads = shape.heads + 2 * shape.kv_heads, size = shape.head_size;
  for (std::int64_t i = 0; i < rows * heads; ++i) {
    if (i % heads < shape.heads + shape.kv_heads)
      turn(qkv + i * size, size / 2, rotation, positions[i / heads], by == RotateBy::position ? 1 : -1, y + i * size);
    else
      std::copy_n(qkv + i * size, size, y + i * size);
  }
}

template <class T>
void join_gradients(const T* dq, const T* dk, const T* dv, const AttentionShape& shape, Rotation<Math<T>> rotation,
                    const std::int32_t* positions, std::int64_t rows, T* y) {
  const std::int64_t queries = shape.heads * shape.head_size, keys = shape.kv_heads * shape.head_size;
  for (std::int64_t row = 0; row < rows; ++row) {
    T* const to = y + row * shape.width();
    std::copy_n(dq + row * queries, queries, to);
    std::copy_n(dk + row * keys, keys, to + queries);
    std::copy_n(dv + row * keys, keys, to + queries + keys);
  }
  if (rotation.cosine) rotate_heads(y, shape, rotation, positions, rows, RotateBy::minus_position, y);
}

template <class T>
void attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                       const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout) {
  ++operators.own_kernel;
  lockstep::attention_forward<T>(qkv, shape, segments, rotation, positions, y, log_sums, dropout);
}
template <class T>
void attention_backward(const T* dy, const T* qkv, const T* y, const Math<T>* log_sums, const AttentionShape& shape,
                        Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                        const AttentionDropout& dropout) {
  ++operators.own_kernel;
  lockstep::attention_backward<T>(dy, qkv, y, log_sums, shape, segments, rotation, positions, dqkv, dropout);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                        \
  template void rotate_heads<T>(const T*, const AttentionShape&, Rotation<Math<T>>, const std::int32_t*, std::int64_t, \
                                RotateBy, T*);                                                                         \
  template void join_gradients<T>(const T*, const T*, const T*, const AttentionShape&, Rotation<Math<T>>,              \
                                  const std::int32_t*, std::int64_t, T*);                                              \
  template void attention_forward<T>(const T*, const AttentionShape&, Segments, Rotation<Math<T>>,                     \
                                     const std::int32_t*, T*, Math<T>*, const AttentionDropout&);                      \
  template void attention_backward<T>(const T*, const T*, const T*, const Math<T>*, const AttentionShape&, Segments,   \
                                      Rotation<Math<T>>, const std::int32_t*, T*, const AttentionDropout&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda

BOOST_AUTO_TEST_SUITE(flash_attention)

using namespace lockstep;

namespace {

struct Case {
  std::vector<std::int64_t> starts;
  AttentionShape shape;
  bool rotates = false;
  std::int64_t longest = 0;
};

template <class T>
constexpr at::ScalarType type_of = std::is_same_v<T, Bf16>    ? at::kBFloat16
                                   : std::is_same_v<T, Fp16>  ? at::kHalf
                                   : std::is_same_v<T, float> ? at::kFloat
                                                              : at::kDouble;

/// A call of both directions, and its arguments as tensors.
template <class T>
struct Call {
  explicit Call(const Case& given) : of(given) {
    const std::int64_t rows = of.starts.back(), half = of.shape.head_size / 2;
    at::manual_seed(7);
    qkv = at::randn({rows, of.shape.width()}, at::kDouble).to(type_of<T>);
    dy = at::randn({rows, of.shape.heads * of.shape.head_size}, at::kDouble).to(type_of<T>);
    y = at::empty_like(dy);
    dqkv = at::empty_like(qkv);
    log_sums = at::empty({rows, of.shape.heads}, at::CppTypeToScalarType<Math<T>>::value);
    for (std::size_t s = 0; s + 1 < of.starts.size(); ++s)
      for (std::int64_t i = of.starts[s]; i < of.starts[s + 1]; ++i)
        positions.push_back(static_cast<std::int32_t>(i - of.starts[s] + 1));
    const at::Tensor angles = at::arange(rows + 1, at::kDouble).unsqueeze(1) *
                              at::pow(100.0, at::arange(half, at::kDouble) / -static_cast<double>(half));
    cosine = angles.cos().to(log_sums.scalar_type()) * 1.25;
    sine = angles.sin().to(log_sums.scalar_type()) * 1.25;
  }

  template <class V>
  static V* at_start(const at::Tensor& tensor) {
    return static_cast<V*>(tensor.mutable_data_ptr());
  }
  Segments segments() const { return {of.starts.data(), std::ssize(of.starts) - 1, of.starts.back(), of.longest}; }
  Rotation<Math<T>> rotation() const {
    if (!of.rotates) return {};
    return {at_start<Math<T>>(cosine), at_start<Math<T>>(sine)};
  }
  void forward() const {
    cuda::gpu_attention_forward<T>(at_start<T>(qkv), of.shape, segments(), rotation(), positions.data(), at_start<T>(y),
                                   at_start<Math<T>>(log_sums), dropout);
  }
  void backward(bool knows_output) const {
    cuda::gpu_attention_backward<T>(at_start<T>(dy), at_start<T>(qkv), knows_output ? at_start<T>(y) : nullptr,
                                    at_start<Math<T>>(log_sums), of.shape, segments(), rotation(), positions.data(),
                                    at_start<T>(dqkv), dropout);
  }

  Case of;
  at::Tensor qkv, dy, y, dqkv, log_sums, cosine, sine;
  std::vector<std::int32_t> positions;
  AttentionDropout dropout = {};
};

struct Expected {
  at::Tensor y, log_sums, dqkv;
};

/// Autograd in double: masked softmax over all rows.
template <class T>
Expected expected(const Call<T>& call) {
  const AttentionShape& shape = call.of.shape;
  const std::int64_t rows = call.of.starts.back(), size = shape.head_size, half = size / 2;
  const at::Tensor leaf = call.qkv.to(at::kDouble).clone().requires_grad_(true);
  const at::Tensor heads = leaf.view({rows, -1, size});
  at::Tensor turned = heads.slice(1, 0, shape.heads + shape.kv_heads);
  if (call.of.rotates) {
    const at::Tensor place = at::tensor(call.positions, at::kLong);
    const at::Tensor c = call.cosine.to(at::kDouble).index_select(0, place).unsqueeze(1);
    const at::Tensor s = call.sine.to(at::kDouble).index_select(0, place).unsqueeze(1);
    const at::Tensor a = turned.slice(2, 0, half), b = turned.slice(2, half);
    turned = at::cat({a * c - b * s, b * c + a * s}, 2);
  }
  const std::int64_t group = shape.heads / shape.kv_heads;
  const at::Tensor queries = turned.slice(1, 0, shape.heads).transpose(0, 1);
  const at::Tensor keys = turned.slice(1, shape.heads).repeat_interleave(group, 1).transpose(0, 1);
  const at::Tensor values = heads.slice(1, shape.heads + shape.kv_heads).repeat_interleave(group, 1).transpose(0, 1);
  const at::Tensor hidden = at::ones({rows, rows}, at::kBool);
  for (std::size_t s = 0; s + 1 < call.of.starts.size(); ++s)
    for (std::int64_t i = call.of.starts[s]; i < call.of.starts[s + 1]; ++i)
      for (std::int64_t j = call.of.starts[s]; j <= i; ++j)
        if (shape.window == 0 || i - j < shape.window) hidden[i][j].fill_(false);
  const at::Tensor scores =
      (queries.matmul(keys.transpose(1, 2)) / std::sqrt(static_cast<double>(size))).masked_fill(hidden, -INFINITY);
  const at::Tensor y = scores.softmax(2).matmul(values).transpose(0, 1).reshape({rows, -1});
  y.backward(call.dy.to(at::kDouble));
  return {y.detach(), scores.detach().logsumexp(2).t(), leaf.grad()};
}

double relative_error(const at::Tensor& found, const at::Tensor& wanted) {
  return ((found.to(at::kDouble) - wanted).norm() / wanted.norm()).item<double>();
}

void begin() {
  set_up_runtime(1);
  stubs::begin({});
  cuda::begin_calls(0);
  operators = {};
}

template <class T>
void check(const Case& of) {
  begin();
  const Call<T> call(of);
  const Expected wanted = expected(call);
  const double rounding = std::is_same_v<T, Bf16> ? 0.004 : 0.0005;  // 2^-8 and 2^-11
  call.forward();
  BOOST_TEST(relative_error(call.y, wanted.y) < rounding);
  BOOST_TEST((call.log_sums.to(at::kDouble) - wanted.log_sums).abs().max().template item<double>() < 4 * rounding);
  for (const bool knows_output : {true, false}) {
    call.dqkv.fill_(NAN);
    call.backward(knows_output);
    BOOST_TEST(relative_error(call.dqkv, wanted.dqkv) < 1.5 * rounding);
  }
  BOOST_TEST((operators.forward == 2 && operators.backward == 2 && operators.own_kernel == 0));
  BOOST_TEST(operators.is_deterministic);
}

}  // namespace

BOOST_AUTO_TEST_CASE(results_and_gradients_are_those_of_masked_softmax) {
  const std::vector<Case> cases{
      {{0, 7}, {2, 2, 8}},     {{0, 1, 1, 6, 13}, {4, 2, 8}, true}, {{0, 9, 11}, {3, 1, 16}, true, 9},
      {{0, 12}, {2, 1, 8, 3}}, {{0, 5, 12}, {4, 4, 8, 100}, true},  {{0, 1}, {2, 1, 8}, true}};
  for (const Case& of : cases) {
    check<Bf16>(of);
    check<Fp16>(of);
  }
}

BOOST_AUTO_TEST_CASE(arguments_are_translated) {
  const auto call = [](const Case& of) {
    begin();
    Call<Bf16>(of).forward();
  };
  call({{0, 3, 3, 8}, {2, 2, 8}});
  BOOST_TEST(operators.starts == (std::vector<std::int32_t>{0, 3, 3, 8}), boost::test_tools::per_element());
  BOOST_TEST((operators.longest == 8 && !operators.window));  // the longest segment is unknown
  call({{0, 3, 3, 8}, {2, 2, 8, 4}, false, 5});
  BOOST_TEST((operators.longest == 5 && operators.window == 3));
  call({{0, 1, 2}, {2, 1, 8, 1}, false, 1});
  BOOST_TEST((operators.longest == 2 && operators.window == 0));
  call({{0, 3}, {2, 2, 8}, false, 1000});
  BOOST_TEST(operators.longest == 3);
}

BOOST_AUTO_TEST_CASE(the_own_kernel_computes_what_flash_attention_does_not_take) {
  const auto calls = []<class T>(const Call<T>& call) {
    operators = {};
    call.forward();
    call.backward(true);
    BOOST_TEST(operators.forward == operators.backward);
    BOOST_TEST(operators.forward + operators.backward + operators.own_kernel == 2);
    return operators.own_kernel;
  };
  begin();
  const Case of{{0, 3, 8}, {2, 2, 8}};
  BOOST_TEST(calls(Call<Bf16>(of)) == 0);
  BOOST_TEST(calls(Call<float>(of)) == 2);
  BOOST_TEST(calls(Call<double>(of)) == 2);
  BOOST_TEST(calls(Call<Fp16>({of.starts, {2, 2, 12}})) == 2);
  const std::vector<Place> places(8, 0);
  Call<Bf16> dropping(of);
  dropping.dropout = {dropout_mask(0.5, 1, 2, 3, DropoutSite::attention), places.data(), 0};
  BOOST_TEST(calls(dropping) == 2);
  std::vector<std::int64_t> many(65536, 8);  // 65535 segments
  many.front() = 0;
  BOOST_TEST(calls(Call<Bf16>({many, of.shape})) == 0);
  many.push_back(8);
  BOOST_TEST(calls(Call<Bf16>({many, of.shape})) == 2);
  Call<Bf16> shifted(of);
  const at::Tensor longer = at::zeros({shifted.qkv.numel() + 1}, at::kBFloat16);
  shifted.qkv = longer.slice(0, 1).view(shifted.qkv.sizes());
  BOOST_TEST(calls(shifted) == 2);
}

BOOST_AUTO_TEST_CASE(calls_take_the_memory_of_their_description_and_release_it) {
  const std::vector<Case> cases{
      {{0, 100, 300}, {2, 2, 16}}, {{0, 300}, {4, 2, 40}, true}, {{0, 200, 300}, {2, 1, 136}}};
  for (const Case& of : cases)
    for (const bool knows_output : {true, false}) {
      begin();
      const Call<Bf16> call(of);
      const auto segments = std::ssize(of.starts) - 1;
      const AttentionScratch scratch = flash_scratch(of.shape, {.rows = of.starts.back(),
                                                                .fewest_segments = segments,
                                                                .most_segments = segments,
                                                                .multiprocessors = multiprocessors,
                                                                .rotates = of.rotates,
                                                                .has_output = knows_output});
      const auto near = [](std::int64_t seen, std::int64_t described) {
        return seen >= described && seen <= described + described / 16 + 1024;
      };
      operators.counts_only = true;
      {
        const TensorWatch watch;
        call.forward();
        BOOST_TEST(near(watch.most(), scratch.forward), watch.most() << " instead of " << scratch.forward);
        BOOST_TEST(watch.now() == 0);
      }
      const TensorWatch watch;
      call.backward(knows_output);
      BOOST_TEST(near(watch.most(), scratch.backward), watch.most() << " instead of " << scratch.backward);
      BOOST_TEST(watch.now() == 0);
    }
}

BOOST_AUTO_TEST_CASE(each_call_that_fails_ends_in_one_error_without_leaks) {
  const Case of{{0, 3, 8}, {2, 1, 8}, true};
  const auto run = [](const Call<Bf16>& call) {
    call.forward();
    call.backward(true);
    call.backward(false);
  };
  begin();
  run(Call<Bf16>(of));
  const int calls = operators.forward + operators.backward;
  BOOST_TEST(calls == 4);
  for (const Fault fault : {Fault::refusal, Fault::memory, Fault::own, Fault::sticky})
    for (int failing = 1; failing <= calls; ++failing) {
      begin();
      const Call<Bf16> call(of);
      operators.fault = fault;
      operators.failing = failing;
      std::string told;
      const TensorWatch watch;
      try {
        run(call);
      } catch (const Error& error) {
        told = error.what();
        BOOST_TEST((error.code() == ExitCode::resources));
      } catch (const c10::OutOfMemoryError& error) {
        told = error.what_without_backtrace();
        BOOST_TEST((fault == Fault::memory));
      }
      BOOST_TEST(watch.now() == 0);
      BOOST_TEST(operators.forward + operators.backward == failing);
      BOOST_TEST(cuda::has_failed() == (fault == Fault::sticky));
      const std::string doing = failing == 1 ? "cannot compute attention" : "cannot compute the gradient of attention";
      switch (fault) {
        case Fault::none: break;
        case Fault::refusal: BOOST_TEST(told == doing + ": head_size should be a multiple of 8"); break;
        case Fault::memory: BOOST_TEST(told == "CUDA out of memory"); break;
        case Fault::own: BOOST_TEST(told.starts_with(doing + ": "), told); break;
        case Fault::sticky:
          BOOST_TEST(told.starts_with("the device has failed: "), told);
          BOOST_TEST(told.find("(" + doing + ")") != std::string::npos, told);
          BOOST_CHECK_THROW(call.forward(), Error);
          BOOST_TEST(operators.forward + operators.backward == failing);  // nothing is called any more
          break;
      }
      if (fault == Fault::sticky) continue;
      operators.fault = Fault::none;
      run(call);
    }
  begin();
  const Call<Bf16> call(of);
  stubs::begin({.failing_call = 1, .failing_name = "cudaSetDevice"});
  BOOST_CHECK_THROW(call.forward(), Error);
  BOOST_TEST(operators.forward == 0);
  call.forward();
  BOOST_TEST(operators.forward == 1);
}

BOOST_AUTO_TEST_SUITE_END()
