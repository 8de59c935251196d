#include "exchange/file_tensors.hpp"

#include "base/error.hpp"
#include "exchange/safetensors.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace lockstep {

namespace {

/// What one expert has in a stack: a matrix in the files.
struct Matrix {
  Role role;
  std::string_view name;
  std::int64_t rows;
};

std::vector<Matrix> matrices_of_expert(const ModelConfig& config, Role stack) {
  const bool mixtral = config.family == Family::mixtral;
  if (stack == Role::expert_gate_up)
    return {{Role::gate, mixtral ? "w1" : "gate_proj", config.experts.feed_forward},
            {Role::up, mixtral ? "w3" : "up_proj", config.experts.feed_forward}};
  if (stack == Role::expert_down) return {{Role::down, mixtral ? "w2" : "down_proj", config.channels}};
  return {};
}

Box rows_at(Box box, std::int64_t begin, std::int64_t count) {
  box.begin[0] = begin;
  box.extent[0] = count;
  return box;
}

/// Stacks out of their matrices in files.
class StackedSource : public TensorSource {
 public:
  StackedSource(std::unique_ptr<TensorSource> files, const std::vector<LogicalTensor>& stored,
                const std::vector<FileTensor>& parts)
      : files_(std::move(files)) {
    std::unordered_map<std::string, const TensorDescription*> in_files;
    for (const TensorDescription& tensor : files_->list()) in_files.emplace(tensor.name, &tensor);
    for (const FileTensor& part : parts) parts_[part.stored].push_back(part);
    for (const LogicalTensor& tensor : stored) {
      const std::vector<FileTensor>& own = parts_.at(tensor.name);
      const DType dtype = in_files.at(own.front().tensor.name)->dtype;
      for (const FileTensor& part : own) {
        const DType found = in_files.at(part.tensor.name)->dtype;
        if (found != dtype)
          fail(ExitCode::input, "{} has type {}, but {} has {}: all experts of a layer must have the same type",
               own.front().tensor.name, name_of(dtype), part.tensor.name, name_of(found));
      }
      list_.push_back({tensor.name, tensor.shape, dtype});
    }
  }

  const std::vector<TensorDescription>& list() const override { return list_; }

  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    const auto found = parts_.find(name);
    if (found == parts_.end()) fail(ExitCode::input, "the model's weights have no tensor '{}'", name);
    if (found->second.size() == 1) return files_->read(found->second.front().tensor.name, box, out);
    const std::int64_t first = box.begin[0], rows = box.extent[0];
    const auto row_bytes = rows == 0 ? 0 : out.size() / static_cast<std::size_t>(rows);
    for (const FileTensor& part : found->second) {
      const std::int64_t begin = std::max(first, part.row);
      const std::int64_t end = std::min(first + rows, part.row + part.tensor.shape[0]);
      if (begin >= end) continue;
      files_->read(part.tensor.name, rows_at(box, begin - part.row, end - begin),
                   out.subspan(static_cast<std::size_t>(begin - first) * row_bytes,
                               static_cast<std::size_t>(end - begin) * row_bytes));
    }
  }

 private:
  std::unique_ptr<TensorSource> files_;
  std::vector<TensorDescription> list_;
  std::unordered_map<std::string, std::vector<FileTensor>> parts_;  // by stored name, ascending
};

/// Matrices out of their stacks.
class FileTensorSource : public TensorSource {
 public:
  FileTensorSource(std::unique_ptr<TensorSource> stored, std::vector<FileTensor> files) : stored_(std::move(stored)) {
    std::unordered_map<std::string, DType> types;
    for (const TensorDescription& tensor : stored_->list()) types.emplace(tensor.name, tensor.dtype);
    for (FileTensor& file : files) {
      list_.push_back({file.tensor.name, file.tensor.shape, types.at(file.stored)});
      files_.emplace(file.tensor.name, std::move(file));
    }
  }

  const std::vector<TensorDescription>& list() const override { return list_; }

  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    const auto found = files_.find(name);
    if (found == files_.end()) fail(ExitCode::input, "the model's weights have no tensor '{}'", name);
    const FileTensor& file = found->second;
    const bool has_rows = !box.extent.empty();
    stored_->read(file.stored, has_rows ? rows_at(box, box.begin[0] + file.row, box.extent[0]) : box, out);
  }

 private:
  std::unique_ptr<TensorSource> stored_;
  std::vector<TensorDescription> list_;
  std::unordered_map<std::string, FileTensor> files_;
};

}  // namespace

std::vector<FileTensor> file_tensors(const ModelConfig& config, const std::vector<LogicalTensor>& stored) {
  std::vector<FileTensor> files;
  for (const LogicalTensor& tensor : stored) {
    const std::vector<Matrix> matrices = matrices_of_expert(config, tensor.role);
    if (matrices.empty()) {
      files.push_back({tensor, tensor.name, 0});
      continue;
    }
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));  // "model.layers.0.mlp.experts"
    std::int64_t row = 0;
    for (std::int64_t expert = 0; expert < config.experts.count; ++expert) {
      for (const Matrix& matrix : matrices) {
        LogicalTensor part = tensor;
        part.name = fmt::format("{}.{}.{}.weight", module, expert, matrix.name);
        part.role = matrix.role;
        part.shape[0] = matrix.rows;
        files.push_back({std::move(part), tensor.name, row});
        row += matrix.rows;
      }
    }
  }
  return files;
}

namespace {

std::vector<TensorDescription> expected_in_files(const std::vector<FileTensor>& parts) {
  std::vector<TensorDescription> expected;
  for (const FileTensor& part : parts) expected.push_back({part.tensor.name, part.tensor.shape, DType::f32});
  return expected;
}

}  // namespace

std::unique_ptr<TensorSource> open_stored_weights(const Path& folder, const Architecture& architecture) {
  const std::vector<LogicalTensor> stored = stored_tensors(architecture);
  const std::vector<FileTensor> parts = file_tensors(architecture.config, stored);
  return std::make_unique<StackedSource>(open_model_weights(folder, expected_in_files(parts)), stored, parts);
}

WeightsReport examine_weights(const Path& folder) {
  WeightsReport report;
  if (!has_safetensors(folder)) return report;
  const ModelConfig config = read_hf_config(folder);
  report.head = head_in(folder, config);
  const Architecture architecture = describe(with_head(config, report.head));
  open_model_weights(folder, expected_in_files(file_tensors(architecture.config, stored_tensors(architecture))),
                     report.remarks);
  if (report.head == Head::own)
    report.remarks.warnings.push_back(
        fmt::format("{}: config.json ties the head to the embedding, but the files hold different values for them: "
                    "both are kept, as in transformers (tie_word_embeddings false in config.json has the same effect)",
                    folder.string()));
  return report;
}

std::unique_ptr<TensorSource> as_file_tensors(std::unique_ptr<TensorSource> stored, std::vector<FileTensor> files) {
  return std::make_unique<FileTensorSource>(std::move(stored), std::move(files));
}

}  // namespace lockstep
