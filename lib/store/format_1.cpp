#include "store/format_1.hpp"

#include "base/error.hpp"
#include "base/json_integer.hpp"
#include "layout/layout_json.hpp"
#include "store/hdf5_columns.hpp"

#include <algorithm>

namespace lockstep {

namespace {

StoredTensor tensor_from_json(const Json& value, const std::vector<Mesh>& meshes) {
  StoredTensor tensor;
  tensor.component = value.at("component");
  tensor.cell = value.value("cell", "");
  tensor.name = value.at("name");
  tensor.layout = layout_from_json(value, meshes, fmt::format("tensor '{}'", tensor.name));
  tensor.aliases = value.value("aliases", std::vector<std::string>{});
  tensor.fingerprint = fingerprint_from_hex(value.at("fingerprint").get<std::string>());
  return tensor;
}

}  // namespace

void add_format_1(const Json& document, Manifest& manifest) {
  std::vector<Mesh> meshes;
  for (const Json& mesh : document.at("meshes")) meshes.push_back(mesh_from_json(mesh, "a mesh"));
  if (meshes.empty()) fail(ExitCode::input, "no mesh is described");
  manifest.mesh = meshes.front();
  for (const auto& [name, number] : document.at("metrics").items()) {
    if (number.is_number()) manifest.metrics.push_back({name, number.get<double>()});
  }
  for (std::size_t i = 0; i < manifest.components.size(); ++i) {
    const Json& component = document.at("components").at(i);
    if (const auto cells = component.find("cells"); cells != component.end()) {
      for (const auto& [name, ranks] : cells->items())
        manifest.components[i].cells.emplace_back(name, integers_from<Rank>(ranks));
    }
  }
  for (const Json& file : document.at("files")) {
    manifest.files.push_back({.path = file.at("path"),
                              .bytes = integer_from<std::uint64_t>(file.at("bytes")),
                              .hash = hash_from_hex(file.at("hash").get<std::string>())});
  }
  for (const Json& tensor : document.at("tensors")) manifest.tensors.push_back(tensor_from_json(tensor, meshes));
  check_names(manifest);
}

std::vector<IndexedPiece> parse_piece_index(std::string_view content, const Path& origin) {
  const Hdf5File file = Hdf5File::open_image(content, origin);
  const auto tensors = read_column<std::uint32_t>(file, "/pieces/tensor", origin);
  const auto files = read_column<std::uint32_t>(file, "/pieces/file", origin);
  const auto offsets = read_column<std::uint64_t>(file, "/pieces/offset", origin);
  const auto fingerprints = read_column<std::uint64_t>(file, "/pieces/fingerprint", origin, 2);
  const auto first_box = read_column<std::uint64_t>(file, "/pieces/first_box", origin);
  const auto first_block = read_column<std::uint64_t>(file, "/pieces/first_block", origin);
  const auto boxes = read_column<std::int64_t>(file, "/boxes", origin);
  const auto blocks = read_column<std::uint64_t>(file, "/blocks", origin, 2);
  const std::size_t count = tensors.size();
  if (files.size() != count || offsets.size() != count || fingerprints.size() != 2 * count ||
      first_box.size() != count + 1 || first_block.size() != count + 1) {
    fail(ExitCode::input, "{}: the tables have different lengths", origin.string());
  }
  std::vector<IndexedPiece> pieces(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool ordered = first_box[i] <= first_box[i + 1] && first_box[i + 1] <= boxes.size() &&
                         first_block[i] <= first_block[i + 1] && first_block[i + 1] <= blocks.size() / 2;
    if (!ordered || (first_box[i + 1] - first_box[i]) % 2 != 0)
      fail(ExitCode::input, "{}: piece {} points outside of the tables", origin.string(), i);
    const std::size_t dims = (first_box[i + 1] - first_box[i]) / 2;
    const auto box = boxes.begin() + static_cast<std::ptrdiff_t>(first_box[i]);
    const auto middle = box + static_cast<std::ptrdiff_t>(dims);
    pieces[i].tensor = tensors[i];
    pieces[i].file = files[i];
    pieces[i].box = {Shape(box, middle), Shape(middle, middle + static_cast<std::ptrdiff_t>(dims))};
    pieces[i].record.offset = offsets[i];
    pieces[i].record.fingerprint = {fingerprints[2 * i], fingerprints[2 * i + 1]};
    for (std::size_t block = first_block[i]; block < first_block[i + 1]; ++block)
      pieces[i].record.blocks.push_back({blocks[2 * block], blocks[2 * block + 1]});
  }
  return pieces;
}

}  // namespace lockstep
