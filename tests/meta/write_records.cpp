// write-records FOLDER: a record of every kind through every sink, and the schema, for readers that are not ours to
// check. write-records FOLDER SEED COUNT: records of random texts and numbers in records.jsonl, and what they hold in
// expected.txt, in hexadecimal.
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "report/build_info.hpp"
#include "report/record.hpp"
#include "report/recorder.hpp"
#include "report/wandb_sink.hpp"

#include <array>
#include <bit>
#include <iostream>
#include <limits>

using namespace lockstep;

namespace {

void write_all(Recorder& recorder) {
  RunRecord run;
  run.tool = "train";
  run.version = version();
  Json build = Json::object();
  for (const auto& [key, value] : build_info()) build[key] = value;
  run.build = std::make_shared<const Json>(build);
  run.config = std::make_shared<const Json>(
      Json{{"optimizer", {{"lr", 1e-3}}}, {"long", std::string(100000, 'x')}});  // beyond blocks of 32 KiB
  run.hosts = {"here"};
  recorder.write(run);
  for (std::int64_t step = 1; step <= 300; step += 13) {  // beyond 128: steps of more than one byte
    StepRecord record;
    record.step = step;
    record.loss = step == 14 ? std::numeric_limits<double>::quiet_NaN() : 4.0 / static_cast<double>(step);
    record.lr = 1e-3;
    record.tokens_per_s = 1e6;
    if (step > 100) record.eta_s = 3.5;
    if (step > 200) record.expert_entropy = std::vector{0.5, std::numeric_limits<double>::quiet_NaN()};
    recorder.write(record);
  }
  recorder.write(StatisticsRecord{.step = 300,
                                  .of = "gradients",
                                  .elements = 7,
                                  .norm = 2.5,
                                  .mean = 0.5,
                                  .std = 1,
                                  .min = -1,
                                  .max = 2,
                                  .zeros = 3,
                                  .nonfinite = 1,
                                  .tensors = std::make_shared<const Json>(Json{{"a/b",
                                                                                {{"elements", 7},
                                                                                 {"norm", 2.5},
                                                                                 {"mean", 0.5},
                                                                                 {"std", 1},
                                                                                 {"min", -1},
                                                                                 {"max", 2},
                                                                                 {"zeros", 3},
                                                                                 {"nonfinite", 1}}}})});
  EvalRecord eval;
  eval.step = 300;
  eval.split = "validation";
  eval.loss = 1.25;
  eval.perplexity = 3.5;
  recorder.write(eval);
  SampleRecord sample;
  sample.step = 300;
  sample.prompt = "Ünïcode:";
  sample.text = " \"quoted\"\n\xFF";
  recorder.write(sample);
  CheckpointRecord checkpoint;
  checkpoint.removed = {"step-100"};
  recorder.write(checkpoint);
  recorder.write(ProfileRecord{
      .first_step = 10, .last_step = 20, .work = "backward", .mean_ms = 2, .min_ms = 1, .max_ms = 3, .imbalance = 1.5});
  recorder.write(EventRecord{.name = "started", .message = "before any step"});
  recorder.write(EventRecord{.step = 14,
                             .name = "nonfinite_step",
                             .message = "skipped",
                             .loss = std::numeric_limits<double>::quiet_NaN(),
                             .grad_norm = 2.5,
                             .in_a_row = 1});
  recorder.write(SummaryRecord{.reason = "finished",
                               .exit_code = 0,
                               .step = 300,
                               .tokens = 5,
                               .skipped = 1,
                               .wall_s = 1,
                               .peak_memory_bytes = {1 << 20, 1 << 21},
                               .peak_device_memory_bytes = {1 << 19, 1 << 18},
                               .loss = 1.5,
                               .eval_loss = {},
                               .checkpoint = "step-300",
                               .records_lost = 2});
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : stream_(seed, "records") {}
  std::uint64_t bits() { return stream_.bits(next_++); }
  std::size_t below(std::size_t bound) { return stream_.below(next_++, bound); }
  /// Any double: finite, denormal, infinite, nan.
  double number() {
    const std::array<double, 8> extremes{0.0,
                                         -0.0,
                                         5e-324,
                                         1.7976931348623157e308,
                                         0.1,
                                         -1e-7,
                                         std::numeric_limits<double>::infinity(),
                                         9007199254740993.0};
    return below(3) == 0 ? extremes[below(extremes.size())] : std::bit_cast<double>(bits());
  }
  /// Bytes that are text, nearly text or none.
  std::string text() {
    static const std::vector<std::string> parts{"a",
                                                "\"",
                                                "\\",
                                                "/",
                                                std::string(1, '\0'),
                                                "\n",
                                                "\r",
                                                "\t",
                                                "\x1b[31m",
                                                "\x7f",
                                                "é",
                                                "\xE2\x80\xA8",
                                                "\xF0\x9F\x98\x80",
                                                "\xEF\xBF\xBF",
                                                "\xFF",
                                                "\xC3",
                                                "\xED\xA0\x80",
                                                "\xC0\x80",
                                                "\xF4\x90\x80\x80",
                                                "\xE2\x82",
                                                "\\u0041",
                                                "</script>"};
    std::string text;
    for (std::size_t left = below(12); left > 0; --left)
      text += below(5) == 0 ? std::string(1, static_cast<char>(bits())) : parts[below(parts.size())];
    return text;
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

std::string hexadecimal(const std::string& bytes) {
  std::string digits = "x";
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

void write_random(const Path& folder, std::uint64_t seed, int count) {
  Random random(seed);
  Log log({.program = "write-records"});
  Recorder recorder(log);
  recorder.add("records.jsonl", file_sink(folder / "records.jsonl"));
  std::string expected;
  for (int i = 0; i < count; ++i) {
    if (i % 2 == 0) {
      const SampleRecord record{.step = static_cast<std::int64_t>(random.bits()),
                                .prompt = random.text(),
                                .text = random.text(),
                                .tokens = i};
      recorder.write(record);
      expected += fmt::format("sample {} {} {}\n", record.step, hexadecimal(record.prompt), hexadecimal(record.text));
    } else {
      const StepRecord record{.step = static_cast<std::int64_t>(random.bits()),
                              .loss = random.number(),
                              .loss_scale = std::nullopt,
                              .mfu = std::nullopt,
                              .eta_s = random.number()};
      recorder.write(record);
      expected += fmt::format("step {} {:016x} {:016x}\n", record.step, std::bit_cast<std::uint64_t>(record.loss),
                              std::bit_cast<std::uint64_t>(*record.eta_s));
    }
  }
  recorder.close();
  publish_file(folder / "expected.txt", expected);
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count != 2 && count != 4) fail(ExitCode::usage, "usage: write-records FOLDER [SEED COUNT]");
    const Path folder = words[1];
    if (count == 4) {
      write_random(folder, std::stoull(words[2]), std::stoi(words[3]));
      return 0;
    }
    publish_file(folder / "schema.json", to_text(record_json_schema()));
    Log log({.program = "write-records"});
    Recorder recorder(log);
    recorder.add("standard output", line_sink(1, "standard output"));
    recorder.add("records.jsonl", file_sink(folder / "records.jsonl"));
    recorder.add("TensorBoard", tensorboard_sink(folder / "tensorboard"));
    recorder.add("W&B", std::make_unique<WandbSink>(WandbSettings{.folder = folder / "wandb",
                                                                  .id = "abcd1234",
                                                                  .project = "a project",
                                                                  .name = "a name",
                                                                  .tags = {"one", "two"},
                                                                  .every = 2}));
    write_all(recorder);
    recorder.close();
    return recorder.lost() == 0 ? 0 : 4;
  } catch (const Error& error) {
    std::cerr << "write-records: " << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
