#include "base/file_lock.hpp"

#include "base/error.hpp"
#include "harness/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(file_lock)

namespace {
int flock_error = 0;  // what flock answers in this program; 0: the system decides

struct FlockFails {
  explicit FlockFails(int error) { flock_error = error; }
  ~FlockFails() { flock_error = 0; }
};
}  // namespace

extern "C" int flock_of_this_program(int file, int operation) noexcept __asm__("flock");
int flock_of_this_program(int file, int operation) noexcept {
  if (flock_error == 0) return static_cast<int>(::syscall(SYS_flock, file, operation));
  errno = flock_error;
  return -1;
}

using namespace lockstep;

namespace {
constexpr FileLock::LeaseTimes quick{.refresh_s = 0.05, .patience_s = 1.5};
constexpr FileLock::LeaseTimes patient{.refresh_s = 0.05,
                                       .patience_s = 1e9};  // as soon as a lease is refreshed it ends

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// What taking the lock says, or nothing if it was taken.
std::optional<Error> refusal(const Path& path, const FileLock::LeaseTimes& times = patient) {
  try {
    const FileLock lock(path, "the thing is in use", "wait for it", times);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

void check_exclusive(const Path& path) {
  {
    const FileLock lock(path, "the thing is in use", "wait for it", quick);
    const auto error = refusal(path);
    BOOST_REQUIRE(error);
    BOOST_CHECK(error->code() == ExitCode::usage);
    BOOST_TEST(has(error->what(), fmt::format("the thing is in use by process {} on ", ::getpid())));
    BOOST_TEST(lock.is_held());
  }
  BOOST_TEST(!refusal(path));
  BOOST_TEST(list_folder(path.parent_path()).empty());
}

/// A child that takes the lock and is killed while it holds it.
void hold_in_a_killed_process(const Path& path) {
  int ready[2];
  BOOST_REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock lock(path, "the thing is in use", "", quick);
    (void)!::write(ready[1], "x", 1);
    while (true) ::pause();
  }
  char byte = 0;
  BOOST_REQUIRE(::read(ready[0], &byte, 1) == 1);
  BOOST_TEST(refusal(path).has_value());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}
}  // namespace

BOOST_AUTO_TEST_CASE(one_process_holds_a_lock_at_a_time_and_leaves_nothing) {
  const TemporaryFolder folder;
  check_exclusive(folder.path / "lock");
}

BOOST_AUTO_TEST_CASE(without_flock_a_lease_does_the_same) {
  for (const int error : {ENOSYS, ENOLCK, EOPNOTSUPP}) {
    const FlockFails fails(error);
    const TemporaryFolder folder;
    check_exclusive(folder.path / "lock");
  }
}

BOOST_AUTO_TEST_CASE(a_killed_process_holds_nothing) {
  for (const int error : {0, ENOSYS}) {
    const FlockFails fails(error);
    const TemporaryFolder folder;
    hold_in_a_killed_process(folder.path / "lock");
    BOOST_TEST(!refusal(folder.path / "lock"));  // known without patience, which would outlast the test
  }
}

BOOST_AUTO_TEST_CASE(a_lease_of_another_machine_is_taken_once_it_is_not_refreshed) {
  const FlockFails fails(ENOSYS);
  const TemporaryFolder folder;
  const Path lease = folder.path / "lock.lease";
  publish_file(lease, "process 1 on elsewhere since long ago\nanother machine\n");
  {
    std::jthread refreshing([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        (void)::utimensat(AT_FDCWD, lease.c_str(), nullptr, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    const auto error = refusal(folder.path / "lock");
    BOOST_REQUIRE(error);
    BOOST_TEST(has(error->what(), "by process 1 on elsewhere since long ago"));
  }
  BOOST_TEST(!refusal(folder.path / "lock", quick));
  BOOST_TEST(list_folder(folder.path).empty());
}

BOOST_AUTO_TEST_CASE(a_holder_learns_that_its_lock_was_taken_away) {
  const FlockFails fails(ENOSYS);
  const TemporaryFolder folder;
  const FileLock lock(folder.path / "lock", "", "", quick);
  publish_file(folder.path / "lock.lease", "process 1 on elsewhere\n\n");
  BOOST_TEST(!lock.is_held());
}

BOOST_AUTO_TEST_CASE(other_errors_have_their_own_names) {
  const TemporaryFolder folder;
  const FlockFails fails(EIO);
  const auto error = refusal(folder.path / "lock");
  BOOST_REQUIRE(error);
  BOOST_CHECK(error->code() == ExitCode::storage);
  BOOST_TEST(has(error->what(), "Input/output error"));
}

BOOST_AUTO_TEST_CASE(a_file_link_or_fifo_of_a_stranger_is_no_lock_and_stays_as_it_is) {
  const TemporaryFolder folder;
  const Path lock = folder.path / "lock";
  publish_file(folder.path / "letter", "dear");
  for (const auto& make : std::vector<std::function<void()>>{
           [&] { publish_file(lock, "dear"); },
           [&] { std::filesystem::create_symlink("letter", lock); },
           [&] { std::filesystem::create_symlink("nowhere", lock); },
           [&] { BOOST_REQUIRE(::mkfifo(lock.c_str(), 0600) == 0); },
       }) {
    make();
    BOOST_TEST(refusal(lock).has_value());
    BOOST_TEST(read_file(folder.path / "letter") == "dear");
    BOOST_TEST(list_folder(folder.path).size() == 2u);
    remove_tree(lock);
  }
}

BOOST_AUTO_TEST_SUITE_END()
