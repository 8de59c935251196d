#include "train/run_files.hpp"

#include "comm/launch.hpp"
#include "comm/together.hpp"
#include "corpus/tokenizers.hpp"
#include "report/run_curve.hpp"

#include <unistd.h>

namespace lockstep {

RunFiles::RunFiles(Communicator& world, const Path& folder) : folder_(folder) {
  together(world, "lock the run directory", [&] {
    if (world.rank() == 0) lock_.emplace(folder_);
  });
}

void RunFiles::open(Communicator& world, const TrainConfig& config, const std::string& config_yaml,
                    const Tokenizer& tokenizer) {
  together(world, "open the run directory", [&] {
    if (world.rank() != 0) return;
    publish_file(folder_ / "config.yaml", config_yaml);
    save_tokenizer(tokenizer, folder_ / "tokenizer");
    records_.add(file_sink(folder_ / "records.jsonl"));
    // Open MPI gives ranks a terminal of its own as stdout, whatever the user's is: under a launcher records always go
    // there.
    if (launch_of_process().by == Launch::By::launcher || ::isatty(STDOUT_FILENO) == 0)
      records_.add(line_sink(STDOUT_FILENO, "standard output"));
    if (config.log.tensorboard) records_.add(tensorboard_sink(folder_ / "tensorboard"));
  });
}

void RunFiles::close(Communicator& world) {
  together(world, "close the records", [&] {
    if (world.rank() != 0) return;
    records_.close();
    publish_file(folder_ / "loss.svg", curve_svg(loss_labels(), loss_series(folder_)));
  });
}

}  // namespace lockstep
