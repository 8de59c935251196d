// The main function of a tool. It parses the command line, gives answers that need no MPI, starts the job, and calls
// the tool's function; all ranks return one agreed exit code, with one explanation. A main is run_tool<Config>(argc,
// argv, serial_job or parallel_job, function). The arguments of that function: app/output.hpp and comm/session.hpp.
#pragma once

#include "app/job.hpp"
#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/command_line.hpp"
#include "config/start_up.hpp"

#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// The function of a tool; it receives the configuration. It returns the exit code. Collective over the session's world
/// if the tool is parallel.
template <class Config>
using ToolBody = std::function<int(const Config&, Session&, Output&)>;

/// Prepares the process. Closed pipes and files beyond `ulimit -f` become errors of write(2) instead of signals, and so
/// do unreadable mapped files (base/mapped_file.hpp). Closed standard descriptors are replaced, so that files do not
/// take their numbers. Returns the arguments without the program's name. Local.
std::vector<std::string> prepare_process(int argc, char** argv);

/// Writes `answer` to standard output, on the first process only. Returns the exit code. Local.
int give_answer(const Tool& tool, const std::string& answer);

/// Starts the job within the limit of `start_up` (comm/start_watch.hpp) and runs `work` in it. The ranks agree on the
/// outcome: one of them explains a failure, and all return the worst code. If the other ranks do not reach the end
/// within 2 s of a failure (30 s if all ranks know of it), the failed rank ends the job and reports its phase.
/// Collective over the job.
int run_job(const Tool& tool, const CommonOptions& common, const StartUp& start_up, const StartJob& start,
            const std::function<int(Session&, Log&)>& work);

/// Returns the result of `work`. Hints of its errors name options as the dialect of the settings takes them. To usage
/// errors it adds the keys of another trainer that set the options named in the error. Local.
int with_dialect_keys(const Settings& settings, const std::function<int()>& work);

template <class Config>
int run_tool(int argc, char** argv, const StartJob& start, const ToolBody<Config>& body) {
  const std::vector<std::string> arguments = prepare_process(argc, argv);
  const Tool tool = tool_of(Config{});
  CommandLine<Config> line;
  std::exception_ptr problem;
  try {
    line = parse_command_line<Config>(arguments);
  } catch (...) {
    problem = std::current_exception();  // explained once, by one rank, after the job has started
  }
  if (line.answer) return give_answer(tool, *line.answer);
  StartUp start_up;
  if (!problem) start_up = start_up_of(line.config);
  if (line.common.dry_run) start_up.run_dir.clear();
  return run_job(tool, line.common, start_up, start, [&](Session& session, Log& log) {
    if (problem) std::rethrow_exception(problem);
    if (session.world().rank() == 0)
      for (const std::string& note : line.notes) log.info("{}", note);
    Output output(line.common, line.settings, log);
    const int code = with_dialect_keys(line.settings, [&] { return body(line.config, session, output); });
    output.close();
    return code;
  });
}

}  // namespace lockstep
