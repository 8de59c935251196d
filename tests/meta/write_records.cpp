// write-records FOLDER: a record of every kind through every sink, and the schema, for readers that are not ours to check.
#include "base/error.hpp"
#include "base/json.hpp"
#include "report/build_info.hpp"
#include "report/record.hpp"
#include "report/record_sink.hpp"

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
  run.hosts = {"here"};
  recorder.write(run);
  for (std::int64_t step = 1; step <= 300; step += 13) {   // beyond 128: steps of more than one byte
    StepRecord record;
    record.step = step;
    record.loss = step == 14 ? std::numeric_limits<double>::quiet_NaN() : 4.0 / static_cast<double>(step);
    record.lr = 1e-3;
    record.tokens_per_s = 1e6;
    if (step > 100) record.eta_s = 3.5;
    recorder.write(record);
  }
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
  recorder.write(EventRecord{.name = "started", .message = "before any step"});
  recorder.write(EventRecord{.step = 14, .name = "nonfinite_step", .message = "skipped", .loss = std::numeric_limits<double>::quiet_NaN(),
                             .grad_norm = 2.5, .in_a_row = 1});
  recorder.write(SummaryRecord{.reason = "finished", .exit_code = 0, .step = 300, .tokens = 5, .skipped = 1, .wall_s = 1, .tokens_per_s = {}, .loss = 1.5,
                               .eval_loss = {}, .checkpoint = "step-300"});
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count != 2) fail(ExitCode::usage, "usage: write-records FOLDER");
    const Path folder = words[1];
    publish_file(folder / "schema.json", to_text(record_json_schema()));
    Recorder recorder;
    recorder.add(line_sink(1, "standard output"));
    recorder.add(file_sink(folder / "records.jsonl"));
    recorder.add(tensorboard_sink(folder / "tensorboard"));
    write_all(recorder);
    recorder.close();
    return 0;
  } catch (const Error& error) {
    std::cerr << "write-records: " << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
