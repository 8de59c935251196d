// The meta device of LibTorch, whose tensors have shapes and no memory, as a device of its own: kernels that only
// count.
#include "tensor/functions/kernel_table.hpp"

#include "base/error.hpp"
#include "tensor/functions/activation.hpp"
#include "tensor/functions/attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <string>

BOOST_AUTO_TEST_SUITE(kernel_table)

using namespace lockstep;

namespace {

struct Counts {
  int gated_forward = 0, gated_backward = 0, attention_forward = 0;
};
Counts counts;

Kernels<float> counting_kernels() {
  return {.gated_forward = [](Activation, const float*, const float*, std::int64_t, std::int64_t,
                              float*) { ++counts.gated_forward; },
          .gated_backward = [](Activation, const float*, const float*, const float*, std::int64_t, std::int64_t, float*,
                               float*) { ++counts.gated_backward; },
          .attention_forward = [](const float*, const AttentionShape&, Segments, Rotation<float>, const std::int32_t*,
                                  float*, float*, const AttentionDropout&) { ++counts.attention_forward; }};
}

at::Tensor values(at::IntArrayRef shape, at::DeviceType device, at::ScalarType type = at::kFloat) {
  return at::ones(shape, at::TensorOptions().dtype(type).device(device)).requires_grad_(true);
}

}  // namespace

BOOST_AUTO_TEST_CASE(functions_take_the_kernels_of_their_tensors_device_and_type) {
  register_kernels<float>(at::kMeta, counting_kernels());
  counts = {};
  const at::Tensor there = values({3, 8}, at::kMeta);
  const at::Tensor y = activate_gated(there, Activation::silu);
  BOOST_TEST((y.device().type() == at::kMeta && y.sizes() == at::IntArrayRef{3, 4}));
  torch::autograd::backward({y}, {at::empty({3, 4}, y.options())});
  BOOST_TEST((there.grad().device().type() == at::kMeta));
  const at::Tensor segments = at::empty({2}, at::TensorOptions().dtype(at::kLong).device(at::kMeta));
  const at::Tensor positions = at::empty({5}, at::TensorOptions().dtype(at::kInt).device(at::kMeta));
  const at::Tensor attended = causal_attention(values({5, 12}, at::kMeta), {.heads = 1, .kv_heads = 1, .head_size = 4},
                                               segments, positions, {});
  BOOST_TEST((attended.device().type() == at::kMeta && attended.sizes() == at::IntArrayRef{5, 4}));
  BOOST_TEST((counts.gated_forward == 1 && counts.gated_backward == 1 && counts.attention_forward == 1));

  const at::Tensor here = activate_gated(values({3, 8}, at::kCPU), Activation::silu);  // 1 / (1 + e^-1)
  BOOST_TEST((here.device().is_cpu() && std::abs(here[2][3].item<double>() - 0.7310585786) < 1e-6));
  BOOST_TEST(counts.gated_forward == 1);
}

BOOST_AUTO_TEST_CASE(a_type_that_a_device_has_no_kernels_for_is_named) {
  try {
    activate_gated(values({3, 8}, at::kMeta, at::kDouble), Activation::silu);
    BOOST_TEST(false, "nothing was said");
  } catch (const std::exception& error) {
    BOOST_TEST(std::string(error.what()).find("no kernels of this type are registered for device META") !=
               std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
