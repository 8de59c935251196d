// The meta device of LibTorch, whose tensors have shapes and no memory, as a device of its own: kernels that only
// count.
#include "tensor/functions/kernel_table.hpp"

#include "base/error.hpp"
#include "device/device.hpp"
#include "tensor/functions/activation.hpp"
#include "tensor/functions/attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

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

/// The CPU, with multiprocessors.
class CpuAsGpu final : public Device {
 public:
  CpuAsGpu() : properties_(cpu_->properties()) { properties_.multiprocessors = 4; }
  const DeviceProperties& properties() const override { return properties_; }
  DeviceCounts counts() const override { return cpu_->counts(); }
  std::int64_t free_memory() const override { return cpu_->free_memory(); }
  std::shared_ptr<std::byte> pinned_memory(std::size_t bytes) override { return cpu_->pinned_memory(bytes); }
  void copy(std::span<const RegionCopy> copies, DeviceQueue queue) override { cpu_->copy(copies, queue); }
  DeviceMoment record(DeviceQueue queue) override { return cpu_->record(queue); }
  void follow(DeviceQueue queue, const DeviceMoment& moment) override { cpu_->follow(queue, moment); }
  bool is_over(const DeviceMoment& moment) override { return cpu_->is_over(moment); }
  double seconds_of(const DeviceMoment& moment) override { return cpu_->seconds_of(moment); }
  void wait(const DeviceMoment& moment) override { cpu_->wait(moment); }

 private:
  std::unique_ptr<Device> cpu_ = make_cpu();
  DeviceProperties properties_;
};

/// The arguments of the last backward of attention.
struct BackwardSeen {
  const Bf16* y = nullptr;
  std::int64_t longest = 0;
};
BackwardSeen backward_seen;

/// While it lives, the CPU's attention in bf16 notes them.
struct NotedBackward {
  NotedBackward() {
    Kernels<Bf16> kernels = cpu_kernels().bf16;
    kernels.attention_backward = [](const Bf16* dy, const Bf16* qkv, const Bf16* y, const float* log_sums,
                                    const AttentionShape& shape, Segments segments, Rotation<float> rotation,
                                    const std::int32_t* positions, Bf16* dqkv, const AttentionDropout& dropout) {
      backward_seen = {y, segments.longest};
      attention_backward<Bf16>(dy, qkv, y, log_sums, shape, segments, rotation, positions, dqkv, dropout);
    };
    register_kernels<Bf16>(at::kCPU, kernels);
  }
  ~NotedBackward() { register_kernels<Bf16>(at::kCPU, cpu_kernels().bf16); }
};

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

BOOST_AUTO_TEST_CASE(attention_of_a_gpu_gets_the_output_that_is_kept_anyway) {
  const NotedBackward noted;
  const at::Tensor places = at::zeros({5}, at::kLong);
  const auto read = [&](std::int64_t size, bool keeps, const Dropout& dropout = {}) {
    AttentionValues kept{.keeps_y = keeps};
    const at::Tensor y =
        causal_attention(values({5, 3 * size}, at::kCPU, at::kBFloat16), {.heads = 1, .kv_heads = 1, .head_size = size},
                         {at::tensor({0, 2, 5}, at::kLong), 3}, at::zeros({5}, at::kInt), {}, dropout, 0, &kept);
    backward_seen = {};
    torch::autograd::backward({y}, {at::ones_like(y)});
    BOOST_TEST(backward_seen.longest == 3);
    BOOST_TEST((backward_seen.y == nullptr || backward_seen.y == kept.y.const_data_ptr()));
    return backward_seen.y != nullptr;
  };
  BOOST_TEST(!read(8, true));  // nothing but flash attention reads it
  std::unique_ptr<Device> cpu = use_device(std::make_unique<CpuAsGpu>());
  BOOST_TEST(read(8, true));
  BOOST_TEST(!read(8, false));
  BOOST_TEST(!read(4, true));
  BOOST_TEST(!read(8, true, {dropout_mask(0.5, 1, 2, 3, DropoutSite::attention), places}));
  use_device(std::move(cpu));
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
