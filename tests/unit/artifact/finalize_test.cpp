#include "artifact/finalize.hpp"

#include "architecture/initialise.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/save.hpp"
#include "exchange/safetensors.hpp"
#include "quant/bfloat16.hpp"
#include "reshard/reshard.hpp"
#include "tokenizer/tokenizers.hpp"
#include "unit/architecture/configs.hpp"
#include "unit/exchange/folder.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(finalize_quantize)

namespace {

/// Saves a checkpoint of a model with the initial weights of `seed`, as one rank would; returns its folder.
Path save_model(const Path& run, const ModelConfig& config, std::int64_t step, std::uint64_t seed) {
  const Architecture model = describe(config);
  const Mesh mesh = single_axis_world(1).mesh;
  std::map<std::string, std::vector<float>> weights;
  Component component{.key = "model", .pattern = Pattern::replicated, .collect = [&] {
                        StateTree tree;
                        for (const LogicalTensor& tensor : stored_tensors(model)) {
                          std::vector<float>& values = weights[tensor.name];
                          values.resize(static_cast<std::size_t>(elements(tensor.shape)));
                          initialise(tensor, seed, whole(tensor.shape), std::span(values));
                          tree.add(tensor.name, replicated(tensor.shape, DType::f32, mesh),
                                   std::as_writable_bytes(std::span(values)));
                        }
                        if (config.tied_head)
                          tree.add_alias("lm_head.weight", model.blocks.front().tensors.front().name);
                        return tree;
                      }};
  Component trainer{.key = "trainer", .pattern = Pattern::global, .collect = [&] {
                      StateTree tree;
                      tree.set("hf_config", *config.original);
                      return tree;
                    }};
  const auto alone = solo_communicator();
  return Saver(*alone).save({component, trainer}, {.run = run, .step = step, .world = single_axis_world(1)}).path;
}

FinalizeConfig request(const Path& from, const Path& to) {
  FinalizeConfig config;
  config.checkpoint = from.string();
  config.output = to.string();
  return config;
}

ExportResult export_of(const FinalizeConfig& config) {
  const ModelSource source = open_model_source(config.checkpoint, {}, std::nullopt);
  Session session(solo_communicator());
  return finalize(config, source, session, [](std::int64_t, std::int64_t) {});
}

template <class Call>
std::string error_of(Call call, ExitCode code) {
  try {
    call();
  } catch (const Error& error) {
    BOOST_CHECK(error.code() == code);
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// As ranks of another mesh hold it.
void lay_out(const Path& from, const std::string& target, const Path& to) {
  ReshardConfig config;
  config.to = ReshardTarget::parse(target);
  const auto source = open_checkpoint_source(from, 16);
  Session session(solo_communicator());
  reshard(session, *source, plan_reshard(*source, config), to, config.memory.bytes);
}

/// Bytes that this process has got from files, as the system counts them; nothing where it does not.
std::optional<std::uint64_t> bytes_read_so_far() {
  std::ifstream counters("/proc/self/io");
  for (std::string name; counters >> name;) {
    std::uint64_t value = 0;
    counters >> value;
    if (name == "rchar:") return value;
  }
  return std::nullopt;
}

std::uint64_t bytes_of_files(const Path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_eight_ranks_cut_by_columns_is_written_and_read_at_one_reading, Folder) {
  if (!bytes_read_so_far()) return;
  ModelConfig config = tiny_gpt2();  // whose first matrix of an MLP is stored inputs by outputs
  Json original = *config.original;
  original.update({{"vocab_size", 16}, {"n_embd", 256}, {"n_head", 8}, {"n_inner", 73728}, {"n_layer", 1}});
  config = parse_hf_config(to_text(original), "config.json");
  const Path whole = save_model(path / "run", config, 5, 1);
  const auto lay_out_once = [&](const Path& from, const std::string& mesh, const Path& to) {
    const std::uint64_t before = *bytes_read_so_far();
    lay_out(from, mesh, to);
    BOOST_TEST(*bytes_read_so_far() - before <= 1.05 * static_cast<double>(bytes_of_files(from)));
  };
  lay_out_once(whole, "tp=8,parts=8", path / "columns");
  lay_out_once(path / "columns", "dp_shard=8,parts=8", path / "rows");
  const std::uint64_t before = *bytes_read_so_far();
  const ExportResult columns = export_of(request(path / "columns", path / "out"));
  const auto read = static_cast<double>(*bytes_read_so_far() - before);
  BOOST_TEST(read >= 0.9 * static_cast<double>(bytes_of_files(path / "columns")));
  BOOST_TEST(read <= 1.05 * static_cast<double>(bytes_of_files(path / "columns")));
  export_of(request(path / "rows", path / "from-rows"));
  BOOST_TEST((read_file(path / "out/model.safetensors") == read_file(path / "from-rows/model.safetensors")));
  export_of(request(path / "run", path / "whole"));
  BOOST_TEST((read_file(path / "out/model.safetensors") == read_file(path / "whole/model.safetensors")));
  BOOST_TEST(columns.files.size() > 3);
}

BOOST_FIXTURE_TEST_CASE(a_run_is_exported_from_its_newest_checkpoint_with_its_tokenizer, Folder) {
  const ModelConfig config = tiny_gpt2();
  save_model(path / "run", config, 5, 1);
  save_model(path / "run", config, 10, 2);
  save_tokenizer(*bytes_tokenizer(), path / "run" / "tokenizer");
  FinalizeConfig to = request(path / "run", path / "out");
  to.dtype = ExportDtype::fp32;
  const ExportResult exported = export_of(to);
  BOOST_TEST(exported.files ==
                 (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors",
                                           "quantization-report.json", "tokenizer.json", "tokenizer_config.json"}),
             boost::test_tools::per_element());
  const auto written = open_safetensors(path / "out");
  BOOST_TEST(written->list().size() == stored_tensors(describe(config)).size());  // the tied head is not among them
  const LogicalTensor embedding = describe(config).blocks.front().tensors.front();
  std::vector<float> expected(static_cast<std::size_t>(elements(embedding.shape)));
  initialise(embedding, 2, whole(embedding.shape), std::span(expected));
  BOOST_TEST(read_all(*written, embedding.name) == expected, boost::test_tools::per_element());
  const Json report = parse_json(read_file(path / "out" / "quantization-report.json"), "report");
  BOOST_TEST(report["source"]["step"] == 10);
  BOOST_TEST(report["all"]["max_abs_error"] == 0);
  BOOST_TEST(parse_json(read_file(path / "out" / "config.json"), "c")["torch_dtype"] == "float32");
}

BOOST_FIXTURE_TEST_CASE(a_damaged_newest_checkpoint_is_passed_over_with_the_reason, Folder) {
  const Path older = save_model(path / "run", tiny_llama(), 5, 1);
  const Path newer = save_model(path / "run", tiny_llama(), 10, 2);
  std::filesystem::remove(newer / "INDEX.h5");
  const ModelSource source = open_model_source(path / "run", {}, std::nullopt);
  BOOST_TEST(source.folder == older);
  BOOST_TEST(source.rejected.size() == 1u);
  BOOST_TEST(has(error_of([&] { open_model_source(newer, {}, std::nullopt); }, ExitCode::input), "INDEX.h5"));
}

BOOST_FIXTURE_TEST_CASE(int8_weights_unpack_to_the_values_whose_error_is_reported, Folder) {
  const ModelConfig config = tiny_llama();
  const Path checkpoint = save_model(path / "run", config, 1, 3);
  FinalizeConfig to = request(checkpoint, path / "out");
  to.recipe = Recipe::int8;
  const ExportResult exported = export_of(to);
  const auto written = open_safetensors(path / "out");
  const LogicalTensor tensor = describe(config).blocks[1].tensors[1];  // query: (24, 12)
  std::vector<float> original(24 * 12);
  initialise(tensor, 3, whole(tensor.shape), std::span(original));
  std::vector<std::uint8_t> packed(24 * 12);
  std::vector<std::uint16_t> scales(24);
  std::vector<std::int64_t> shape(2);
  written->read(tensor.name + "_packed", whole({24, 3}), std::as_writable_bytes(std::span(packed)));
  written->read(tensor.name + "_scale", whole({24, 1}), std::as_writable_bytes(std::span(scales)));
  written->read(tensor.name + "_shape", whole({2}), std::as_writable_bytes(std::span(shape)));
  BOOST_TEST((shape == std::vector<std::int64_t>{24, 12}));
  double squared_error = 0;
  double squared = 0;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const double value =
        static_cast<double>(round_to_bf16(static_cast<float>(packed[i] - 128) * from_bf16(scales[i / 12])));
    squared_error += std::pow(value - static_cast<double>(original[i]), 2);
    squared += std::pow(static_cast<double>(original[i]), 2);
  }
  const auto& entry = exported.weights.tensors[2];  // after the embedding and the norm
  BOOST_TEST(entry.name == tensor.name);
  BOOST_TEST(entry.error.relative_l2() == std::sqrt(squared_error / squared), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(entry.error.relative_l2() < 0.01);
  BOOST_TEST(entry.bytes == 24 * 12 + 24 * 2 + 16u);
}

BOOST_FIXTURE_TEST_CASE(int8_of_gpt2_is_refused_with_the_reason_and_nothing_is_written, Folder) {
  const Path checkpoint = save_model(path / "run", tiny_gpt2(), 1, 3);
  FinalizeConfig to = request(checkpoint, path / "out");
  to.recipe = Recipe::int8;
  BOOST_TEST(has(error_of([&] { export_of(to); }, ExitCode::usage), "Conv1D"));
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(path), {}) == 1);
}

BOOST_FIXTURE_TEST_CASE(the_plan_has_the_bytes_of_the_export, Folder) {
  const Path checkpoint = save_model(path / "run", tiny_llama(), 1, 3);
  for (const Recipe recipe : {Recipe::none, Recipe::int8}) {
    FinalizeConfig to = request(checkpoint, path / (recipe == Recipe::none ? "plain" : "packed"));
    to.recipe = recipe;
    const ExportResult exported = export_of(to);
    BOOST_TEST(plan_export(stored_tensors(describe(tiny_llama())), recipe, to.dtype).bytes == exported.weights.bytes);
  }
}

BOOST_FIXTURE_TEST_CASE(weights_that_are_not_finite_are_refused_by_name_and_row, Folder) {
  write_counting(path, {{"model.embed_tokens.weight", {13, 12}, DType::f32}});
  ModelConfig config = tiny_llama();
  ModelSource source;
  source.folder = path;
  source.config = config;
  source.tensors = {describe(config).blocks.front().tensors.front()};
  {
    auto values = counting(13 * 12, 0);
    values[30] = std::numeric_limits<float>::infinity();
    SafetensorsWriter writer(path, {{"model.embed_tokens.weight", {13, 12}, DType::f32}});
    writer.write("model.embed_tokens.weight", whole({13, 12}), std::as_bytes(std::span(values)));
    writer.finish();
  }
  source.weights = open_safetensors(path);
  Session session(solo_communicator());
  BOOST_TEST(
      error_of([&] { finalize(request(path, path / "out"), source, session, [](std::int64_t, std::int64_t) {}); },
               ExitCode::numerics) == "export weights: tensor 'model.embed_tokens.weight': inf in row 2");
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(path), {}) == 1);
}

BOOST_AUTO_TEST_CASE(ranks_have_all_rows_once_in_order_and_about_as_many_elements) {
  std::vector<LogicalTensor> tensors(4);
  const std::array<Shape, 4> shapes{{{100'000, 100}, {3, 3'000'000}, {7}, {50'000, 64}}};
  std::int64_t total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].shape = shapes[i];
    total += elements(shapes[i]);
  }
  for (const int ranks : {1, 2, 3, 4, 64}) {
    std::size_t tensor = 0;
    std::int64_t next = 0, seen = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t own = 0;
      for (const WeightPiece& piece : pieces_of_rank(tensors, rank, ranks)) {
        if (next == tensors[tensor].shape.front()) {
          ++tensor;
          next = 0;
        }
        BOOST_TEST(piece.tensor == tensor);
        BOOST_TEST(piece.first == next);
        next += piece.rows;
        own += piece.rows * elements(tensors[tensor].shape) / tensors[tensor].shape.front();
      }
      BOOST_TEST(std::abs(own - total / ranks) <= 3'000'000);  // the largest piece
      seen += own;
    }
    BOOST_TEST(seen == total);
  }
}

BOOST_FIXTURE_TEST_CASE(a_folder_that_is_no_model_is_refused_with_what_would_be_one, Folder) {
  BOOST_TEST(has(error_of([&] { open_model_source(path, {}, std::nullopt); }, ExitCode::input),
                 "neither a checkpoint nor a run nor a folder with safetensors"));
  BOOST_TEST(
      has(error_of([&] { open_model_source(path / "absent", {}, std::nullopt); }, ExitCode::input), "does not exist"));
  save_model(path / "run", tiny_llama(), 1, 3);
  BOOST_TEST(
      has(error_of([&] { open_model_source(path / "run", {}, path); }, ExitCode::input), "holds no tokenizer files"));
}

BOOST_AUTO_TEST_SUITE_END()
