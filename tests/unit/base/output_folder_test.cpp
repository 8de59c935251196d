#include "base/output_folder.hpp"

#include "base/error.hpp"
#include "harness/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>

BOOST_AUTO_TEST_SUITE(output_folder)

namespace {
int exchange_error = 0;   // what RENAME_EXCHANGE answers in this program; 0: the system decides
int rename_error = 0;     // and rename onto a name that ends in "out"
int rename_failures = 1;  // so often
int exchanges_left = -1;  // exchanges that succeed before they fail with EIO; negative: the system decides
int syncs_left = -1;      // syncs that succeed before one fails with EIO; negative: the system decides
int steps_to_live = -1;   // changes of names that this process makes before it is killed; negative: it is not

void count_step() {
  if (steps_to_live >= 0 && steps_to_live-- == 0) ::raise(SIGKILL);
}

bool is_out(const char* path) { return std::string_view(path).ends_with("/out"); }

struct Without {
  int& error;
  Without(int& which, int value) : error(which) { error = value; }
  ~Without() { error = 0; }
};
}  // namespace

extern "C" {

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  count_step();
  if (exchanges_left == 0) {
    errno = EIO;
    return -1;
  }
  if (exchanges_left > 0) --exchanges_left;
  if (exchange_error == 0) return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  errno = exchange_error;
  return -1;
}

int rename(const char* from, const char* to) noexcept {
  count_step();
  if (rename_error == 0 || !is_out(to)) return static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
  errno = rename_error;
  if (--rename_failures == 0) rename_error = 0;
  return -1;
}

int fsync(int file) noexcept {
  if (syncs_left >= 0 && syncs_left-- == 0) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, file));
}

int mkdir(const char* path, mode_t mode) noexcept {
  count_step();
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int unlink(const char* path) noexcept {
  count_step();
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  count_step();
  return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}

int rmdir(const char* path) noexcept {
  count_step();
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

}  // extern "C"

using namespace lockstep;

namespace {
OutputKind letters() {
  return {.name = "letter", .marker = "SEAL", .files = [](const Path&) {
            return std::set<Path>{"SEAL", "text", "below/more"};
          }};
}

void fill(const OutputFolder& folder, const std::string& text) {
  make_folder(folder.content() / "below");
  publish_file(folder.content() / "below/more", text);
  publish_file(folder.content() / "text", text);
  publish_file(folder.content() / "SEAL", text);
}

void make(const Path& target, const std::string& text, Existing existing = Existing::refuse) {
  OutputFolder folder(target, letters(), existing);
  fill(folder, text);
  folder.publish();
}

/// The whole letter that stands there.
std::string letter_at(const Path& target) {
  const std::string text = read_file(target / "SEAL");
  BOOST_TEST(read_file(target / "text") == text);
  BOOST_TEST(read_file(target / "below/more") == text);
  BOOST_TEST(list_folder(target).size() == 3u);
  return text;
}

std::optional<Error> refusal(const Path& target, Existing existing) {
  try {
    const OutputFolder folder(target, letters(), existing);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

void check_refused(const Path& target, Existing existing, const std::string& reason) {
  const auto error = refusal(target, existing);
  BOOST_REQUIRE(error);
  BOOST_CHECK(error->code() == ExitCode::usage);
  BOOST_TEST(std::string(error->what()).find(reason) != std::string::npos, error->what());
}

std::size_t names_in(const Path& folder) { return list_folder(folder).size(); }

/// What a process leaves that makes a letter and is killed before its change of a name with this number; whether it
/// was.
bool make_and_be_killed(const Path& target, const std::string& text, int steps) {
  const pid_t child = ::fork();
  if (child == 0) {
    steps_to_live = steps;
    int code = 0;
    try {
      make(target, text, Existing::replace);
    } catch (...) {
      code = 1;
    }
    ::_exit(code);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_REQUIRE((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
  return WIFSIGNALED(status);
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_folder_appears_when_it_is_published_and_not_before) {
  const TemporaryFolder folder;
  {
    OutputFolder output(folder.path / "out/", letters(), Existing::refuse);
    fill(output, "dear");
    make_folder(output.scratch());
    publish_file(output.scratch() / "draft", "d");
    BOOST_TEST(!is_there(folder.path / "out"));
    output.publish();
  }
  BOOST_TEST(letter_at(folder.path / "out") == "dear");
  BOOST_TEST(names_in(folder.path) == 1u);
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_not_published_leaves_nothing) {
  const TemporaryFolder folder;
  {
    OutputFolder output(folder.path / "out", letters(), Existing::refuse);
    fill(output, "dear");
  }
  BOOST_TEST(names_in(folder.path) == 0u);
}

BOOST_AUTO_TEST_CASE(of_two_processes_only_the_first_makes_a_folder_until_it_is_whole) {
  const TemporaryFolder folder;
  const Path out = folder.path / "out";
  {
    OutputFolder output(out, letters(), Existing::refuse);
    fill(output, "dear");
    check_refused(out, Existing::replace, "is being made by process");
    output.publish();
    check_refused(out, Existing::replace, "is being made by process");
  }
  BOOST_TEST(letter_at(out) == "dear");
  make(out, "dearest", Existing::replace);
  BOOST_TEST(letter_at(out) == "dearest");
}

BOOST_AUTO_TEST_CASE(an_empty_folder_is_a_free_place) {
  const TemporaryFolder folder;
  make_folder(folder.path / "out");
  make(folder.path / "out", "dear");
  BOOST_TEST(letter_at(folder.path / "out") == "dear");
}

BOOST_AUTO_TEST_CASE(only_an_earlier_folder_of_the_kind_is_replaced_and_only_when_asked) {
  const TemporaryFolder folder;
  const Path out = folder.path / "out";
  publish_file(folder.path / "file", "x");
  make_folder(folder.path / "home");
  publish_file(folder.path / "home/thesis", "years of work");
  std::filesystem::create_symlink("home", folder.path / "link");
  check_refused(folder.path / "file", Existing::replace, "a file is there");
  check_refused(folder.path / "link", Existing::replace, "a link is there");
  check_refused(folder.path / "home", Existing::replace, "a folder that holds no SEAL");
  make(out, "old");
  check_refused(out, Existing::refuse, "there is one already");
  BOOST_TEST(letter_at(out) == "old");
  make(out, "new", Existing::replace);
  BOOST_TEST(letter_at(out) == "new");
  BOOST_TEST(names_in(folder.path) == 4u);
}

BOOST_AUTO_TEST_CASE(what_the_program_did_not_write_keeps_a_folder_from_being_replaced) {
  const TemporaryFolder folder;
  const Path out = folder.path / "out";
  make(out, "old");
  publish_file(out / "below/notes", "mine");
  check_refused(out, Existing::replace, "it holds below/notes, which is not part of it");
  remove_tree(out / "below/notes");
  remove_tree(out / "text");
  std::filesystem::create_symlink("/etc/hostname", out / "text");
  check_refused(out, Existing::replace, "it holds text, which is not part of it");
}

BOOST_AUTO_TEST_CASE(what_killed_processes_left_is_removed_and_what_is_a_strangers_is_not_even_through_links) {
  const TemporaryFolder folder;
  const Path out = folder.path / "out";
  BOOST_TEST(make_and_be_killed(out, "killed", 5));
  BOOST_TEST(names_in(folder.path) == 2u);  // the lock and the hidden folder
  make_folder(folder.path / "home");
  publish_file(folder.path / "home/thesis", "years of work");
  publish_file(folder.path / "home/.lockstep-stage", "");
  const std::string digits(32, 'a');
  for (const char* const name : {".out.unfinished", ".out.stage", ".out.stage-1"})
    std::filesystem::create_symlink("home", folder.path / name);
  std::filesystem::create_symlink("home", folder.path / (".out.stage-" + digits));
  const Path strange = folder.path / (".out.stage-" + std::string(32, 'b'));
  make_folder(strange);
  publish_file(strange / "thesis", "more work");
  make(out, "dear");
  BOOST_TEST(letter_at(out) == "dear");
  BOOST_TEST(read_file(folder.path / "home/thesis") == "years of work");
  BOOST_TEST(read_file(strange / "thesis") == "more work");
  BOOST_TEST(names_in(folder.path) == 7u);
}

BOOST_AUTO_TEST_CASE(a_lock_that_is_a_link_is_refused_and_its_target_not_touched) {
  const TemporaryFolder folder;
  publish_file(folder.path / "thesis", "years of work");
  std::filesystem::create_symlink("thesis", folder.path / ".out.lock");
  BOOST_TEST(refusal(folder.path / "out", Existing::refuse).has_value());
  BOOST_TEST(read_file(folder.path / "thesis") == "years of work");
}

BOOST_AUTO_TEST_CASE(no_kill_leaves_a_partial_folder_or_none_and_the_next_process_cleans_up) {
  for (const int error : {0, EINVAL, ENOSYS}) {
    const Without exchange(exchange_error, error);
    int moments_without = 0;
    bool killed = true;
    for (int steps = 0; killed; ++steps) {
      const TemporaryFolder folder;
      const Path out = folder.path / "out";
      make(out, "old");
      killed = make_and_be_killed(out, "new", steps);
      if (is_there(out)) {
        const std::string text = letter_at(out);
        BOOST_TEST((text == "old" || text == "new"));
        BOOST_TEST(!moved_away_from(out).has_value());
      } else {  // without exchange: for a moment both are whole under hidden names
        ++moments_without;
        const auto earlier = moved_away_from(out);
        BOOST_REQUIRE(earlier);
        BOOST_TEST(letter_at(*earlier) == "old");
        check_refused(out, Existing::refuse, "cannot create the letter");  // also a start that changes nothing helps
        BOOST_TEST(letter_at(out) == "old");
      }
      make(out, "newest", Existing::replace);
      BOOST_TEST(letter_at(out) == "newest");
      BOOST_TEST(names_in(folder.path) == 1u);
      BOOST_REQUIRE(steps < 100);
    }
    BOOST_TEST(moments_without == (error == 0 ? 0 : 1));
  }
}

BOOST_AUTO_TEST_CASE(a_failure_while_publishing_leaves_what_was_there) {
  for (const auto& [exchange_fails, rename_fails] :
       {std::pair(EIO, 0), std::pair(EACCES, 0), std::pair(EINVAL, EDQUOT)}) {
    const TemporaryFolder folder;
    const Path out = folder.path / "out";
    make(out, "old");
    {
      const Without exchange(exchange_error, exchange_fails);
      const Without rename(rename_error, rename_fails);
      BOOST_CHECK_EXCEPTION(make(out, "new", Existing::replace), Error,
                            [](const Error& error) { return error.code() == ExitCode::storage; });
    }
    BOOST_TEST(letter_at(out) == "old");
    BOOST_TEST(names_in(folder.path) == 1u);
  }
}

BOOST_AUTO_TEST_CASE(an_earlier_folder_that_cannot_be_put_back_is_kept_where_the_message_says) {
  for (const bool exchanges : {false, true}) {
    const TemporaryFolder folder;
    const Path out = folder.path / "out";
    make(out, "old");
    std::string message, hint;
    {
      OutputFolder made(out, letters(), Existing::replace);
      fill(made, "new");
      const Without exchange(exchange_error, exchanges ? 0 : EINVAL);
      const Without rename(rename_error, exchanges ? 0 : EIO);
      rename_failures = 2;
      if (exchanges) {
        exchanges_left = 1;
        syncs_left = 1;  // that of the content; the next is that of the folder in which both have their names
      }
      try {
        made.publish();
        BOOST_ERROR("it was published");
      } catch (const Error& error) {
        BOOST_CHECK(error.code() == ExitCode::storage);
        message = error.what();
        hint = error.hint();
      }
      rename_failures = 1;
      exchanges_left = syncs_left = -1;
    }
    const std::size_t at = message.find("and is now in ");
    BOOST_REQUIRE(at != std::string::npos);
    const Path kept = message.substr(at + std::string_view("and is now in ").size());
    BOOST_TEST(letter_at(kept) == "old");
    BOOST_TEST(hint == fmt::format("{}mv {} {}", exchanges ? fmt::format("mv {0} {0}.new && ", out.string()) : "",
                                   kept.string(), out.string()));
    BOOST_TEST(names_in(folder.path) == (exchanges ? 2u : 1u));  // where they could be exchanged, the new one is there
    if (exchanges) continue;
    make(out, "newest", Existing::replace);  // the next process puts it back first
    BOOST_TEST(letter_at(out) == "newest");
    BOOST_TEST(names_in(folder.path) == 1u);
  }
}

BOOST_AUTO_TEST_CASE(names_that_cannot_be_are_explained) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.path / "loop");
  publish_file(folder.path / "file", "x");
  for (const Path& target :
       {folder.path / std::string(300, 'n'), folder.path / "loop/below", folder.path / "file/below"}) {
    const auto error = refusal(target, Existing::refuse);
    BOOST_REQUIRE(error);
    BOOST_CHECK(error->code() == ExitCode::storage);
  }
  check_refused("", Existing::refuse, "the name of a file or folder is empty");
}

BOOST_AUTO_TEST_SUITE_END()
