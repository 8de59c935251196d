// The bodies of the programs as functions, one after the other in one process a rank.
#pragma once

#include "app/output.hpp"
#include "base/files.hpp"
#include "comm/session.hpp"
#include "comm/together.hpp"
#include "config/command_line.hpp"
#include "config/prepare_config.hpp"
#include "harness/mpi_test.hpp"
#include "harness/temporary_folder.hpp"
#include "prepare/prepare.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::test {

/// A folder that rank 0 makes, fills and removes, known to all.
struct Workplace {
  std::optional<TemporaryFolder> own;
  Path path;
  explicit Workplace(std::string_view model, int lines = 400) {
    path = run_on_rank0(test::world(), "make a folder", [&] {
      own.emplace();
      std::string text;
      for (int i = 0; i < lines; ++i) text += fmt::format("line {} of a text\n", i * i);
      publish_file(own->path / "text.txt", text);
      publish_file(own->path / "model.json", model);
      return own->path.string();
    });
  }
  ~Workplace() { test::world().barrier(); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
};

/// Standard output goes nowhere as long as this lives: the harness reports there.
class Silence {
 public:
  Silence() : before_(::dup(STDOUT_FILENO)) {
    const FileDescriptor nowhere = open_file("/dev/null", O_WRONLY);
    ::dup2(nowhere.get(), STDOUT_FILENO);
  }
  ~Silence() {
    ::dup2(before_, STDOUT_FILENO);
    ::close(before_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  int before_;
};

/// Returns what the program whose body is `body` returns for a command line. Collective over `ranks`, whose own it is.
template <class Config>
int call(const std::function<int(const Config&, Session&, Output&)>& body, std::unique_ptr<Communicator> ranks,
         const std::vector<std::string>& arguments) {
  const Silence silence;
  const auto line = parse_command_line<Config>(arguments);
  BOOST_TEST(!line.answer);
  Session session(std::move(ranks));
  Log log({.program = "test", .level = LogLevel::error});
  Output output(line.common, line.settings, log);
  return body(line.config, session, output);
}

/// Tokens of the text of a workplace, in its folder "data". Collective over world().
inline void prepare(const Path& folder) {
  const std::vector<std::string> arguments{(folder / "text.txt").string(),
                                           "--output",
                                           (folder / "data").string(),
                                           "--data.tokenizer",
                                           "bytes",
                                           "--data.validation",
                                           "tail:0.1"};
  MPI_REQUIRE(call<PrepareConfig>(prepare_data, test::world().split(0, "world"), arguments) == 0);
}

}  // namespace lockstep::test
