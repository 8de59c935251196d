#include "prepare/prepare.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "comm/long_work.hpp"
#include "comm/together.hpp"
#include "data/data_loader.hpp"
#include "data/dataset.hpp"
#include "harness/shared_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

using namespace lockstep;
using test::world;

namespace {

struct TextFolder : test::SharedFolder {
  // Ten blocks of lines; line `bad` (from 1) is malformed.
  Path write_lines(std::int64_t bad) const {
    const Path file = path / "in.jsonl";
    together(world(), "write the input", [&] {
      if (world().rank() != 0) return;
      std::string text;
      for (std::int64_t line = 1; line <= 2560; ++line) {
        text += line == bad ? "{\"text\": oops}\n"
                            : fmt::format("{{\"text\": \"{} {}\"}}\n", line,
                                          std::string(1000, static_cast<char>('a' + line % 26)));
      }
      publish_file(file, text);
    });
    return file;
  }
};

void prepare_on(std::unique_ptr<Communicator> ranks, const Path& input, const Path& target,
                const std::string& validation = "hash:0.25", const std::string& malformed = "stop") {
  PrepareConfig config;
  config.inputs = {input.string()};
  config.output = target.string();
  config.threads = 2;
  config.data.validation = ValidationSplit::parse(validation);
  config.data.malformed = malformed == "skip" ? OnMalformed::skip : OnMalformed::stop;
  config.data.shard_tokens = 300000;
  Session session(std::move(ranks));
  Log log({.program = "prepare-data", .level = LogLevel::error});
  CommonOptions common;
  common.progress = When::never;
  common.json = true;
  const FileDescriptor nowhere = open_file("/dev/null", O_WRONLY);  // the harness owns standard output
  Output output(common, {}, log, nowhere.get());
  prepare_data(config, session, output);
}

std::map<std::string, std::string> files_of(const Path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
  }
  return files;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(prepare)

LOCKSTEP_MPI_TEST(ranks_together_write_the_bytes_that_one_alone_writes, test::at_least(1)) {
  const TextFolder folder;
  const Path input = folder.write_lines(0);
  prepare_on(world().split(0, "world"), input, folder.path / "together");
  together(world(), "prepare alone", [&] {
    if (world().rank() == 0) prepare_on(solo_communicator(), input, folder.path / "alone");
  });
  const auto expected = files_of(folder.path / "alone");
  BOOST_TEST(expected.size() > 10u);
  BOOST_TEST((files_of(folder.path / "together") == expected));
}

// Texts of several blocks, with and without places to cut them at, between lines; one is not UTF-8 near its end.
Path write_texts(const Path& folder) {
  together(world(), "write the input", [&] {
    if (world().rank() != 0) return;
    make_folder(folder);
    std::string prose, lines;
    while (prose.size() < 1'500'000) prose += fmt::format("word{} <|endoftext|> 日本 ", prose.size());
    while (lines.size() < 500'000) lines += fmt::format("{{\"text\": \"{} é\"}}\r\n", lines.size());
    publish_file(folder / "a.txt", prose);
    publish_file(folder / "b.jsonl", "\xEF\xBB\xBF" + lines + "{\"text\": \"" + std::string(900'000, 'x') + "\"}");
    publish_file(folder / "c.txt", std::string(1'100'000, 'a'));
    publish_file(folder / "d.txt", prose.substr(0, 800'001) + "\xFF" + prose.substr(0, 400'000));
    publish_file(folder / "e.txt", prose.substr(0, 262'140));
    publish_file(folder / "f.jsonl", lines + "{\"text\": oops");
  });
  return folder;
}

LOCKSTEP_MPI_TEST(texts_that_go_over_several_ranks_are_joined_split_and_left_out_as_on_one, test::at_least(2)) {
  const TextFolder folder;
  const Path input = write_texts(folder.path / "in");
  for (const std::string validation : {"hash:0.4", "tail:0.37", "none"}) {
    const Path together_made = folder.path / ("together-" + validation);
    const Path alone = folder.path / ("alone-" + validation);
    prepare_on(world().split(0, "world"), input, together_made, validation, "skip");
    together(world(), "prepare alone", [&] {
      if (world().rank() == 0) prepare_on(solo_communicator(), input, alone, validation, "skip");
    });
    BOOST_TEST((files_of(together_made) == files_of(alone)), validation);
    const DatasetManifest manifest = read_dataset_manifest(together_made);
    const Json inputs = parse_json(manifest.inputs, "inputs");
    BOOST_TEST(inputs["malformed_documents"] == 2);  // d.txt and the last line
  }
}

LOCKSTEP_MPI_TEST(a_line_that_one_rank_cannot_read_fails_all_ranks_with_its_place_and_leaves_nothing,
                  test::at_least(1)) {
  for (const std::int64_t bad : {1, 700, 1500, 2560}) {  // in blocks of several ranks
    const TextFolder folder;
    const Path input = folder.write_lines(bad);
    BOOST_CHECK_EXCEPTION(
        prepare_on(world().split(0, "world"), input, folder.path / "out"), Error, [&](const Error& error) {
          const std::string place = fmt::format("in.jsonl:{}: not valid JSON", bad);
          return error.code() == ExitCode::input && std::string(error.what()).find(place) != std::string::npos;
        });
    world().barrier();
    MPI_REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
  }
}

LOCKSTEP_MPI_TEST(long_work_ends_on_all_ranks_when_one_has_failed, test::at_least(2)) {
  Session session(world().split(0, "world"));
  for (int failing = 0; failing < world().size(); ++failing) {
    BOOST_CHECK_EXCEPTION(long_work_together(session, "work",
                                             [&](const std::function<void()>& alive) {
                                               if (world().rank() == failing) fail(ExitCode::input, "my own reason");
                                               while (true) alive();  // until it is told
                                             }),
                          Error, [](const Error& error) {
                            return error.code() == ExitCode::input &&
                                   std::string(error.what()).find("my own reason") != std::string::npos &&
                                   std::string(error.what()).find("more") == std::string::npos;
                          });
  }
}

LOCKSTEP_MPI_TEST(a_dataset_that_is_there_is_taken_and_another_one_refused_on_all_ranks, test::at_least(1)) {
  const TextFolder folder;
  const Path input = folder.write_lines(0);
  prepare_on(world().split(0, "world"), input, folder.path / "out");
  const auto before = files_of(folder.path / "out");
  prepare_on(world().split(0, "world"), input, folder.path / "out");
  BOOST_TEST((files_of(folder.path / "out") == before));
  BOOST_CHECK_EXCEPTION(prepare_on(world().split(0, "world"), input, folder.path / "out", "tail:0.5"), Error,
                        [](const Error& error) { return error.code() == ExitCode::usage; });
  BOOST_TEST((files_of(folder.path / "out") == before));
}

LOCKSTEP_MPI_TEST(the_ranks_feeds_make_up_the_feed_of_one_rank, test::at_least(1)) {
  const TextFolder folder;
  prepare_on(world().split(0, "world"), folder.write_lines(0), folder.path / "out");
  const TokenStream stream = open_dataset(folder.path / "out").open(DataSplit::train);
  DataLoaderSettings settings{
      .global_batch = 11, .micro_batch = 2, .rank = world().rank(), .world = world().size(), .seed = 9};
  DataLoaderSettings alone = settings;
  alone.rank = 0;
  alone.world = 1;
  const WindowSource windows(stream, 32, Documents::joined, WindowTail::unused);
  const TrainingDataLoader loader(windows, settings);
  const TrainingDataLoader whole(windows, alone);
  DataPosition position{0, whole.samples_per_epoch() - 5};  // the step crosses into the next epoch
  const auto tokens_of = [](const StepBatch& step) {
    std::string tokens;
    for (const Batch& batch : step.micro_batches) {
      if (batch.valid_tokens > 0)
        tokens.append(reinterpret_cast<const char*>(batch.tokens.data()), batch.tokens.size() * sizeof(std::int32_t));
    }
    return tokens;
  };
  for (std::int64_t step = 0; step < 3; ++step) {
    const StepBatch own = loader.make_step(step, position);
    std::string gathered;
    for (const std::string& part : world().all_gather(tokens_of(own))) gathered += part;
    BOOST_TEST((gathered == tokens_of(whole.make_step(step, position))));
    BOOST_TEST(world().all_reduce(own.valid_tokens, Reduce::sum) == 11 * 32);
    BOOST_TEST((loader.next(position) == whole.next(position)));
    position = loader.next(position);
  }
}

BOOST_AUTO_TEST_SUITE_END()
