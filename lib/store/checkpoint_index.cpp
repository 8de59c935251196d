#include "store/checkpoint_index.hpp"

#include "base/error.hpp"
#include "base/json_form.hpp"
#include "base/json_integer.hpp"
#include "layout/layout_json.hpp"
#include "store/hdf5_columns.hpp"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace lockstep {

namespace {

using Numbers = std::vector<std::uint64_t>;

constexpr std::int64_t table_width = 2 * std::tuple_size_v<TableColumns>;

// Texts, each once, by number.
class Words {
 public:
  std::uint32_t number_of(const std::string& word) {
    const auto [known, is_new] = numbers_.try_emplace(word, static_cast<std::uint32_t>(words_.size()));
    if (is_new) words_.push_back(word);
    return known->second;
  }
  const std::vector<std::string>& list() const { return words_; }

 private:
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> words_;
};

// Numbers in ascending order as pairs of the first of a run and its length.
template <class Value>
void add_runs(Numbers& runs, const std::vector<Value>& values) {
  for (std::size_t i = 0; i < values.size();) {
    std::size_t length = 1;
    while (i + length < values.size() && values[i + length] == values[i] + static_cast<Value>(length)) ++length;
    runs.insert(runs.end(), {static_cast<std::uint64_t>(values[i]), length});
    i += length;
  }
}

void write_files(Hdf5File& index, const Manifest& manifest) {
  Json paths = Json::array();
  Numbers bytes, hashes, tables, table_hashes, first_writers{0}, writers;
  Words nodes;
  nodes.number_of("");
  std::vector<std::uint32_t> node;
  for (const StoredFile& file : manifest.files) {
    paths.push_back(file.path);
    bytes.push_back(file.bytes);
    hashes.insert(hashes.end(), {file.hash.high, file.hash.low});
    table_hashes.insert(table_hashes.end(), {file.table_hash.high, file.table_hash.low});
    for (const ByteRange& column : file.table) tables.insert(tables.end(), {column.offset, column.bytes});
    add_runs(writers, file.writers);
    first_writers.push_back(writers.size() / 2);
    node.push_back(nodes.number_of(file.node));
  }
  add_json(index, "/files/paths", paths);
  add_column(index, "/files/bytes", bytes);
  add_column(index, "/files/hash", hashes, 2);
  add_column(index, "/files/table_hash", table_hashes, 2);
  add_column(index, "/files/table", tables, table_width);
  add_column(index, "/files/first_writers", first_writers);
  add_column(index, "/files/node", node);
  add_column(index, "/writers", writers, 2);
  add_json(index, "/nodes", nodes.list());
}

std::vector<Mesh> meshes_of(const std::vector<StoredTensor>& tensors) {
  std::vector<Mesh> meshes;
  for (const StoredTensor& tensor : tensors) {
    const auto same = std::ranges::find(meshes, tensor.layout.mesh.id, &Mesh::id);
    if (same == meshes.end()) {
      meshes.push_back(tensor.layout.mesh);
    } else {
      invariant(*same == tensor.layout.mesh, fmt::format("the mesh '{}' is the same for all tensors", same->id));
    }
  }
  return meshes;
}

void write_tensors(Hdf5File& index, const Manifest& manifest) {
  Json names = Json::array(), layouts = Json::array(), aliases = Json::array(), meshes = Json::array();
  Words components, cells, layout_texts;
  cells.number_of("");
  std::vector<std::uint32_t> component, cell, layout;
  std::vector<std::uint8_t> by_layout, by_boxes;
  Numbers fingerprints, first_files{0}, files;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const StoredTensor& tensor = manifest.tensors[i];
    names.push_back(tensor.name);
    component.push_back(components.number_of(tensor.component));
    cell.push_back(cells.number_of(tensor.cell));
    const bool like_last = i > 0 && tensor.layout == manifest.tensors[i - 1].layout;
    layout.push_back(like_last ? layout.back() : layout_texts.number_of(to_text(to_json(tensor.layout))));
    by_layout.push_back(tensor.by_layout ? 1 : 0);
    by_boxes.push_back(tensor.holding == TensorHolding::boxes ? 1 : 0);
    fingerprints.insert(fingerprints.end(), {tensor.fingerprint.first, tensor.fingerprint.second});
    for (const FileRange& range : tensor.files) files.insert(files.end(), {range.first, range.count});
    first_files.push_back(files.size() / 2);
    for (const std::string& alias : tensor.aliases) aliases.push_back(Json::array({i, alias}));
  }
  for (const std::string& text : layout_texts.list()) layouts.push_back(parse_json(text, "a layout"));
  for (const Mesh& mesh : meshes_of(manifest.tensors)) meshes.push_back(to_json(mesh));
  add_json(index, "/tensors/names", names);
  add_column(index, "/tensors/component", component);
  add_column(index, "/tensors/cell", cell);
  add_column(index, "/tensors/layout", layout);
  add_column(index, "/tensors/by_layout", by_layout);
  add_column(index, "/tensors/by_boxes", by_boxes);
  add_column(index, "/tensors/fingerprint", fingerprints, 2);
  add_column(index, "/tensors/first_files", first_files);
  add_column(index, "/tensor_files", files, 2);
  add_json(index, "/components", components.list());
  add_json(index, "/cells", cells.list());
  add_json(index, "/layouts", layouts);
  add_json(index, "/meshes", meshes);
  add_json(index, "/aliases", aliases);
}

void need_rows(std::size_t found, std::size_t rows) {
  if (found != rows) fail(ExitCode::input, "its columns have different lengths");
}

template <class List, class Number>
const auto& at(const List& list, Number number) {
  if (number >= list.size()) fail(ExitCode::input, "a list has no row {}", number);
  return list[number];
}

std::vector<StoredFile> read_files(const Hdf5File& index, const Path& origin) {
  const auto paths = read_json(index, "/files/paths", origin).get<std::vector<std::string>>();
  const auto bytes = read_column<std::uint64_t>(index, "/files/bytes", origin);
  const auto hashes = read_column<std::uint64_t>(index, "/files/hash", origin, 2);
  const auto table_hashes = read_column<std::uint64_t>(index, "/files/table_hash", origin, 2);
  const auto tables = read_column<std::uint64_t>(index, "/files/table", origin, table_width);
  const auto first_writers = read_column<std::uint64_t>(index, "/files/first_writers", origin);
  const auto node = read_column<std::uint32_t>(index, "/files/node", origin);
  const auto writers = read_column<std::uint64_t>(index, "/writers", origin, 2);
  const auto nodes = read_json(index, "/nodes", origin).get<std::vector<std::string>>();
  for (const std::size_t rows :
       {bytes.size(), hashes.size() / 2, table_hashes.size() / 2, tables.size() / table_width, node.size()})
    need_rows(rows, paths.size());
  need_rows(first_writers.size(), paths.size() + 1);
  std::vector<StoredFile> files;
  constexpr std::uint64_t most = 1 << 24;  // writers: a damaged number must not become an allocation
  std::uint64_t left = most;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    files.push_back({.path = paths[i],
                     .bytes = bytes[i],
                     .hash = {hashes[2 * i], hashes[2 * i + 1]},
                     .table_hash = {table_hashes[2 * i], table_hashes[2 * i + 1]},
                     .node = at(nodes, node[i])});
    for (std::size_t column = 0; column < files.back().table.size(); ++column) {
      ByteRange& place = files.back().table[column];
      place = {tables[i * table_width + 2 * column], tables[i * table_width + 2 * column + 1]};
      if (place.offset > bytes[i] || place.bytes > bytes[i] - place.offset)
        fail(ExitCode::input, "the table of {} lies outside the file", paths[i]);
    }
    const auto [begin, end] = column_range(first_writers, i, writers.size() / 2);
    for (std::size_t run = begin; run < end; ++run) {
      if (writers[2 * run] > most || writers[2 * run + 1] > left)
        fail(ExitCode::input, "the ranks that wrote {} are out of range", paths[i]);
      left -= writers[2 * run + 1];
      for (std::uint64_t k = 0; k < writers[2 * run + 1]; ++k)
        files.back().writers.push_back(static_cast<Rank>(writers[2 * run] + k));
    }
  }
  return files;
}

std::vector<Layout> read_layouts(const Hdf5File& index, const Path& origin) {
  std::vector<Mesh> meshes;
  for (const Json& mesh : read_json(index, "/meshes", origin)) meshes.push_back(mesh_from_json(mesh, "a mesh"));
  std::vector<Layout> layouts;
  for (const Json& layout : read_json(index, "/layouts", origin))
    layouts.push_back(layout_from_json(layout, meshes, "a layout"));
  return layouts;
}

std::vector<StoredTensor> read_tensors(const Hdf5File& index, const Manifest& manifest, const Path& origin) {
  const auto names = read_json(index, "/tensors/names", origin).get<std::vector<std::string>>();
  const auto component = read_column<std::uint32_t>(index, "/tensors/component", origin);
  const auto cell = read_column<std::uint32_t>(index, "/tensors/cell", origin);
  const auto layout = read_column<std::uint32_t>(index, "/tensors/layout", origin);
  const auto by_layout = read_column<std::uint8_t>(index, "/tensors/by_layout", origin);
  const auto by_boxes = read_column<std::uint8_t>(index, "/tensors/by_boxes", origin);
  const auto fingerprints = read_column<std::uint64_t>(index, "/tensors/fingerprint", origin, 2);
  const auto first_files = read_column<std::uint64_t>(index, "/tensors/first_files", origin);
  const auto files = read_column<std::uint64_t>(index, "/tensor_files", origin, 2);
  const auto components = read_json(index, "/components", origin).get<std::vector<std::string>>();
  const auto cells = read_json(index, "/cells", origin).get<std::vector<std::string>>();
  const std::vector<Layout> layouts = read_layouts(index, origin);
  for (const std::size_t rows :
       {component.size(), cell.size(), layout.size(), by_layout.size(), by_boxes.size(), fingerprints.size() / 2})
    need_rows(rows, names.size());
  need_rows(first_files.size(), names.size() + 1);
  std::vector<StoredTensor> tensors;
  tensors.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    tensors.push_back({.component = at(components, component[i]),
                       .cell = at(cells, cell[i]),
                       .name = names[i],
                       .layout = at(layouts, layout[i]),
                       .fingerprint = {fingerprints[2 * i], fingerprints[2 * i + 1]},
                       .by_layout = by_layout[i] != 0,
                       .holding = by_boxes[i] != 0 ? TensorHolding::boxes : TensorHolding::layout});
    const auto [begin, end] = column_range(first_files, i, files.size() / 2);
    for (std::size_t run = begin; run < end; ++run) {
      const FileRange range{files[2 * run], files[2 * run + 1]};
      if (range.first > manifest.files.size() || range.count > manifest.files.size() - range.first)
        fail(ExitCode::input, "'{}' refers to files that are not listed", names[i]);
      tensors.back().files.push_back(range);
    }
  }
  for (const Json& entry : read_json(index, "/aliases", origin)) {
    const auto number = integer_from<std::uint64_t>(entry.at(0), "the tensor of an alias");
    if (number >= tensors.size()) fail(ExitCode::input, "an alias refers to a tensor that does not exist");
    tensors[number].aliases.push_back(entry.at(1));
  }
  return tensors;
}

}  // namespace

void write_index(const Path& path, const Manifest& manifest) {
  Hdf5File index = Hdf5File::create(path);
  index.set_attribute("/", "format", "lockstep.index");
  index.set_attribute("/", "version", 2);
  write_files(index, manifest);
  write_tensors(index, manifest);
  index.close();
  sync_file(open_file(path, O_RDONLY), path);
}

void add_index(Manifest& manifest, std::string_view content, const Path& origin) {
  const StoredFile self = index_of(manifest);
  if (hash128(content) != self.hash)
    fail(ExitCode::input, "{}: its content does not match the hash in the manifest", origin.string());
  if (manifest.format == 1) return;
  const Hdf5File index = Hdf5File::open_image(content, origin);
  try {
    manifest.files = read_files(index, origin);
    manifest.tensors = read_tensors(index, manifest, origin);
    manifest.files.push_back(self);
    check_names(manifest);
  } catch (const Error& error) {  // some name it already
    const bool named = std::string_view(error.what()).find(origin.string()) != std::string_view::npos;
    throw Error(error.code(), named ? error.what() : fmt::format("{}: {}", origin.string(), error.what()),
                error.hint());
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::input, "{}: malformed: {}", origin.string(), form_problem(error));
  }
}

}  // namespace lockstep
