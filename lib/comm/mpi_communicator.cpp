#include "comm/mpi_communicator.hpp"

#include "base/error.hpp"
#include "comm/local_work.hpp"
#include "comm/peer_memory.hpp"
#include "comm/reduction.hpp"
#include "comm/waiting.hpp"

#include <mpi.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

namespace lockstep {

namespace {

constexpr std::size_t reduce_piece = std::size_t{1} << 20;  // bytes reduced at once: operands and result stay in cache
constexpr std::size_t direct_reduce =
    std::size_t{4} << 20;  // bytes from which reading each other's memory pays for its three meetings
constexpr std::size_t small_reduce = std::size_t{8} << 10;    // bytes up to which one exchange is cheaper than two
constexpr std::size_t message_piece = std::size_t{64} << 20;  // bytes a message, far below MPI's limit of 2^31

void check(int status, const std::string& communicator, const char* tried) {
  if (status == MPI_SUCCESS) return;
  std::string reason(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  if (MPI_Error_string(status, reason.data(), &length) != MPI_SUCCESS) length = 0;
  reason.resize(static_cast<std::size_t>(length));
  fail(ExitCode::communication, "{} over {} failed: {}", tried, communicator, reason);
}

class MpiCommunicator final : public Communicator {
 public:
  /// Takes ownership of `handle`.
  MpiCommunicator(MPI_Comm handle, std::string name, LargeReductions large)
      : handle_(handle), name_(std::move(name)), large_(large) {
    MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(handle_, &rank_);
    MPI_Comm_size(handle_, &size_);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank_);
  }

  /// Releases the handle where that is safe: not after MPI has ended, and not while a failure unwinds past collectives
  /// in flight.
  ~MpiCommunicator() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0 && std::uncaught_exceptions() == 0) MPI_Comm_free(&handle_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const override { return name_; }
  int world_rank() const override { return world_rank_; }

  void barrier() override {
    LocalWork::forbid_collective("barrier");
    const Waiting waiting;
    check(MPI_Barrier(handle_), name_, "barrier");
  }

  void all_reduce(std::span<std::byte> bytes, DType dtype, Reduce reduce) override {
    LocalWork::forbid_collective("all_reduce");
    const auto width = static_cast<std::size_t>(size_of(dtype));
    invariant(bytes.size() % width == 0, "all_reduce takes whole elements");
    if (size_ == 1) return;
    const Waiting waiting;
    if (bytes.size() >= direct_reduce && can_read_all()) return reduce_directly(bytes, dtype, reduce);
    const std::size_t stride = static_cast<std::size_t>(size_) * width;  // one element for each rank
    const std::size_t piece = std::max(reduce_piece / stride, std::size_t{1}) * stride;
    while (bytes.size() > std::max(small_reduce, stride)) {
      const std::size_t whole = std::min(piece, bytes.size() / stride * stride);
      reduce_scattered(bytes.first(whole), dtype, reduce);
      bytes = bytes.subspan(whole);
    }
    reduce_everywhere(bytes, dtype, reduce);
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    LocalWork::forbid_collective("broadcast");
    invariant(root >= 0 && root < size_, "the root of a broadcast is one of its ranks");
    if (size_ == 1) return;
    const Waiting waiting;
    while (!bytes.empty()) {
      const std::size_t piece = std::min(message_piece, bytes.size());
      check(MPI_Bcast(bytes.data(), static_cast<int>(piece), MPI_BYTE, root, handle_), name_, "broadcast");
      bytes = bytes.subspan(piece);
    }
  }

  std::vector<std::string> all_gather(const std::string& bytes) override {
    LocalWork::forbid_collective("all_gather");
    if (size_ == 1) return {bytes};
    const Waiting waiting;
    const auto ranks = static_cast<std::size_t>(size_);
    std::uint64_t length = bytes.size();
    std::vector<std::uint64_t> lengths(ranks);
    check(MPI_Allgather(&length, 1, MPI_UINT64_T, lengths.data(), 1, MPI_UINT64_T, handle_), name_,
          "all_gather of lengths");
    const std::uint64_t total = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
    if (total > message_piece) return gather_by_broadcast(bytes, lengths);
    std::vector<int> counts(lengths.begin(), lengths.end());
    std::vector<int> begins(ranks);
    std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), 0);
    std::string all(total, '\0');
    check(MPI_Allgatherv(bytes.data(), static_cast<int>(length), MPI_BYTE, all.data(), counts.data(), begins.data(),
                         MPI_BYTE, handle_),
          name_, "all_gather");
    std::vector<std::string> parts;
    for (std::size_t r = 0; r < ranks; ++r)
      parts.push_back(all.substr(static_cast<std::size_t>(begins[r]), lengths[r]));
    return parts;
  }

  std::unique_ptr<Communicator> split(int colour, const std::string& name) override {
    LocalWork::forbid_collective("split");
    const Waiting waiting;
    invariant(colour >= 0, "the colour of a split is 0 or more");
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(handle_, colour, rank_, &part), name_, "split");
    return std::make_unique<MpiCommunicator>(part, name, large_);
  }

  void abort(int code) noexcept override {
    std::signal(SIGALRM, SIG_DFL);
    ::alarm(10);  // should MPI itself hang, this process still ends, and the launcher ends the others
    MPI_Abort(MPI_COMM_WORLD, code);
    ::_exit(code);
  }

 private:
  void halfway() const {
    const Waiting::Pause computes;
    call_hook();
  }

  /// Small or indivisible: every rank gets all operands and reduces them all.
  void reduce_everywhere(std::span<std::byte> bytes, DType dtype, Reduce reduce) {
    if (bytes.empty()) return;
    operands_.resize(bytes.size() * static_cast<std::size_t>(size_));
    const int count = static_cast<int>(bytes.size());
    halfway();
    check(MPI_Allgather(bytes.data(), count, MPI_BYTE, operands_.data(), count, MPI_BYTE, handle_), name_,
          "all_reduce");
    reduce_in_order(operands_of(bytes.size()), bytes, dtype, reduce);
  }

  /// Each rank gets all operands of its slice, reduces them in rank order, and all exchange the results.
  void reduce_scattered(std::span<std::byte> bytes, DType dtype, Reduce reduce) {
    operands_.resize(bytes.size());
    const std::size_t slice = bytes.size() / static_cast<std::size_t>(size_);
    const int count = static_cast<int>(slice);
    check(MPI_Alltoall(bytes.data(), count, MPI_BYTE, operands_.data(), count, MPI_BYTE, handle_), name_,
          "all_reduce (scatter)");
    halfway();
    reduce_in_order(operands_of(slice), bytes.subspan(static_cast<std::size_t>(rank_) * slice, slice), dtype, reduce);
    check(MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, bytes.data(), count, MPI_BYTE, handle_), name_,
          "all_reduce (gather)");
  }

  /// Where the ranks' operands of `length` bytes each lie in operands_.
  std::vector<const std::byte*> operands_of(std::size_t length) const {
    std::vector<const std::byte*> all;
    for (int rank = 0; rank < size_; ++rank) all.push_back(operands_.data() + static_cast<std::size_t>(rank) * length);
    return all;
  }

  /// Whether every rank can read the memory of every other one: found out once, by all.
  bool can_read_all() {
    if (!peers_) {
      peers_.emplace(static_cast<std::size_t>(size_));
      const Peer mine = this_process();
      check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, peers_->data(), sizeof mine, MPI_BYTE, handle_), name_,
            "exchange of process numbers");
      int readable = large_ == LargeReductions::read_directly && std::ranges::all_of(*peers_, is_readable) ? 1 : 0;
      check(MPI_Allreduce(MPI_IN_PLACE, &readable, 1, MPI_INT, MPI_MIN, handle_), name_,
            "agreement on direct reductions");
      if (readable == 0) peers_->clear();
    }
    return !peers_->empty();
  }

  /// Each rank reads the operands of its slice where they are, reduces them in rank order, and then reads the other
  /// ranks' results.
  void reduce_directly(std::span<std::byte> bytes, DType dtype, Reduce reduce) {
    const auto ranks = static_cast<std::size_t>(size_), width = static_cast<std::size_t>(size_of(dtype));
    const auto address = reinterpret_cast<std::uint64_t>(bytes.data());
    std::vector<std::uint64_t> addresses(ranks);
    MPI_Request arrival = MPI_REQUEST_NULL;  // also says that all operands are there
    check(MPI_Iallgather(&address, 1, MPI_UINT64_T, addresses.data(), 1, MPI_UINT64_T, handle_, &arrival), name_,
          "all_reduce (addresses)");
    await(arrival);
    halfway();
    const auto slice_of = [&](std::size_t rank) {
      const std::size_t elements = bytes.size() / width, begin = elements * rank / ranks,
                        end = elements * (rank + 1) / ranks;
      return bytes.subspan(begin * width, (end - begin) * width);
    };
    const auto read = [&](std::size_t rank, std::span<const std::byte> part, std::span<std::byte> into) {
      // Of a rank that has ended nothing comes. Then the next meeting does not happen, and who watches over the ranks
      // ends the job.
      read_memory((*peers_)[rank], addresses[rank] + static_cast<std::uint64_t>(part.data() - bytes.data()), into);
    };
    const std::size_t piece = std::max(reduce_piece / ranks / width, std::size_t{1024}) * width;
    for (std::span<std::byte> rest = slice_of(static_cast<std::size_t>(rank_)); !rest.empty();) {
      const std::span<std::byte> part = rest.first(std::min(piece, rest.size()));
      operands_.resize(std::max(operands_.size(), part.size() * ranks));
      std::vector<const std::byte*> operands = operands_of(part.size());
      for (std::size_t rank = 0; rank < ranks; ++rank)
        if (rank != static_cast<std::size_t>(rank_))
          read(rank, part, std::span(operands_).subspan(rank * part.size(), part.size()));
      operands[static_cast<std::size_t>(rank_)] = part.data();
      reduce_in_order(operands, part, dtype, reduce);
      rest = rest.subspan(part.size());
    }
    meet();  // all slices are reduced
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (rank != static_cast<std::size_t>(rank_)) read(rank, slice_of(rank), slice_of(rank));
    meet();  // nobody reads here any more
  }

  void meet() {
    MPI_Request all = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(handle_, &all), name_, "all_reduce (meeting)");
    await(all);
  }

  /// Waits without keeping a core busy: beside a lane's thread another one computes.
  void await(MPI_Request& request) {
    constexpr int polls_awake = 50;
    for (int done = 0, polls = 0;; ++polls) {
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), name_, "all_reduce (waiting)");
      if (done != 0) return;
      if (polls >= polls_awake) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  std::vector<std::string> gather_by_broadcast(const std::string& bytes, const std::vector<std::uint64_t>& lengths) {
    std::vector<std::string> parts;
    for (int root = 0; root < size_; ++root) {
      std::string& part =
          parts.emplace_back(root == rank_ ? bytes : std::string(lengths[static_cast<std::size_t>(root)], '\0'));
      broadcast(std::as_writable_bytes(std::span<char>(part)), root);
    }
    return parts;
  }

  MPI_Comm handle_;
  std::string name_;
  int rank_ = 0;
  int size_ = 1;
  int world_rank_ = 0;
  LargeReductions large_;
  std::optional<std::vector<Peer>> peers_;  // by rank, once asked for; empty if some memory cannot be read
  std::vector<std::byte> operands_;         // kept from call to call: fresh memory costs more than the reduction
};

}  // namespace

std::unique_ptr<Communicator> mpi_world(LargeReductions large) {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "world", "duplication");
  return std::make_unique<MpiCommunicator>(copy, "world", large);
}

}  // namespace lockstep
