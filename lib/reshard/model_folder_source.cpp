#include "reshard/model_folder_source.hpp"

#include "base/json.hpp"
#include "base/rounding.hpp"
#include "exchange/file_tensors.hpp"
#include "reshard/made_from.hpp"
#include "reshard/model_layouts.hpp"
#include "store/tensor_source.hpp"

#include <algorithm>
#include <map>

namespace lockstep {

namespace {

/// The names of tied tensors by that of the one that is stored.
std::map<std::string, std::vector<std::string>> aliases_in(const Architecture& architecture) {
  std::map<std::string, std::vector<std::string>> aliases;
  for (const BlockDescription& block : architecture.blocks)
    for (const LogicalTensor& tensor : block.tensors)
      if (!tensor.alias_of.empty()) aliases[tensor.alias_of].push_back(tensor.name);
  return aliases;
}

/// What a job of one rank would say of its model, had it these weights.
Manifest manifest_of(const Path& folder, const ModelConfig& config, const Architecture& architecture,
                     const TensorSource& weights) {
  Manifest manifest;
  manifest.mesh = job_mesh({}, 1);
  StoredComponent component{.key = "model"};
  add_cells(component, world_of(manifest));
  manifest.components = {std::move(component)};
  const std::map<std::string, Layout> layouts = model_layouts({config}, manifest.mesh, {});
  const auto aliases = aliases_in(architecture);
  for (const TensorDescription& tensor : weights.list()) {
    StoredTensor stored{
        .component = "model", .name = tensor.name, .layout = like(layouts.at(tensor.name), tensor.dtype)};
    if (const auto found = aliases.find(tensor.name); found != aliases.end()) stored.aliases = found->second;
    manifest.tensors.push_back(std::move(stored));
  }
  manifest.documents = {{"config.json", to_text(*config.original)}};
  if (const auto generation = generation_config_in(folder))
    manifest.documents.emplace_back(generation_config_file, *generation);
  return manifest;
}

/// How many elements of a tensor of shape `stored` are read for one of a box of it seen as `as`: of another view whole
/// rows are. 0 if none are besides.
std::uint64_t spread_of(const Shape& stored, const Shape& as, const Box& box) {
  if (stored == as) return 0;
  const std::int64_t rows = std::max<std::int64_t>(as.empty() ? 1 : as[0], 1);
  const std::int64_t own_rows = std::max<std::int64_t>(box.extent.empty() ? 1 : box.extent[0], 1);
  const std::int64_t row = elements(as) / rows, own_row = std::max<std::int64_t>(elements(box) / own_rows, 1);
  return static_cast<std::uint64_t>(ceil_div(row, own_row));
}

class ModelFolderSource final : public StateSource {
 public:
  ModelFolderSource(const Path& folder, Head head) : folder_(folder) {
    const ModelConfig config = with_head(read_hf_config(folder), head);
    const Architecture architecture = describe(config);
    weights_ = open_stored_weights(folder, architecture);
    manifest_ = manifest_of(folder, config, architecture, *weights_);
    add_made_from(manifest_, "import", {origin()});
  }

  std::string name() const override { return folder_.string(); }
  Json origin() const override { return {{"path", absolute_path(folder_).string()}}; }
  const Manifest& manifest() const override { return manifest_; }
  bool has_fingerprint(std::size_t) const override { return false; }
  std::string trainer_values() const override { return {}; }
  DType read_type(std::size_t tensor) const override { return manifest_.tensors[tensor].layout.dtype; }
  void read(std::size_t tensor, const Shape& as, std::span<const StateBox> boxes) const override {
    const TensorDescription& stored = weights_->list()[tensor];
    for (const StateBox& wanted : boxes)
      read_view(stored, as, wanted.box, wanted.bytes,
                [&](const Box& own, std::span<std::byte> bytes) { weights_->read(stored.name, own, bytes); });
  }
  std::uint64_t working_bytes(std::size_t tensor, const Shape& as, const Box& box) const override {
    const TensorDescription& stored = weights_->list()[tensor];
    return spread_of(stored.shape, as, box) * static_cast<std::uint64_t>(size_of(stored.dtype));
  }
  int blocks() const override { return 0; }  // the files are mapped

 private:
  Path folder_;
  std::unique_ptr<TensorSource> weights_;  // its list is that of the manifest's tensors
  Manifest manifest_;
};

}  // namespace

std::unique_ptr<StateSource> open_model_folder(const Path& folder, Head head) {
  return std::make_unique<ModelFolderSource>(folder, head);
}

}  // namespace lockstep
