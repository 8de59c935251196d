// model_step MODEL PRECISION FOLDER: one forward and backward of the model in a Hugging Face folder, for comparison
// with another implementation. Reads FOLDER/{tokens,labels,positions}.bin (int32) and documents.bin (int64), where
// every document is a sample; writes FOLDER/loss.json, FOLDER/gradients/NAME.npy and FOLDER/logits.npy. The gradient is
// that of the mean loss over counted labels and, where the model has one, the auxiliary loss of its experts times its
// coefficient: a mean over samples and layers.
#include "base/files.hpp"
#include "exchange/file_tensors.hpp"
#include "exchange/model_folder.hpp"
#include "model/model.hpp"
#include "tensor/runtime.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

using namespace lockstep;

namespace {

namespace fs = std::filesystem;

template <class T>
std::vector<T> read_values(const fs::path& path) {
  std::vector<T> values(fs::file_size(path) / sizeof(T));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  return values;
}

void write_npy(const fs::path& path, const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  std::string shape;
  for (const std::int64_t size : values.sizes()) shape += fmt::format("{},", size);
  std::string header =
      fmt::format("{{'descr': '<f{}', 'fortran_order': False, 'shape': ({}), }}", values.element_size(), shape);
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  const auto size = static_cast<std::uint16_t>(header.size());
  file.write("\x93NUMPY\x01\x00", 8).write(reinterpret_cast<const char*>(&size), 2) << header;
  file.write(static_cast<const char*>(values.const_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
}

Precision precision_of(const std::string& name) {
  if (name == "fp64") return Precision::fp64;
  if (name == "fp16") return Precision::fp16;
  return name == "bf16" ? Precision::bf16 : Precision::fp32;
}

Batch read_batch(const fs::path& folder) {
  Batch batch;
  batch.tokens = read_values<std::int32_t>(folder / "tokens.bin");
  batch.labels = read_values<std::int32_t>(folder / "labels.bin");
  batch.positions = read_values<std::int32_t>(folder / "positions.bin");
  batch.documents = read_values<std::int64_t>(folder / "documents.bin");
  batch.samples = std::ssize(batch.documents) - 1;
  batch.length = std::ssize(batch.tokens) / batch.samples;
  for (std::int64_t sample = 0; sample < batch.samples; ++sample) batch.numbers.push_back(sample);
  batch.valid_tokens = std::count_if(batch.labels.begin(), batch.labels.end(),
                                     [](std::int32_t label) { return label != ignored_label; });
  return batch;
}

/// Without it small gradients of fp16 would vanish.
double loss_scale(const Model& model) { return model.precision() == Precision::fp16 ? 65536 : 1; }

/// What the sum of auxiliary losses over samples and layers counts for in the loss.
double aux_factor(const Model& model, const BatchTensors& batch) {
  const ModelConfig& config = model.config();
  const auto parts =
      static_cast<double>(std::max<std::int64_t>(1, batch.samples * config.expert_layers(config.layers)));
  return config.experts.aux_coefficient / parts;
}

/// As the engine: each block's backward is its own, from the last to the first.
double run_step(Model& model, const BatchTensors& batch) {
  double aux_loss = 0;
  std::vector<at::Tensor> inputs(model.block_count()), outputs(model.block_count());
  for (std::size_t i = 0; i < model.block_count(); ++i) {
    if (i > 0) inputs[i] = outputs[i - 1].detach().requires_grad_(true);
    Replay replay;
    outputs[i] = model.block(i).forward(inputs[i], batch, &replay);
    if (replay.aux_loss.defined()) aux_loss += replay.aux_loss.item<double>();
  }
  at::Tensor gradient = at::scalar_tensor(
      loss_scale(model) / static_cast<double>(std::max<std::int64_t>(1, batch.valid_tokens)), at::kDouble);
  for (std::size_t i = model.block_count(); i-- > 0;) {
    torch::autograd::backward({outputs[i]}, {gradient});
    if (i > 0) gradient = inputs[i].grad();
  }
  return outputs.back().item<double>() / static_cast<double>(std::max<std::int64_t>(1, batch.valid_tokens)) +
         aux_factor(model, batch) * aux_loss;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "usage: model_step MODEL PRECISION FOLDER\n", 2;
  set_up_runtime(threads_per_rank(0, 1));
  const fs::path folder = argv[3];
  Model model(describe(read_hf_config(argv[1])), precision_of(argv[2]));
  model.load(*open_stored_weights(argv[1], model.architecture()));
  BatchTensors batch = to_tensors(read_batch(folder), model.config(), {}, DropoutDraw{});
  if (model.config().experts.aux_coefficient > 0) batch.aux_scale = aux_factor(model, batch) * loss_scale(model);
  for (const auto& unit : model.units()) unit->zero_grad();
  const double loss = run_step(model, batch);
  for (const auto& unit : model.units()) unit->finish_gradients();
  fs::create_directories(folder / "gradients");
  for (const Parameter* parameter : model.parameters())
    write_npy(folder / "gradients" / (parameter->name() + ".npy"), parameter->gradient().div(loss_scale(model)));
  write_npy(folder / "logits.npy", model.logits(batch));
  std::ofstream(folder / "loss.json") << fmt::format("{:.17g}\n", loss);
  return 0;
}
