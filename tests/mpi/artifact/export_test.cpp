#include "artifact/finalize.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "comm/together.hpp"
#include "exchange/file_tensors.hpp"
#include "harness/sharded_model.hpp"
#include "harness/shared_folder.hpp"
#include "unit/architecture/configs.hpp"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

using namespace lockstep;
using test::world;

BOOST_AUTO_TEST_SUITE(export_)

namespace {

struct ExportFolder : test::SharedFolder {
  std::map<std::string, std::string> files_in(const std::string& name) const {
    std::map<std::string, std::string> files;
    for (const Path& file : list_folder(path / name)) files[file.filename().string()] = read_file(file);
    return files;
  }
};

/// Weights of fp32 whose element i is a function of its tensor's name and i, but for one that may be another.
class MadeWeights final : public TensorSource {
 public:
  explicit MadeWeights(const std::vector<LogicalTensor>& tensors) {
    for (const LogicalTensor& tensor : tensors) list_.push_back({tensor.name, tensor.shape, DType::f32});
  }
  std::string poisoned = {};  // the tensor whose last element is not finite
  std::string unreadable = {};
  const std::vector<TensorDescription>& list() const override { return list_; }
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    if (name == unreadable) fail(ExitCode::storage, "cannot read {}", name);
    const Shape& shape = find_tensor(*this, name).shape;
    const std::int64_t row = elements(shape) / shape.front(), first = box.begin.front() * row;
    std::vector<float> values(out.size() / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::uint64_t>(first) + i;
      values[i] = static_cast<float>((at * 2654435761U + name.size()) % 4093) / 512.0F - 4.0F;
    }
    if (name == poisoned && first + std::ssize(values) == elements(shape))
      values.back() = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(out.data(), values.data(), out.size());
  }

 private:
  std::vector<TensorDescription> list_;
};

ModelSource made_source(const ModelConfig& config) {
  ModelSource source;
  source.folder = "/nowhere";
  source.config = config;
  for (const FileTensor& file : file_tensors(config, stored_tensors(describe(config))))
    source.tensors.push_back(file.tensor);
  source.weights = std::make_unique<MadeWeights>(source.tensors);
  return source;
}

/// Tensors of several pieces, of one row a piece, and of less than a piece.
ModelSource large_source() {
  ModelSource source = made_source(tiny_llama());
  const auto add = [&](const std::string& name, Role role, Shape shape) {
    LogicalTensor tensor = source.tensors.front();
    tensor.name = name;
    tensor.role = role;
    tensor.shape = std::move(shape);
    source.tensors.push_back(std::move(tensor));
  };
  source.tensors.resize(1);
  add("model.layers.0.self_attn.q_proj.weight", Role::query, {3, 1'300'000});
  add("model.layers.0.mlp.up_proj.weight", Role::up, {2, 7});  // as many rows as its shape has numbers
  add("model.layers.0.mlp.down_proj.weight", Role::down, {800, 3001});
  add("model.norm.weight", Role::attention_norm, {5});
  source.weights = std::make_unique<MadeWeights>(source.tensors);
  return source;
}

FinalizeConfig request(const Path& to, Recipe recipe) {
  FinalizeConfig config;
  config.checkpoint = "/nowhere";
  config.output = to.string();
  config.recipe = recipe;
  return config;
}

ExportResult export_on(std::unique_ptr<Communicator> ranks, const ModelSource& source, const FinalizeConfig& config) {
  Session session(std::move(ranks));
  return finalize(config, source, session, [](std::int64_t, std::int64_t) {});
}

/// Ends on all ranks with an error of this code that has `part` in it, the same everywhere, and with nothing left.
void expect_failure(const ExportFolder& folder, const ModelSource& source, ExitCode code, const std::string& part) {
  std::string told;
  BOOST_CHECK_EXCEPTION(export_on(world().split(0, "world"), source, request(folder.path / "out", Recipe::none)), Error,
                        [&](const Error& error) {
                          told = error.what();
                          return error.code() == code && told.find(part) != std::string::npos;
                        });
  BOOST_TEST(world().broadcast(told, 0) == told);
  world().barrier();
  MPI_REQUIRE(std::filesystem::is_empty(folder.path));
}

}  // namespace

LOCKSTEP_MPI_TEST(ranks_together_write_the_bytes_that_one_alone_writes, test::at_least(1)) {
  std::vector<std::pair<ModelSource, Recipe>> cases;
  for (const ModelConfig& config : {tiny_gpt2(), tiny_llama(), tiny_qwen3(), tiny_qwen3_moe(), tiny_qwen2_moe()})
    cases.emplace_back(made_source(config), Recipe::none);
  for (const ModelConfig& config : {tiny_llama(), tiny_qwen3()}) cases.emplace_back(made_source(config), Recipe::int8);
  cases.emplace_back(large_source(), Recipe::none);
  cases.emplace_back(large_source(), Recipe::int8);
  for (const auto& [source, recipe] : cases) {
    const ExportFolder folder;
    export_on(world().split(0, "world"), source, request(folder.path / "together", recipe));
    together(world(), "export alone", [&] {
      if (world().rank() == 0) export_on(solo_communicator(), source, request(folder.path / "alone", recipe));
    });
    const auto expected = folder.files_in("alone");
    BOOST_TEST(expected.size() == 4u);
    BOOST_TEST((folder.files_in("together") == expected));
  }
}

LOCKSTEP_MPI_TEST(a_sharded_checkpoint_gives_the_files_of_the_whole_one, test::at_least(1)) {
  for (const ModelConfig& config : {tiny_gpt2(), tiny_qwen3(), tiny_qwen3_moe()}) {
    const ExportFolder folder;
    together(world(), "save", [&] {
      if (world().rank() != 0) return;
      test::save_sharded(folder.path / "whole", config, 1, 0);
      test::save_sharded(folder.path / "rows", config, 3, 0);
      test::save_sharded(folder.path / "columns", config, 4, 1);
    });
    std::map<std::string, std::map<std::string, std::string>> files;
    for (const std::string run : {"whole", "rows", "columns"}) {
      const ModelSource source = open_model_source(folder.path / run, {}, std::nullopt);
      const std::string out = run + "-exported";
      export_on(world().split(0, "world"), source, request(folder.path / out, Recipe::none));
      files[run] = folder.files_in(out);
    }
    BOOST_TEST(files["whole"].size() == 4u);
    BOOST_TEST((files["rows"] == files["whole"]));
    BOOST_TEST((files["columns"] == files["whole"]));
  }
}

LOCKSTEP_MPI_TEST(a_value_that_is_not_finite_fails_all_ranks_with_its_place_and_leaves_nothing, test::at_least(1)) {
  for (const std::size_t number : {std::size_t{0}, std::size_t{3}}) {  // with several ranks
    const ExportFolder folder;
    const ModelSource source = large_source();
    auto& weights = dynamic_cast<MadeWeights&>(*source.weights);
    weights.poisoned = source.tensors[number].name;
    const std::int64_t row = source.tensors[number].shape.front() - 1;
    expect_failure(folder, source, ExitCode::numerics,
                   fmt::format("tensor '{}': nan in row {}", weights.poisoned, row));
  }
}

LOCKSTEP_MPI_TEST(what_one_rank_cannot_read_fails_all_ranks_and_leaves_nothing, test::at_least(1)) {
  for (int failing = 0; failing < world().size(); ++failing) {
    const ExportFolder folder;
    const ModelSource source = large_source();
    const std::vector<WeightPiece> own = pieces_of_rank(source.tensors, failing, world().size());
    MPI_REQUIRE(!own.empty());
    const std::string name = source.tensors[own.back().tensor].name;
    if (world().rank() == failing) dynamic_cast<MadeWeights&>(*source.weights).unreadable = name;
    expect_failure(folder, source, ExitCode::storage, "cannot read " + name);
  }
}

LOCKSTEP_MPI_TEST(an_output_that_is_taken_is_refused_on_all_ranks, test::at_least(1)) {
  const ExportFolder folder;
  together(world(), "take the place", [&] {
    if (world().rank() == 0) publish_file(folder.path / "out", "mine");
  });
  BOOST_CHECK_EXCEPTION(
      export_on(world().split(0, "world"), made_source(tiny_llama()), request(folder.path / "out", Recipe::none)),
      Error, [](const Error& error) { return error.code() == ExitCode::usage; });
  BOOST_TEST(read_file(folder.path / "out") == "mine");
}

BOOST_AUTO_TEST_SUITE_END()
