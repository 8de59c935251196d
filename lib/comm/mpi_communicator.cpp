#include "comm/mpi_communicator.hpp"

#include "base/error.hpp"
#include "comm/local_work.hpp"
#include "comm/operations.hpp"
#include "comm/waiting.hpp"
#include "layout/nodes.hpp"

#include <mpi.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <numeric>

namespace lockstep {

namespace {

constexpr std::size_t message_piece = std::size_t{64} << 20;  // bytes a message, far below MPI's limit of 2^31

void check(int status, const std::string& communicator, const char* tried) {
  if (status == MPI_SUCCESS) return;
  std::string reason(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  if (MPI_Error_string(status, reason.data(), &length) != MPI_SUCCESS) length = 0;
  reason.resize(static_cast<std::size_t>(length));
  fail(ExitCode::communication, "{} over {} failed: {}", tried, communicator, reason);
}

/// The calls of MPI that do not wait, on a communicator that someone else owns.
class MpiCalls final : public NonBlocking {
 public:
  MpiCalls(MPI_Comm handle, std::string name, LargeTransfers large)
      : handle_(handle), name_(std::move(name)), large_(large) {
    MPI_Comm_rank(handle_, &rank_);
    MPI_Comm_size(handle_, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const override { return name_; }

  Call send(std::span<const std::byte> bytes, int peer, Message message) override {
    return start("send", [&](MPI_Request* request) {
      return MPI_Isend(bytes.data(), count_of(bytes), MPI_BYTE, peer, static_cast<int>(message), handle_, request);
    });
  }
  Call receive(std::span<std::byte> bytes, int peer, Message message) override {
    return start("receive", [&](MPI_Request* request) {
      return MPI_Irecv(bytes.data(), count_of(bytes), MPI_BYTE, peer, static_cast<int>(message), handle_, request);
    });
  }
  Call all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    const bool in_place = mine.data() == all.data() + static_cast<std::size_t>(rank_) * mine.size();
    const int count = count_of(mine);
    return start("all_gather", [&](MPI_Request* request) {
      return MPI_Iallgather(in_place ? MPI_IN_PLACE : mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE,
                            handle_, request);
    });
  }
  Call broadcast(std::span<std::byte> bytes, int root) override {
    return start("broadcast", [&](MPI_Request* request) {
      return MPI_Ibcast(bytes.data(), count_of(bytes), MPI_BYTE, root, handle_, request);
    });
  }
  Call barrier() override {
    return start("barrier", [&](MPI_Request* request) { return MPI_Ibarrier(handle_, request); });
  }

  bool ended(std::span<Call> calls) override {
    for (Call& call : calls) {
      if (call.handle == 0) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      std::memcpy(&request, &call.handle, sizeof request);
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), name_, "communication");
      if (done == 0) return false;
      call.handle = 0;
    }
    return true;
  }

  void agree_on_reading() override {
    asked_ = true;
    std::vector<Peer> peers(static_cast<std::size_t>(size_));
    const Peer mine = this_process();
    check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, peers.data(), sizeof mine, MPI_BYTE, handle_), name_,
          "exchange of process numbers");
    int readable = large_ == LargeTransfers::read_directly && std::ranges::all_of(peers, is_readable) ? 1 : 0;
    check(MPI_Allreduce(MPI_IN_PLACE, &readable, 1, MPI_INT, MPI_MIN, handle_), name_, "agreement on direct reading");
    if (readable != 0) readable_ = std::move(peers);
  }
  bool agreed_on_reading() const { return asked_; }

 private:
  static_assert(sizeof(MPI_Request) <= sizeof(Call::handle));

  static int count_of(std::span<const std::byte> bytes) {
    invariant(bytes.size() <= std::size_t{1} << 30, "a message has at most 1 GiB");
    return static_cast<int>(bytes.size());
  }
  template <class Start>
  Call start(const char* what, Start&& begin) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(begin(&request), name_, what);
    Call call;
    std::memcpy(&call.handle, &request, sizeof request);
    return call;
  }

  MPI_Comm handle_;
  std::string name_;
  int rank_ = 0;
  int size_ = 1;
  LargeTransfers large_;
  bool asked_ = false;
};

bool mpi_has_ended() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

/// The ranks of a communicator, to be counted against those of another one. All is local.
class Group {
 public:
  explicit Group(MPI_Comm communicator) { MPI_Comm_group(communicator, &handle_); }
  ~Group() {
    if (!mpi_has_ended()) MPI_Group_free(&handle_);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const {
    int mine = 0;
    MPI_Group_rank(handle_, &mine);
    return mine;
  }
  /// What its ranks are in `other`, by rank.
  std::vector<Rank> ranks_in(const Group& other, const std::string& name) const {
    int size = 0;
    MPI_Group_size(handle_, &size);
    std::vector<Rank> ranks(static_cast<std::size_t>(size)), result(ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    check(MPI_Group_translate_ranks(handle_, size, ranks.data(), other.handle_, result.data()), name,
          "translation of ranks");
    return result;
  }

 private:
  MPI_Group handle_ = MPI_GROUP_NULL;
};

class MpiCommunicator final : public Communicator {
 public:
  /// Takes ownership of `handle`, whose ranks are of `world`; without one this is the world.
  MpiCommunicator(MPI_Comm handle, std::string name, LargeTransfers large, std::shared_ptr<const Group> world = nullptr)
      : handle_(handle),
        large_(large),
        calls_(handle, std::move(name), large),
        world_(world ? std::move(world) : std::make_shared<Group>(handle)),
        world_rank_(world_->rank()) {
    MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN);
  }

  /// Releases the handle where that is safe: not after MPI has ended, and not while a failure unwinds past collectives
  /// in flight.
  ~MpiCommunicator() override {
    if (!mpi_has_ended() && std::uncaught_exceptions() == 0) MPI_Comm_free(&handle_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return calls_.rank(); }
  int size() const override { return calls_.size(); }
  const std::string& name() const override { return calls_.name(); }
  int world_rank() const override { return world_rank_; }
  NonBlocking& calls() override { return calls_; }

  std::vector<Rank> members() const override { return Group(handle_).ranks_in(*world_, name()); }
  std::vector<Rank> launcher_ranks() const override { return Group(handle_).ranks_in(Group(MPI_COMM_WORLD), name()); }

  void barrier() override {
    LocalWork::forbid_collective("barrier");
    const Waiting waiting;
    check(MPI_Barrier(handle_), name(), "barrier");
  }

  void all_reduce(std::span<std::byte> bytes, DType dtype, Reduce reduce) override {
    LocalWork::forbid_collective("all_reduce");
    const auto width = static_cast<std::size_t>(size_of(dtype));
    invariant(bytes.size() % width == 0, "all_reduce takes whole elements");
    if (size() == 1) return;
    const Waiting waiting;
    if (!calls_.agreed_on_reading()) calls_.agree_on_reading();
    run_to_end(lockstep::all_reduce(calls_, space_, bytes, dtype, reduce));
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    LocalWork::forbid_collective("broadcast");
    invariant(root >= 0 && root < size(), "the root of a broadcast is one of its ranks");
    if (size() == 1) return;
    const Waiting waiting;
    while (!bytes.empty()) {
      const std::size_t piece = std::min(message_piece, bytes.size());
      check(MPI_Bcast(bytes.data(), static_cast<int>(piece), MPI_BYTE, root, handle_), name(), "broadcast");
      bytes = bytes.subspan(piece);
    }
  }

  std::vector<std::string> all_gather(const std::string& bytes) override {
    LocalWork::forbid_collective("all_gather");
    if (size() == 1) return {bytes};
    const Waiting waiting;
    const auto ranks = static_cast<std::size_t>(size());
    std::uint64_t length = bytes.size();
    std::vector<std::uint64_t> lengths(ranks);
    check(MPI_Allgather(&length, 1, MPI_UINT64_T, lengths.data(), 1, MPI_UINT64_T, handle_), name(),
          "all_gather of lengths");
    const std::uint64_t total = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
    if (total > message_piece) return gather_by_broadcast(bytes, lengths);
    std::vector<int> counts(lengths.begin(), lengths.end());
    std::vector<int> begins(ranks);
    std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), 0);
    std::string all(total, '\0');
    check(MPI_Allgatherv(bytes.data(), static_cast<int>(length), MPI_BYTE, all.data(), counts.data(), begins.data(),
                         MPI_BYTE, handle_),
          name(), "all_gather");
    std::vector<std::string> parts;
    for (std::size_t r = 0; r < ranks; ++r)
      parts.push_back(all.substr(static_cast<std::size_t>(begins[r]), lengths[r]));
    return parts;
  }

  std::vector<std::string> gather(const std::string& bytes, int root) override {
    LocalWork::forbid_collective("gather");
    invariant(root >= 0 && root < size(), "the root of a gather is one of its ranks");
    if (size() == 1) return {bytes};
    const Waiting waiting;
    const std::uint64_t length = bytes.size();
    std::vector<std::uint64_t> lengths(rank() == root ? static_cast<std::size_t>(size()) : 0);
    check(MPI_Gather(&length, 1, MPI_UINT64_T, lengths.data(), 1, MPI_UINT64_T, root, handle_), name(),
          "gather of lengths");
    if (rank() != root) {
      send_in_pieces(bytes, root);
      return {};
    }
    std::vector<std::string> parts(lengths.size());
    for (int other = 0; other < size(); ++other) {
      std::string& part = parts[static_cast<std::size_t>(other)];
      part.assign(lengths[static_cast<std::size_t>(other)], '\0');
      if (other == root) part = bytes;
      if (other != root) receive_in_pieces(part, other);
    }
    return parts;
  }

  std::unique_ptr<Communicator> split(int colour, const std::string& part_name) override {
    LocalWork::forbid_collective("split");
    const Waiting waiting;
    invariant(colour >= 0, "the colour of a split is not negative");
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(handle_, colour, rank(), &part), name(), "split");
    return std::make_unique<MpiCommunicator>(part, part_name, large_, world_);
  }

  void abort(int code) noexcept override {
    std::signal(SIGALRM, SIG_DFL);
    ::alarm(10);  // should MPI itself hang, this process still ends, and the launcher ends the others
    MPI_Abort(MPI_COMM_WORLD, code);
    ::_exit(code);
  }

 private:
  std::vector<std::string> gather_by_broadcast(const std::string& bytes, const std::vector<std::uint64_t>& lengths) {
    std::vector<std::string> parts;
    for (int root = 0; root < size(); ++root) {
      std::string& part =
          parts.emplace_back(root == rank() ? bytes : std::string(lengths[static_cast<std::size_t>(root)], '\0'));
      broadcast(std::as_writable_bytes(std::span<char>(part)), root);
    }
    return parts;
  }

  static constexpr int gather_tag = 1;
  void send_in_pieces(std::string_view bytes, int to) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(message_piece, bytes.size())))
      check(MPI_Send(bytes.data(), static_cast<int>(std::min(message_piece, bytes.size())), MPI_BYTE, to, gather_tag,
                     handle_),
            name(), "gather");
  }
  void receive_in_pieces(std::span<char> bytes, int from) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(message_piece, bytes.size())))
      check(MPI_Recv(bytes.data(), static_cast<int>(std::min(message_piece, bytes.size())), MPI_BYTE, from, gather_tag,
                     handle_, MPI_STATUS_IGNORE),
            name(), "gather");
  }

  MPI_Comm handle_;
  LargeTransfers large_;
  MpiCalls calls_;
  std::shared_ptr<const Group> world_;
  int world_rank_;
  Workspace space_;
};

}  // namespace

std::unique_ptr<Communicator> mpi_world(LargeTransfers large, const std::string& node) {
  MPI_Comm copy = MPI_COMM_NULL, ordered = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "world", "duplication");
  auto launched = std::make_unique<MpiCommunicator>(copy, "world", large);
  const std::vector<Rank> order = by_node(nodes_of(launched->all_gather(node)));
  if (std::ranges::is_sorted(order)) return launched;
  const auto rank = static_cast<int>(std::ranges::find(order, launched->rank()) - order.begin());
  check(MPI_Comm_split(copy, 0, rank, &ordered), "world", "split");
  return std::make_unique<MpiCommunicator>(ordered, "world", large);
}

}  // namespace lockstep
