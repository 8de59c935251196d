// The files of datasets and checkpoints, and the names in a folder of checkpoints.
#include "base/json.hpp"
#include "base/text.hpp"
#include "fuzz/targets.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/hdf5.hpp"
#include "store/inspect.hpp"
#include "store/part_file.hpp"
#include "store/retention.hpp"
#include "store/run_directory.hpp"
#include "store/token_shards.hpp"
#include "store/trash.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace lockstep::test {

namespace {

/// A dataset of two shards and a validation split of one; its manifest.
DatasetManifest make_dataset(const Path& folder) {
  DatasetManifest manifest;
  manifest.tokenizer = "bytes";
  manifest.vocabulary = 257;
  manifest.end_of_text = 256;
  manifest.shard_tokens = 600;
  manifest.options = R"({"text_field": "text"})";
  for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
    SplitEntry& entry = split == DataSplit::train ? manifest.train : manifest.validation;
    make_folder(folder / name_of(split));
    for (const std::int64_t tokens :
         split == DataSplit::train ? std::vector<std::int64_t>{600, 50} : std::vector<std::int64_t>{40}) {
      const std::string file = fmt::format("{}/tokens-{:05}.h5", name_of(split), entry.shards.size());
      ShardWriter writer(folder / file, manifest.token_bytes(), tokens, 2);
      const std::vector<std::uint32_t> ids(static_cast<std::size_t>(tokens / 2), 65);
      for (int document = 0; document < 2; ++document) {
        writer.start_document();
        writer.append(ids);
      }
      entry.shards.push_back(writer.finish());
      entry.shards.back().file = file;
      entry.tokens += tokens;
      entry.documents += 2;
    }
  }
  return manifest;
}

/// Everything that training asks of a stream.
void read_stream(const Path& folder, const DatasetManifest& manifest, DataSplit split) {
  const TokenStream stream(folder, manifest, split);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(stream.tokens()));
  stream.copy(0, ids);
  for (const std::int32_t id : ids)
    require(id >= 0 && id < manifest.vocabulary,
            fmt::format("the stream holds the id {}, and ids end at {}", id, manifest.vocabulary));
  std::int64_t before = -1;
  const std::vector<std::int64_t> starts = stream.document_starts(0, stream.tokens());
  for (const std::int64_t start : starts) {
    require(start > before && start < stream.tokens(),
            "a document starts outside the stream, or they are out of order");
    before = start;
  }
  for (std::int64_t shard = 0; shard < stream.shards(); ++shard) stream.verify_shard(shard);
}

std::string with_self_hash(std::string text, Dice&) {
  Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) return text;
  document.erase("self_hash");
  document["self_hash"] = to_hex(hash128(to_text(document)));
  return to_text(document, 2);
}

/// A document with one member changed, sealed.
std::string changed(const std::string& text, const std::string& pointer, const Json& value,
                    std::string (*seal)(std::string, Dice&)) {
  Json document = Json::parse(text);
  document[Json::json_pointer(pointer)] = value;
  Dice dice(0, "changed", 0);
  return seal(to_text(document, 1), dice);
}

Target dataset_manifest_target(const Path& folder) {
  const DatasetManifest manifest = make_dataset(folder);
  Target target{.name = "DATASET.json",
                .seeds = {to_text(manifest)},
                .words = {"end_of_text", "shards", "../", "tokens-00000.h5", "train/", "0"},
                .names = {folder.string()},
                .seal = with_self_hash,
                .read = {}};
  const auto refuse = [&](const std::string& pointer, const Json& value) {
    target.refused.push_back(changed(target.seeds.front(), pointer, value, with_self_hash));
  };
  refuse("/shard_tokens", 0);
  refuse("/tokenizer/vocabulary", 1);
  refuse("/tokenizer/vocabulary", -1);
  refuse("/tokenizer/end_of_text", 257);
  refuse("/tokenizer/hash", "none");
  refuse("/splits/train/shards/1/tokens", -50);
  refuse("/splits/train/shards/1/documents", std::int64_t{1} << 62);
  refuse("/splits/train/shards/0/file", "../elsewhere.h5");
  refuse("/splits/train/shards/0/bytes", -1.0);
  refuse("/tokenizer/end_of_text", 18446744073709551616.0);
  refuse("/shard_tokens", 1e26);
  target.refused.push_back(std::string(100'000, '['));
  target.read = [folder](const std::string& text) {
    put_file(folder / "DATASET.json", text);
    const DatasetManifest read = read_dataset_manifest(folder);
    read_stream(folder, read, DataSplit::train);
    read_stream(folder, read, DataSplit::validation);
    const std::string printed = to_text(read);
    put_file(folder / "DATASET.json", printed);
    require(to_text(read_dataset_manifest(folder)) == printed, "a manifest reads back as another");
  };
  return target;
}

Target token_shard_target(const Path& folder) {
  DatasetManifest manifest = make_dataset(folder);
  const std::string shard = read_file(folder / "train/tokens-00001.h5");
  manifest.train = {.tokens = 50, .documents = 2, .text_bytes = 0, .shards = {manifest.train.shards.back()}};
  Target target{.name = "token shard",
                .seeds = {shard},
                .names = {"tokens-00001.h5"},
                .made = either(strange_hdf5(folder / "made.h5", {"/tokens", "/documents"}), damaged_headers(shard)),
                .read = {}};
  target.read = [folder, manifest](const std::string& bytes) mutable {
    put_file(folder / "train/tokens-00001.h5", bytes);
    manifest.train.shards.front().bytes = bytes.size();
    manifest.train.shards.front().hash = hash128(bytes);
    read_stream(folder, manifest, DataSplit::train);
  };
  return target;
}

/// A run with one checkpoint, saved by two ranks; the checkpoint's folder.
Path make_checkpoint(const Path& run) {
  Path path;
  on_ranks(2, [&](Communicator& ranks) {
    const World world = single_axis_world(2);
    Job job(world, ranks.rank(), replicated_model(world.mesh));
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

/// All that inspection, verification, resharding and export ask of a checkpoint.
void read_checkpoint(const Path& folder) {
  (void)verify_checkpoint(folder, VerifyLevel::fingerprints);  // never throws for damage
  const CheckpointReader reader(folder);
  (void)summarise(reader);
  (void)show_tree(reader);
  (void)show_config(reader);
  for (const TensorDescription& tensor : reader.list()) {
    const std::int64_t bytes = elements(tensor.shape) * size_of(tensor.dtype);
    if (bytes > 1 << 20) continue;  // a caller that has no room for a tensor does not ask for it whole
    std::vector<std::byte> content(static_cast<std::size_t>(bytes));
    reader.read(tensor.name, whole(tensor.shape), content);
    (void)show_tensor(reader, tensor.name);
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

Target checkpoint_manifest_target(const Path& run) {
  const Path folder = make_checkpoint(run);
  Target target{.name = "MANIFEST.json",
                .seeds = {read_file(folder / manifest_file)},
                .words = {"per_rank", "dp_replicate", "rank=0", "../../etc", "INDEX.h5", "_values",
                          "\"aliases\": [\"x\"],", "f64", "bf16", "/"},
                .names = {folder.string()},
                .seal = with_manifest_hash,
                .read = {}};
  const auto refuse = [&](const std::string& pointer, const Json& value) {
    target.refused.push_back(changed(target.seeds.front(), pointer, value, with_manifest_hash));
  };
  refuse("/tensors/0/component", "nobody");
  refuse("/tensors/0/global", Json::array({std::int64_t{1} << 40, std::int64_t{1} << 40}));
  refuse("/tensors/0/fingerprint", "x");
  refuse("/files/0/path", "../MANIFEST.json");
  refuse("/files/0/hash", 7);
  refuse("/meshes/0/axes/0/size", std::int64_t{1} << 31);
  refuse("/meshes/0/axes/0/size", (std::int64_t{1} << 32) + 2);
  refuse("/step", 7.5);
  refuse("/files/0/bytes", -1);
  refuse("/tensors/1", Json::parse(target.seeds.front())["tensors"][0]);
  target.read = [folder](const std::string& text) {
    put_file(folder / manifest_file, text);
    const Manifest manifest = read_manifest(folder);
    const std::string printed = manifest_text(manifest);
    require(manifest_text(parse_manifest(printed, "as printed")) == printed, "a manifest reads back as another");
    read_checkpoint(folder);
  };
  return target;
}

/// A file of a checkpoint, with the manifest saying what its bytes now are.
Target checkpoint_file_target(const std::string& name, const Path& run, const std::string& ending,
                              std::vector<std::string> objects) {
  const Path folder = make_checkpoint(run);
  Manifest manifest = read_manifest(folder);
  const auto listed =
      std::ranges::find_if(manifest.files, [&](const StoredFile& file) { return file.path.ends_with(ending); });
  require(listed != manifest.files.end(), "the checkpoint has a file " + ending);
  const auto number = static_cast<std::size_t>(listed - manifest.files.begin());
  const Path file = folder / listed->path;
  Target target{.name = name,
                .seeds = {read_file(file)},
                .names = {folder.string()},
                .made = either(strange_hdf5(run / "made.h5", std::move(objects)), damaged_headers(read_file(file))),
                .read = {}};
  target.read = [folder, file, manifest, number, is_part = ending != index_file](const std::string& bytes) mutable {
    put_file(file, bytes);
    manifest.files[number].bytes = bytes.size();
    manifest.files[number].hash = hash128(bytes);
    put_file(folder / manifest_file, manifest_text(manifest));
    if (is_part) (void)read_part_table(file);
    read_checkpoint(folder);
  };
  return target;
}

struct Table {
  const char* path;
  DType dtype;
  std::int64_t columns;  // 1: a list
};
constexpr std::array<Table, 8> index_tables{{{"/pieces/tensor", DType::u32, 1},
                                             {"/pieces/file", DType::u32, 1},
                                             {"/pieces/offset", DType::u64, 1},
                                             {"/pieces/fingerprint", DType::u64, 2},
                                             {"/pieces/first_box", DType::u64, 1},
                                             {"/pieces/first_block", DType::u64, 1},
                                             {"/boxes", DType::i64, 1},
                                             {"/blocks", DType::u64, 2}}};

/// The numbers of an index by table, to be damaged one by one.
Json numbers_of_index(const Path& index) {
  const Hdf5File file = Hdf5File::open(index);
  Json numbers = Json::object();
  for (const Table& table : index_tables) {
    const auto size = static_cast<std::size_t>(size_of(table.dtype));
    std::vector<std::byte> bytes(file.dataset(table.path).bytes);
    file.read(table.path, bytes);
    Json& list = numbers[table.path] = Json::array();
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      std::uint64_t number = 0;
      std::memcpy(&number, bytes.data() + at, size);
      list.push_back(number);
    }
  }
  return numbers;
}

std::uint64_t as_integer(const Json& value) {
  if (value.is_number_float())
    return std::abs(value.get<double>()) < 1e18 ? static_cast<std::uint64_t>(value.get<std::int64_t>()) : 0;
  return value.is_number() ? value.get<std::uint64_t>() : 0;
}

/// A sound HDF5 file of these numbers, whatever they are; what is no list is left out.
void write_index(const Path& index, const Json& numbers) {
  std::filesystem::remove(index);
  Hdf5File file = Hdf5File::create(index);
  for (const Table& table : index_tables) {
    if (!numbers.is_object() || !numbers.contains(table.path) || !numbers[table.path].is_array()) continue;
    const auto size = static_cast<std::size_t>(size_of(table.dtype));
    const std::int64_t rows = static_cast<std::int64_t>(numbers[table.path].size()) / table.columns;
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows * table.columns) * size);
    for (std::size_t i = 0; i < bytes.size() / size; ++i) {
      const std::uint64_t number = as_integer(numbers[table.path][i]);
      std::memcpy(bytes.data() + i * size, &number, size);
    }
    file.add(table.path, table.dtype, table.columns == 1 ? Shape{rows} : Shape{rows, table.columns}, bytes);
  }
  file.close();
}

/// An index of wrong numbers, with hashes that fit.
Target index_numbers_target(const Path& run) {
  const Path folder = make_checkpoint(run);
  const Path index = folder / index_file;
  Manifest manifest = read_manifest(folder);
  const auto listed = std::ranges::find(manifest.files, std::string(index_file), &StoredFile::path);
  const auto number = static_cast<std::size_t>(listed - manifest.files.begin());
  Target target{.name = "numbers in INDEX.h5",
                .seeds = {to_text(numbers_of_index(index), 1)},
                .names = {folder.string()},
                .read = {}};
  target.read = [folder, index, manifest, number](const std::string& text) mutable {
    write_index(index, Json::parse(text, nullptr, false));
    const std::string bytes = read_file(index);
    manifest.files[number].bytes = bytes.size();
    manifest.files[number].hash = hash128(bytes);
    put_file(folder / manifest_file, manifest_text(manifest));
    read_checkpoint(folder);
  };
  return target;
}

/// The table that a part holds of itself, in a sound HDF5 file.
Target part_table_target(const Path& run) {
  const Path checkpoint = make_checkpoint(run);
  const Manifest manifest = read_manifest(checkpoint);
  const auto listed =
      std::ranges::find_if(manifest.files, [](const StoredFile& file) { return file.path.ends_with("part-0000.h5"); });
  require(listed != manifest.files.end(), "the checkpoint has a part");
  const Path part = checkpoint / listed->path;
  Target target{.name = "table of a part",
                .seeds = {Hdf5File::open(part).read_text("/_index")},
                .words = {"\"shape\":[", "\"bf16\"", "\"blocks\":[]", "18446744073709551615"},
                .names = {part.string()},
                .read = {}};
  target.read = [part](const std::string& text) {
    std::filesystem::remove(part);
    Hdf5File file = Hdf5File::create(part);
    file.add("/_index", DType::u8, {static_cast<std::int64_t>(text.size())}, std::as_bytes(std::span(text)));
    file.close();
    const PartTable table = read_part_table(part);
    (void)part_hash(part, table.pieces, table.records);
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
      (void)best_first(list_checkpoints(made), "validation_loss");
    } catch (const Error& error) {  // of a folder without a manifest
      require(error.code() == ExitCode::storage, error.what());
    }
    (void)list_run(made);
    (void)retire(made, {.keep_last = 1});
    const Found kept = first_sound(newest_first(list_checkpoints(made)), judge);
    require(newest.checkpoint.has_value() == kept.checkpoint.has_value(),
            "retiring old checkpoints took the newest sound one");
  };
  return target;
}

}  // namespace

std::vector<Target> store_targets(const Path& folder) {
  return {
      dataset_manifest_target(folder / "dataset"),
      token_shard_target(folder / "shard"),
      checkpoint_manifest_target(folder / "manifest"),
      checkpoint_file_target("INDEX.h5", folder / "index", std::string(index_file),
                             {"/pieces/tensor", "/pieces/file", "/pieces/offset", "/boxes", "/blocks"}),
      checkpoint_file_target("part file", folder / "part", "part-0000.h5", {"/_index", "/model/wte.weight/0:37,0:8"}),
      index_numbers_target(folder / "numbers"),
      part_table_target(folder / "table"),
      run_directory_target(folder / "run")};
}

}  // namespace lockstep::test
