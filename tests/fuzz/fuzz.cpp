// fuzz [--inputs N] [--seed S] [--target PART-OF-NAME] [--first K] [--keep FILE]: reads N faulty inputs of each target
// and prints TAP. An input passes if its reader accepts it or refuses it with an Error that names the file, within
// bounds of time and memory. Children read, so that a crash ends no more than one input; it is then named, and
// `--target T --seed S --first K --inputs 1` repeats it
// (--keep writes it to a file).
#include "base/clock.hpp"
#include "base/error.hpp"
#include "fuzz/targets.hpp"
#include "harness/temporary_folder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

// What the run-times of sanitizers ask for, where the program has them: a large allocation, a leak, each undefined
// operation is a finding.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=1024:quarantine_size_mb=32:detect_leaks=1:handle_abort=1:detect_stack_use_after_"
         "return=0:intercept_tls_get_addr=0";  // of the last see harness/mpirun.sh
}
// What the library forgets of files that it refuses; of sound ones it forgets nothing.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5\n"; }
extern "C" const char* __lsan_default_options();
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }
extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1"; }

namespace lockstep::test {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

void put_file(const Path& path, std::string_view content) {
  const FileDescriptor file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  write_at(file, std::as_bytes(std::span(content)), 0, path);
}

void refuse(Target& target, const std::string& pointer, const Json& value) {
  Json document = Json::parse(target.seeds.front());
  document[Json::json_pointer(pointer)] = value;
  Dice dice(0, "refused", 0);
  target.refused.push_back(target.seal(to_text(document, 1), dice));
}

namespace {

constexpr std::string_view sanitizers = LOCKSTEP_SANITIZERS;  // "address,undefined", or "none"
constexpr bool sanitized = sanitizers != "none";
constexpr unsigned longest_s = sanitized ? 60 : 20;            // of the processor, that one input may take
constexpr unsigned longest_wait_s = 600;                       // with all that it waits for
constexpr std::uint64_t most_memory = std::uint64_t{1} << 30;  // that the inputs of a child may add
constexpr int most_findings = 5;                               // of a target, before it is given up
constexpr std::array<ExitCode, 4> refusals{ExitCode::usage, ExitCode::input, ExitCode::storage, ExitCode::resources};

struct Choices {
  std::uint64_t inputs = 300;
  std::uint64_t seed = 1;
  std::uint64_t first = 0;
  std::string target;
  std::string keep;
};

/// What a child has done, in memory that its parent sees.
struct Progress {
  std::uint64_t number = 0;  // of the input that is being read
  std::uint64_t accepted = 0;
  std::array<std::uint64_t, refusals.size()> refused{};
  double slowest_s = 0;
  std::array<char, 1000> finding{};  // of a child that ended with 1
};

/// The first inputs are known: the seeds, which must be accepted, then those that must be refused.
std::uint64_t known_inputs(const Target& target) { return target.seeds.size() + target.refused.size(); }

std::string input_of(const Target& target, const Mutator& mutator, std::uint64_t seed, std::uint64_t number) {
  if (number < target.seeds.size()) return target.seeds[number];
  if (number < known_inputs(target)) return target.refused[number - target.seeds.size()];
  Dice dice(seed, target.name, number);
  if (target.made && dice.one_in(2)) return target.made(dice);
  std::string input = mutator.mutated(dice);
  return target.seal && !dice.one_in(8) ? target.seal(std::move(input), dice) : input;
}

/// Reads one input and counts what came of it; what is wrong with that is thrown.
void judge(const Target& target, const std::string& input, std::uint64_t number, Progress& progress) {
  const bool valid = number < target.seeds.size();
  try {
    target.read(input);
    ++progress.accepted;
    require(valid || number >= known_inputs(target), "an input that must be refused is accepted");
  } catch (const Error& error) {
    const auto kind = std::ranges::find(refusals, error.code());
    const std::string message = error.what();
    require(!valid, fmt::format("a valid input is refused: {}", message));
    require(kind != refusals.end(), fmt::format("error of kind {}: {}", name_of(error.code()), message));
    const auto is_in = [&](const std::string& name) { return message.find(name) != std::string::npos; };
    require(target.names.empty() || std::ranges::any_of(target.names, is_in),
            fmt::format("the error does not name the file: {}", message));
    ++progress.refused[static_cast<std::size_t>(kind - refusals.begin())];
  }
}

/// Sanitizers have mapped terabytes by now, so that the bound is on what is added.
void bound_memory() {
  std::uint64_t pages = 0;  // private and writable: the sixth number
  std::ifstream statm("/proc/self/statm");
  for (int i = 0; i < 6; ++i) statm >> pages;
  rlimit memory{};
  ::getrlimit(RLIMIT_DATA, &memory);
  memory.rlim_cur = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + most_memory;
  require(!statm.fail() && ::setrlimit(RLIMIT_DATA, &memory) == 0, "the memory of a child can be bounded");
}

/// From now on; 0: no more.
void bound_time(unsigned of_processor_s, unsigned in_all_s) {
  const itimerval processor{.it_interval = {}, .it_value = {.tv_sec = of_processor_s, .tv_usec = 0}};
  require(::setitimer(ITIMER_PROF, &processor, nullptr) == 0, "the time of a child can be bounded");
  ::alarm(in_all_s);
}

[[noreturn]] void read_inputs(const Target& target, const Choices& choices, std::uint64_t end, Progress& progress) {
  bound_memory();
  const Mutator mutator(target.seeds, target.words);
  for (; progress.number < end; ++progress.number) {
    bound_time(longest_s, longest_wait_s);
    const std::string input = input_of(target, mutator, choices.seed, progress.number);
    if (!choices.keep.empty()) put_file(choices.keep, input);
    const double start_s = monotonic_seconds();
    try {
      judge(target, input, progress.number, progress);
    } catch (const std::exception& finding) {
      std::snprintf(progress.finding.data(), progress.finding.size(), "%s", finding.what());
      ::_exit(1);
    }
    bound_time(0, 0);
    progress.slowest_s = std::max(progress.slowest_s, monotonic_seconds() - start_s);
  }
  std::exit(0);  // with the destructors and the search for leaks of an ordinary end
}

std::string end_of(int status, const Progress& progress) {
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    return code == 1 && progress.finding[0] != '\0' ? progress.finding.data()
                                                    : fmt::format("the reader ended the program with code {}", code);
  }
  const int signal = WTERMSIG(status);
  if (signal == SIGPROF) return fmt::format("more than {} s of the processor", longest_s);
  return signal == SIGALRM ? fmt::format("more than {} s", longest_wait_s)
                           : fmt::format("crash: {}", ::strsignal(signal));
}

std::string counts_of(const Progress& progress) {
  std::string text = fmt::format("accepted {}, refused", progress.accepted);
  for (std::size_t i = 0; i < refusals.size(); ++i) {
    if (progress.refused[i] > 0) text += fmt::format(" {} as {}", progress.refused[i], name_of(refusals[i]));
  }
  return text;
}

/// Runs one target; the findings.
std::vector<std::string> run(const Target& target, const Choices& choices, Progress& progress, std::uint64_t end) {
  std::vector<std::string> findings;
  progress = {.number = choices.first};
  while (progress.number < end && findings.size() < most_findings) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) fail_errno("start", "a child process");
    if (child == 0) read_inputs(target, choices, end, progress);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status == 0) break;
    findings.push_back(fmt::format("input {}: {}", progress.number, end_of(status, progress)));
    ++progress.number;
    progress.finding[0] = '\0';
  }
  return findings;
}

Choices parse(int count, char** words) {
  Choices choices;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view name = words[i];
    const std::string value = words[i + 1];
    if (name == "--inputs")
      choices.inputs = std::stoull(value);
    else if (name == "--seed")
      choices.seed = std::stoull(value);
    else if (name == "--first")
      choices.first = std::stoull(value);
    else if (name == "--target")
      choices.target = value;
    else if (name == "--keep")
      choices.keep = value;
    else
      fail(ExitCode::usage, "unknown option {}", name);
  }
  return choices;
}

std::vector<Target> all_targets(const Path& folder) {
  std::vector<Target> targets;
  for (const auto make : {config_targets, store_targets, checkpoint_targets, run_targets, exchange_targets,
                          remote_targets, corpus_targets, chat_targets}) {
    const Path own = folder / fmt::format("{}", targets.size());
    make_folder(own);
    for (Target& target : make(own)) targets.push_back(std::move(target));
  }
  return targets;
}

int fuzz(const Choices& choices) {
  const TemporaryFolder folder;
  void* const shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail_errno("share", "memory with a child");
  Progress& progress = *new (shared) Progress;
  int tests = 0;
  int failed = 0;
  std::uint64_t inputs = 0;
  for (const Target& target : all_targets(folder.path)) {
    if (target.name.find(choices.target) == std::string::npos) continue;
    const auto asked = static_cast<std::uint64_t>(std::ceil(static_cast<double>(choices.inputs) * target.share));
    const std::uint64_t end = choices.first + asked + (choices.first == 0 ? known_inputs(target) : 0);
    const double start_s = monotonic_seconds();
    const std::vector<std::string> findings = run(target, choices, progress, end);
    std::printf("%s %d - damaged %s is read or refused\n", findings.empty() ? "ok" : "not ok", ++tests,
                target.name.c_str());
    for (const std::string& finding : findings) std::printf("# %s\n", finding.c_str());
    std::printf("# seed %llu, %llu inputs: %s; %.1f s, slowest %.0f ms\n",
                static_cast<unsigned long long>(choices.seed), static_cast<unsigned long long>(end - choices.first),
                counts_of(progress).c_str(), monotonic_seconds() - start_s, progress.slowest_s * 1e3);
    std::fflush(stdout);
    failed += findings.empty() ? 0 : 1;
    inputs += end - choices.first;
  }
  std::printf("1..%d\n# %llu inputs in all%s\n", tests, static_cast<unsigned long long>(inputs),
              sanitized ? fmt::format(", under sanitizers ({})", sanitizers).c_str() : "");
  return failed == 0 && tests > 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::test

int main(int count, char** words) {
  try {
    return lockstep::test::fuzz(lockstep::test::parse(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz: %s\n", error.what());
    return 70;
  }
}
