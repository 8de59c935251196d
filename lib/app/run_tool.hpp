// The skeleton of a main: command line → answers that need no MPI → job → the tool's function → one agreed exit code
// and one explanation. A main is run_tool<Config>(argc, argv, serial_job or parallel_job, function). What the function
// is given: app/output.hpp and comm/session.hpp.
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

/// What a tool does, once it knows its configuration. Returns the exit code; collective over the session's world if the
/// tool is parallel.
template <class Config>
using ToolBody = std::function<int(const Config&, Session&, Output&)>;

/// Readies the process: a closed pipe and a file that grows beyond `ulimit -f` are errors of write(2), not a death, and
/// so is a mapped file that cannot be read (base/mapped_file.hpp); standard descriptors that were closed do not become
/// files. Returns the arguments without the program's name. Local.
std::vector<std::string> prepare_process(int argc, char** argv);

/// Writes `answer` to standard output, on the first process only. Returns the exit code. Local.
int give_answer(const Tool& tool, const std::string& answer);

/// Starts the job within the limit of `start_up` (comm/start_watch.hpp) and runs `work` in it. When the ranks agree on
/// the outcome, one of them explains a failure, and all return the same code: the worst. A failure that the others do
/// not come to learn of within 2 s ends the job from the rank that has it, with what it was doing. Collective over the
/// job.
int run_job(const Tool& tool, const CommonOptions& common, const StartUp& start_up, const StartJob& start,
            const std::function<int(Session&, Log&)>& work);

/// What `work` returns; what it refuses says which words of another trainer stand behind the options that it names.
/// Local.
int in_words_of_user(const Settings& settings, const std::function<int()>& work);

template <class Config>
int run_tool(int argc, char** argv, const StartJob& start, const ToolBody<Config>& body) {
  const std::vector<std::string> arguments = prepare_process(argc, argv);
  const Tool tool = tool_of(Config{});
  CommandLine<Config> line;
  std::exception_ptr problem;
  try {
    line = parse_command_line<Config>(arguments);
  } catch (...) {
    problem = std::current_exception();  // explained once, by one rank: when the job has started
  }
  if (line.answer) return give_answer(tool, *line.answer);
  StartUp start_up;
  if (!problem) start_up = start_up_of(line.config);
  if (line.common.dry_run) start_up.run_dir.clear();
  return run_job(tool, line.common, start_up, start, [&](Session& session, Log& log) {
    if (problem) std::rethrow_exception(problem);
    Output output(line.common, line.settings, log);
    const int code = in_words_of_user(line.settings, [&] { return body(line.config, session, output); });
    output.close();
    return code;
  });
}

}  // namespace lockstep
