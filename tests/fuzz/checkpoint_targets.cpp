// The files of checkpoints, as this program writes them and as it wrote them before, and the names in a folder of
// checkpoints.
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "fuzz/targets.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "layout/box_runs.hpp"
#include "store/checkpoint_index.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/hdf5.hpp"
#include "store/inspect.hpp"
#include "store/part_table.hpp"
#include "store/retention.hpp"
#include "store/run_directory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

namespace lockstep::test {

namespace {

constexpr std::string_view some_part = "per_group/part-0000.h5";  // of make_checkpoint

/// A run with one checkpoint, saved by two ranks on two nodes: tensors that are cut, that all ranks hold and that each
/// has of its own; the checkpoint's folder.
Path make_checkpoint(const Path& run) {
  Path path;
  on_ranks(2, [&](Communicator& ranks) {
    const World world{make_mesh("world", {{"dp_shard", 2}}), {0, 1}, {"first", "second"}};
    Job job(world, ranks.rank(), sharded_model(world.mesh), Pattern::per_group);
    job.advance_to(7);
    std::vector<Component> components = job.components();
    components.push_back(job.rng_component());
    SaveRequest request = job.request(run);
    request.metrics = {{"validation_loss", 1.5}};
    request.documents = {{"config.yaml", "model:\n  path: tiny\n"}};
    const SaveReport report = save(ranks, components, request);
    if (ranks.rank() == 0) path = report.path;
  });
  return path;
}

/// A checkpoint that an older version wrote.
Path copy_format_1(const Path& run) {
  make_folder(run);
  const Path folder = run / "step-0000000005";
  std::filesystem::copy(Path(LOCKSTEP_TEST_DATA) / "format-1/state", folder, std::filesystem::copy_options::recursive);
  return folder;
}

/// All that inspection, verification, resharding and export ask of a checkpoint.
void read_checkpoint(const Path& folder) {
  (void)verify_checkpoint(folder, VerifyLevel::fingerprints);  // never throws for damage
  const CheckpointReader reader(folder);
  (void)summarise(reader);
  (void)show_tree(reader);
  (void)show_components(reader);
  (void)show_layouts(reader);
  (void)show_config(reader);
  for (const TensorDescription& tensor : reader.list()) {
    const std::int64_t bytes = elements(tensor.shape) * size_of(tensor.dtype);
    if (bytes > 1 << 20) continue;  // a caller that has no room for a tensor does not ask for it whole
    std::vector<std::byte> content(static_cast<std::size_t>(bytes));
    reader.read(tensor.name, whole(tensor.shape), content);
    (void)show_tensor(reader, tensor.name);
    (void)show_holders(reader, tensor.name);
    if (tensor.shape.empty() || tensor.shape.front() < 2) continue;
    const Box row = rows_of(whole(tensor.shape), 1, 1);  // lies in some of the parts
    content.resize(static_cast<std::size_t>(elements(row) * size_of(tensor.dtype)));
    reader.read(tensor.name, row, content);
  }
  for (const StoredComponent& component : reader.manifest().components) (void)show_tensor(reader, component.key);
  (void)compare(reader, reader);
}

std::string with_own_hash(std::string text, Dice&) {
  const std::size_t at = text.rfind(",\n \"hash\": \"");
  const std::string body = at == std::string::npos ? text.substr(0, text.rfind('}')) : text.substr(0, at);
  return body + ",\n \"hash\": \"" + to_hex(hash128(body)) + "\"\n}\n";
}

/// A mutated tree is compact or indented otherwise; the hash is found as a member.
std::string with_manifest_hash(std::string text, Dice& dice) {
  Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) return with_own_hash(std::move(text), dice);
  document.erase("hash");
  std::string body = to_text(document, 1);
  if (body.size() > 2) body.resize(body.size() - 2);
  return with_own_hash(body + ",\n \"hash\": \"\"\n}\n", dice);
}

/// The entry of a file, which is listed.
StoredFile& file_of(Manifest& manifest, std::string_view path) {
  const auto listed = std::ranges::find(manifest.files, path, &StoredFile::path);
  require(listed != manifest.files.end(), fmt::format("the checkpoint has a file {}", path));
  return *listed;
}

/// The manifest says which bytes INDEX.h5 now has.
void fit_manifest(const Path& folder, Manifest& manifest) {
  const std::string index = read_file(folder / index_file);
  StoredFile& entry = file_of(manifest, index_file);
  entry.bytes = index.size();
  entry.hash = hash128(index);
  put_file(folder / manifest_file, manifest_text(manifest));
}

/// INDEX.h5 says what `manifest` does of the other files.
void fit_index(const Path& folder, Manifest& manifest) {
  Manifest listed = manifest;
  std::erase_if(listed.files, [](const StoredFile& file) { return file.path == index_file; });
  std::filesystem::remove(folder / index_file);
  write_index(folder / index_file, listed);
  fit_manifest(folder, manifest);
}

Target manifest_target(const Path& run) {
  const Path folder = make_checkpoint(run);
  Target target{.name = "MANIFEST.json",
                .seeds = {read_file(folder / manifest_file)},
                .words = {"per_rank", "per_node", "dp_replicate", "rank=0", "../../etc", "INDEX.h5", "higher",
                          "\"equal_along\": [\"dp_shard\"],", "\"expert_axes\": [],", "/"},
                .names = {folder.string()},
                .seal = with_manifest_hash,
                .read = {}};
  refuse(target, "/mesh/axes/0/size", std::int64_t{1} << 31);
  refuse(target, "/mesh/axes/0/size", (std::int64_t{1} << 32) + 2);
  refuse(target, "/mesh/axes/0/size", 0);
  refuse(target, "/mesh/axes/0/size", 2147483647);
  refuse(target, "/nodes/0/ranks", Json::array({Json::array({0, 1}), Json::array({0, 1})}));
  refuse(target, "/nodes/0/ranks", Json::array({Json::array({0, 3})}));
  refuse(target, "/nodes/0/ranks", Json::array({Json::array({2147483647, 1})}));
  refuse(target, "/nodes/0/ranks", Json::array({Json::array({-1, 1})}));
  refuse(target, "/nodes/0/ranks", Json::array({0}));
  refuse(target, "/components/1/pattern", "everywhere");
  refuse(target, "/step", 7.5);
  refuse(target, "/version", 3);
  refuse(target, "/requires", Json::array({"x"}));
  refuse(target, "/block_bytes", 4096);
  refuse(target, "/hash_algorithm", "md5");
  refuse(target, "/state_digest", "x");
  refuse(target, "/metrics/validation_loss/better", "sideways");
  refuse(target, "/index/path", "../MANIFEST.json");
  refuse(target, "/index/bytes", -1);
  refuse(target, "/index/hash", 7);
  target.read = [folder](const std::string& text) {
    put_file(folder / manifest_file, text);
    const std::string printed = manifest_text(parse_manifest(text, (folder / manifest_file).string()));
    require(manifest_text(parse_manifest(printed, "as printed")) == printed, "a manifest reads back as another");
    read_checkpoint(folder);
  };
  return target;
}

/// INDEX.h5 as other programs might have made it or damage has left it; the manifest says what its bytes now are.
Target index_file_target(const Path& run) {
  const Path folder = make_checkpoint(run);
  const Path index = folder / index_file;
  const std::string sound = read_file(index);
  std::vector<std::string> objects;
  for (const Hdf5Dataset& column : Hdf5File::open(index).datasets()) objects.push_back(column.path);
  Target target{.name = "INDEX.h5",
                .seeds = {sound},
                .names = {folder.string()},
                .made = either(damaged_headers(sound), either(strange_object(run / "made.h5", sound, objects),
                                                              strange_hdf5(run / "made.h5", objects))),
                .read = {}};
  target.read = [folder, index, manifest = read_manifest(folder)](const std::string& bytes) mutable {
    put_file(index, bytes);
    fit_manifest(folder, manifest);
    read_checkpoint(folder);
  };
  return target;
}

/// The same of a part. Where its table lies is said by INDEX.h5, and no longer true.
Target part_file_target(const Path& run) {
  const Path folder = make_checkpoint(run);
  const std::string sound = read_file(folder / some_part);
  const std::vector<std::string> objects{"/_index/tensors", "/_index/offset", "/_index/blocks", "/packed/fp32"};
  Target target{.name = "part file",
                .seeds = {sound},
                .names = {folder.string()},
                .made = either(damaged_headers(sound), either(strange_object(run / "made.h5", sound, objects),
                                                              strange_hdf5(run / "made.h5", objects))),
                .read = {}};
  target.read = [folder, manifest = read_manifest(folder)](const std::string& bytes) mutable {
    put_file(folder / some_part, bytes);
    StoredFile& part = file_of(manifest, some_part);
    part.bytes = bytes.size();
    part.hash = hash128(bytes);
    fit_index(folder, manifest);
    read_checkpoint(folder);
  };
  return target;
}

/// A column of an HDF5 file, to be damaged number by number or, where it is JSON, as that.
struct Column {
  std::string path;
  DType dtype = DType::u8;
  std::int64_t width = 1;  // numbers in a row
  bool is_text = false;
};

std::vector<Column> columns_of(const Path& path, const std::string& group) {
  const Hdf5File file = Hdf5File::open(path);
  std::vector<Column> columns;
  for (const Hdf5Dataset& dataset : file.datasets(group)) {
    const bool is_text = dataset.dtype == DType::u8 && Json::accept(file.read_text(dataset.path));
    columns.push_back({dataset.path, dataset.dtype, dataset.shape.size() == 1 ? 1 : dataset.shape.back(), is_text});
  }
  return columns;
}

/// A JSON object, by path: what is JSON as it is, else the numbers.
std::string content_of(const Path& path, const std::vector<Column>& columns) {
  const Hdf5File file = Hdf5File::open(path);
  Json content = Json::object();
  for (const Column& column : columns) {
    std::string bytes(file.dataset(column.path).bytes, '\0');
    file.read(column.path, std::as_writable_bytes(std::span(bytes)));
    if (column.is_text) {
      content[column.path] = Json::parse(bytes);
      continue;
    }
    Json& list = content[column.path] = Json::array();
    const auto size = static_cast<std::size_t>(size_of(column.dtype));
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      std::uint64_t number = 0;
      std::memcpy(&number, bytes.data() + at, size);
      list.push_back(column.dtype == DType::i64 ? Json(static_cast<std::int64_t>(number)) : Json(number));
    }
  }
  return to_text(content, 1);
}

std::uint64_t as_integer(const Json& value) {
  if (value.is_number_float())
    return std::abs(value.get<double>()) < 1e18 ? static_cast<std::uint64_t>(value.get<std::int64_t>()) : 0;
  return value.is_number() ? value.get<std::uint64_t>() : 0;
}

/// The bytes of a column of these numbers, whatever they are; nothing where there is no list.
std::optional<std::string> bytes_of(const Column& column, const Json& content) {
  if (!content.is_object() || !content.contains(column.path)) return std::nullopt;
  const Json& values = content[column.path];
  if (column.is_text) return to_text(values);
  if (!values.is_array()) return std::nullopt;
  const auto size = static_cast<std::size_t>(size_of(column.dtype));
  const auto width = static_cast<std::size_t>(column.width);
  std::string bytes(values.size() / width * width * size, '\0');
  for (std::size_t i = 0; i < bytes.size() / size; ++i) {
    const std::uint64_t number = as_integer(values[i]);
    std::memcpy(bytes.data() + i * size, &number, size);
  }
  return bytes;
}

/// A sound HDF5 file of these columns; what is no list is left out.
void write_columns(const Path& path, const std::vector<Column>& columns, const Json& content) {
  std::filesystem::remove(path);
  Hdf5File file = Hdf5File::create(path);
  for (const Column& column : columns) {
    const std::optional<std::string> bytes = bytes_of(column, content);
    if (!bytes) continue;
    const std::int64_t rows = std::ssize(*bytes) / size_of(column.dtype) / column.width;
    file.add(column.path, column.dtype, column.width == 1 ? Shape{rows} : Shape{rows, column.width},
             std::as_bytes(std::span(*bytes)));
  }
  file.close();
}

/// An index of wrong numbers and texts, with a hash that fits.
Target index_columns_target(const Path& run) {
  const Path folder = make_checkpoint(run);
  const Path index = folder / index_file;
  const std::vector<Column> columns = columns_of(index, "/");
  Target target{.name = "columns of INDEX.h5",
                .seeds = {content_of(index, columns)},
                .words = {"dp_shard", "rank=0", "../../etc", "INDEX.h5", "_values", "f64", "bf16", "world", "/"},
                .names = {folder.string()},
                .seal = [](std::string text, Dice&) { return text; },
                .read = {}};
  refuse(target, "/~1files~1paths/0", "../MANIFEST.json");
  refuse(target, "/~1files~1bytes/0", 1);  // the table lies behind it
  refuse(target, "/~1files~1first_writers/1", 99);
  refuse(target, "/~1files~1node/0", 1);
  refuse(target, "/~1writers/1", std::int64_t{1} << 32);
  refuse(target, "/~1tensors~1component/0", 99);
  refuse(target, "/~1tensors~1layout/0", 99);
  refuse(target, "/~1tensors~1names/1", "wte.weight");
  refuse(target, "/~1tensor_files/0", 99);
  refuse(target, "/~1tensor_files/1", -1);
  refuse(target, "/~1layouts/0/global", Json::array({std::int64_t{1} << 40, std::int64_t{1} << 40}));
  refuse(target, "/~1layouts/0/splits/0/dim", 2);
  refuse(target, "/~1meshes/0/axes/0/size", std::int64_t{1} << 31);
  refuse(target, "/~1aliases/0/0", 99);
  refuse(target, "/~1meshes/0/axes/0/size", 2147483647);
  refuse(target, "/~1meshes/0/axes/0/stride", 16);  // some of the tensor is held by no rank
  Json runs = Json::array();
  for (int i = 0; i < 5; ++i) runs.insert(runs.end(), {0, 1 << 24});
  refuse(target, "/~1writers", runs);
  Json beyond = Json::parse(target.seeds.front());  // a part that is said to be long, and so its table
  beyond["/files/bytes"][0] = std::int64_t{1} << 62;
  beyond["/files/table"][1] = std::int64_t{1} << 61;
  target.refused.push_back(to_text(beyond));
  beyond["/files/table"][1] = std::int64_t{1} << 33;
  target.refused.push_back(to_text(beyond));
  target.read = [folder, index, columns, manifest = read_manifest(folder)](const std::string& text) mutable {
    write_columns(index, columns, Json::parse(text, nullptr, false));
    fit_manifest(folder, manifest);
    read_checkpoint(folder);
  };
  return target;
}

/// As a table has them (store/part_table.hpp).
constexpr std::array<const char*, std::tuple_size_v<TableColumns>> table_columns{
    "/_index/tensors",   "/_index/tensor",      "/_index/first_box",    "/_index/boxes", "/_index/offset",
    "/_index/packed_at", "/_index/first_block", "/_index/fingerprints", "/_index/blocks"};

/// A part with another table, which lies behind all else that it has; index and manifest say where, and its hash.
Target part_table_target(const Path& run) {
  const Path folder = make_checkpoint(run);
  std::vector<Column> columns = columns_of(folder / some_part, "/_index");
  std::ranges::sort(columns, {}, [](const Column& column) { return std::ranges::find(table_columns, column.path); });
  require(std::ranges::equal(columns, table_columns, {}, &Column::path), "a table has these columns");
  Target target{.name = "table of a part",
                .seeds = {content_of(folder / some_part, columns)},
                .words = {"bf16", "model/wte.weight", "rank=0/rng/state"},
                .names = {folder.string()},
                .seal = [](std::string text, Dice&) { return text; },
                .read = {}};
  refuse(target, "/~1_index~1tensors/0/0", "nobody");
  refuse(target, "/~1_index~1tensors/0/1/0", std::int64_t{1} << 40);
  refuse(target, "/~1_index~1tensors/0/2", "fp9");
  refuse(target, "/~1_index~1tensor/0", 99);
  refuse(target, "/~1_index~1first_box/1", 3);
  refuse(target, "/~1_index~1boxes/0", -1);
  refuse(target, "/~1_index~1boxes/2", std::int64_t{1} << 62);
  refuse(target, "/~1_index~1offset/0", -1);
  refuse(target, "/~1_index~1first_block/1", 0);
  refuse(target, "/~1_index~1blocks/0", 7);
  refuse(target, "/~1_index~1packed_at/0", 9223372036854775807);
  refuse(target, "/~1_index~1packed_at/0", -2);
  target.read = [folder, columns, sound = read_file(folder / some_part),
                 manifest = read_manifest(folder)](const std::string& text) mutable {
    const Json content = Json::parse(text, nullptr, false);
    StoredFile& part = file_of(manifest, some_part);
    std::string bytes = sound;
    StreamHash hash;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string column = bytes_of(columns[i], content).value_or("");
      part.table[i] = {bytes.size(), column.size()};
      bytes += column;
      hash.add(column);
    }
    part.table_hash = hash.digest();
    part.bytes = bytes.size();
    part.hash = hash128(bytes);
    put_file(folder / some_part, bytes);
    fit_index(folder, manifest);
    read_checkpoint(folder);
  };
  return target;
}

Target format_1_manifest_target(const Path& run) {
  const Path folder = copy_format_1(run);
  Target target{.name = "manifest of format 1",
                .seeds = {read_file(folder / manifest_file)},
                .words = {"per_rank", "dp_replicate", "rank=0", "../../etc", "INDEX.h5", "_values",
                          "\"aliases\": [\"x\"],", "f64", "bf16", "/"},
                .names = {folder.string()},
                .seal = with_manifest_hash,
                .read = {}};
  refuse(target, "/tensors/0/component", "nobody");
  refuse(target, "/tensors/0/global", Json::array({std::int64_t{1} << 40, std::int64_t{1} << 40}));
  refuse(target, "/tensors/0/fingerprint", "x");
  refuse(target, "/files/0/path", "../MANIFEST.json");
  refuse(target, "/files/0/hash", 7);
  refuse(target, "/meshes/0/axes/0/size", std::int64_t{1} << 31);
  refuse(target, "/meshes/0/axes/0/size", (std::int64_t{1} << 32) + 2);
  refuse(target, "/step", 7.5);
  refuse(target, "/files/0/bytes", -1);
  refuse(target, "/tensors/1", Json::parse(target.seeds.front())["tensors"][0]);
  refuse(target, "/meshes/0/axes/0/size", 2147483647);
  target.read = [folder](const std::string& text) {
    put_file(folder / manifest_file, text);
    read_checkpoint(folder);
  };
  return target;
}

/// An index of format 1 with wrong numbers, and hashes that fit.
Target format_1_index_target(const Path& run) {
  const Path folder = copy_format_1(run);
  const Path index = folder / index_file;
  const std::vector<Column> columns = columns_of(index, "/");
  Target target{.name = "columns of an index of format 1",
                .seeds = {content_of(index, columns)},
                .names = {folder.string()},
                .read = {}};
  target.read = [folder, index, columns,
                 manifest = Json::parse(read_file(folder / manifest_file))](const std::string& text) mutable {
    write_columns(index, columns, Json::parse(text, nullptr, false));
    const std::string bytes = read_file(index);
    Json& entry = *std::ranges::find(manifest["files"], index_file, [](const Json& file) { return file["path"]; });
    entry["bytes"] = bytes.size();
    entry["hash"] = to_hex(hash128(bytes));
    Dice dice(0, "sealed", 0);
    put_file(folder / manifest_file, with_manifest_hash(to_text(manifest), dice));
    read_checkpoint(folder);
  };
  return target;
}

/// Lines are names below RUN/checkpoints; the folder's owner finds, chooses and retires what is there.
Target run_directory_target(const Path& run) {
  const Path checkpoint = make_checkpoint(run / "sound");
  Target target{
      .name = "names in a run's folder",
      .seeds = {"step-0000000007\nstep-0000000009\nLATEST\n.stage-0000000012-abc\n.failed-0000000003-x\n.trash-step-"
                "0000000001-y\n"},
      .words = {"step-99999999999999999999\n", "step--1\n", "step-\n", "step-7 \n", "..\n", "step-0000000007\n"},
      .share = 0.1,
      .read = {}};
  target.read = [run, checkpoint](const std::string& text) {
    const Path made = run / "made";
    std::filesystem::remove_all(made);
    make_folder(checkpoints_folder(made));
    const std::vector<std::string> names = split(text, '\n');
    for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 12); ++i) {
      std::error_code refused;  // by the system: too long, a slash, taken
      const Path path = checkpoints_folder(made) / names[i].substr(0, names[i].find('\0'));
      if (names[i].empty() || names[i].find('/') != std::string::npos || names[i] == "." || names[i] == "..") continue;
      if (i % 3 == 2) {
        std::filesystem::copy(checkpoint / manifest_file, path, refused);
      } else {
        std::filesystem::create_directory(path, refused);
        if (i % 3 == 0 && !refused)
          std::filesystem::copy(checkpoint, path, std::filesystem::copy_options::recursive, refused);
      }
    }
    const auto judge = [](const Path& path) { return judge_checkpoint(path, VerifyLevel::sizes); };
    const Found newest = first_sound(newest_first(list_checkpoints(made)), judge);
    try {
      (void)best_first(list_checkpoints(made), {});
    } catch (const Error& error) {  // of a folder without a manifest
      require(error.code() == ExitCode::storage, error.what());
    }
    (void)list_run(made);
    (void)prune(made, {.keep_last = 1});
    const Found kept = first_sound(newest_first(list_checkpoints(made)), judge);
    require(newest.checkpoint.has_value() == kept.checkpoint.has_value(),
            "retiring old checkpoints took the newest sound one");
  };
  return target;
}

}  // namespace

std::vector<Target> checkpoint_targets(const Path& folder) {
  return {manifest_target(folder / "manifest"),      index_file_target(folder / "index"),
          index_columns_target(folder / "columns"),  part_file_target(folder / "part"),
          part_table_target(folder / "table"),       format_1_manifest_target(folder / "manifest-1"),
          format_1_index_target(folder / "index-1"), run_directory_target(folder / "run")};
}

}  // namespace lockstep::test
