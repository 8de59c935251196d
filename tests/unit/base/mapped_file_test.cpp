#include "base/mapped_file.hpp"

#include "harness/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(mapped_file)

namespace {

const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

struct MappedPages : TemporaryFolder {
  Path file = path / "pages";
  MappedPages() { publish_file(file, std::string(3 * page, 'x')); }
};

std::size_t count_x(std::span<const std::byte> bytes) {
  return static_cast<std::size_t>(std::ranges::count(bytes, std::byte{'x'}));
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    BOOST_CHECK(error.code() == ExitCode::storage);
    return error.what();
  }
  return "no error";
}

struct ChildEnd {
  int status = 0;
  std::string told;  // on standard error
};

/// How a process ends that does this, where no handler but ours knows of SIGBUS.
ChildEnd end_of_child(const std::function<void()>& work) {
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const struct rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(ends[1], STDERR_FILENO);
    std::signal(SIGBUS, SIG_DFL);
    handle_bus_errors();
    work();
    ::_exit(0);
  }
  ::close(ends[1]);
  ChildEnd end;
  char byte = 0;
  while (::read(ends[0], &byte, 1) == 1) end.told += byte;
  ::close(ends[0]);
  BOOST_REQUIRE(::waitpid(child, &end.status, 0) == child);
  return end;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_file_that_is_cut_short_while_it_is_mapped_is_an_error_that_names_it, MappedPages) {
  const MappedFile mapped(file);
  const auto all = [&] { return count_x(mapped.bytes()); };
  BOOST_TEST(read_mapped(mapped, all) == 3 * page);
  std::filesystem::resize_file(file, page + 100);
  const std::string said = fmt::format("cannot read {} from byte {} on: it had {} bytes and was truncated while in use",
                                       file.string(), page + 100, 3 * page);
  // What lies in the page of the cut reads without a fault.
  BOOST_TEST(message_of([&] {
               read_mapped(mapped, [&] { return count_x(mapped.bytes().subspan(page + 100, 50)); });
             }) == said);
  BOOST_TEST(message_of([&] { read_mapped(mapped, all); }) == said);
  BOOST_TEST(message_of([&] {
               read_mapped(mapped, [&] { fail(ExitCode::input, "{} are none", count_x(mapped.bytes())); });
             }) == said);  // what is made of zeros is no reason
  std::filesystem::resize_file(file, 3 * page);
  BOOST_TEST(message_of([&] { require_intact(mapped); }) ==
             fmt::format("cannot read {} from byte {} on: the system could not read it", file.string(), 2 * page));
  const MappedFile again(file);
  BOOST_TEST(read_mapped(again, [&] { return count_x(again.bytes()); }) == page + 100);
}

BOOST_FIXTURE_TEST_CASE(many_threads_read_a_file_that_is_cut_short_and_others_beside_it, MappedPages) {
  const Path sound = path / "sound";
  publish_file(sound, std::string(3 * page, 'x'));
  const MappedFile mapped(file), other(sound);
  std::filesystem::resize_file(file, page);
  std::atomic<int> failed = 0, whole = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      try {
        (void)read_mapped(mapped, [&] { return count_x(mapped.bytes()); });
      } catch (const Error&) {
        ++failed;
      }
      if (read_mapped(other, [&] { return count_x(other.bytes()); }) == 3 * page) ++whole;
    });
  threads.clear();
  BOOST_TEST(failed == 8);
  BOOST_TEST(whole == 8);
}

BOOST_FIXTURE_TEST_CASE(a_file_that_lost_its_name_or_gave_it_to_another_reads_on, MappedPages) {
  const MappedFile mapped(file);
  const auto all = [&] { return count_x(mapped.bytes()); };
  publish_file(file, "short");
  BOOST_TEST(read_mapped(mapped, all) == 3 * page);
  std::filesystem::remove(file);
  BOOST_TEST(read_mapped(mapped, all) == 3 * page);
  publish_file(file, "");
  const MappedFile empty(file);
  require_intact(empty);
  BOOST_TEST(empty.bytes().empty());
}

BOOST_FIXTURE_TEST_CASE(a_fault_elsewhere_is_told_in_a_line_and_ends_the_process_as_ever, MappedPages) {
  const ChildEnd fault = end_of_child([&] {
    const FileDescriptor opened = open_file(file, O_RDWR);
    const auto* const memory =
        static_cast<const volatile char*>(::mmap(nullptr, page, PROT_READ, MAP_SHARED, opened.get(), 0));
    (void)::ftruncate(opened.get(), 0);
    (void)memory[0];
  });
  BOOST_TEST((WIFSIGNALED(fault.status) && WTERMSIG(fault.status) == SIGBUS));
  BOOST_TEST(fault.told.starts_with("bus error (SIGBUS) at address 0x"), fault.told);
  BOOST_TEST(std::ranges::count(fault.told, '\n') == 1);
  const ChildEnd sent = end_of_child([] { std::raise(SIGBUS); });
  BOOST_TEST((WIFSIGNALED(sent.status) && WTERMSIG(sent.status) == SIGBUS));
  BOOST_TEST(sent.told == "");
}

BOOST_AUTO_TEST_SUITE_END()
