#include "prepare/lowest_draws.hpp"

#include "comm/long_work.hpp"
#include "prepare/gather_values.hpp"

#include <limits>
#include <span>
#include <vector>

namespace lockstep {

DrawThreshold lowest_draws(Session& session, std::int64_t count,
                           const std::function<void(const std::function<void()>& alive,
                                                    const std::function<void(std::uint64_t)>& use)>& each) {
  constexpr int digit_bits = 16;  // the draw is found digit by digit, the highest first
  Communicator& world = session.world();
  DrawThreshold lowest;
  std::int64_t ties_here = 0;
  std::int64_t missing = count;  // of documents at or behind the digits that are found
  for (int shift = 64 - digit_bits; shift >= 0; shift -= digit_bits) {
    const auto found = [shift](std::uint64_t draw) {
      return shift + digit_bits == 64 ? 0 : draw >> (shift + digit_bits);
    };
    std::vector<std::int64_t> here(std::size_t{1} << digit_bits);
    long_work_together(session, "choose documents", [&](const std::function<void()>& alive) {
      each(alive, [&](std::uint64_t draw) {
        if (found(draw) == found(lowest.draw)) ++here[draw >> shift & (here.size() - 1)];
      });
    });
    std::vector<std::int64_t> all = here;
    world.all_reduce(std::as_writable_bytes(std::span(all)), DType::i64, Reduce::sum);
    std::size_t digit = 0;
    while (digit < all.size() && all[digit] < missing) missing -= all[digit++];
    if (digit == all.size())
      return {std::numeric_limits<std::uint64_t>::max(), std::numeric_limits<std::int64_t>::max(), 0};
    lowest.draw |= static_cast<std::uint64_t>(digit) << shift;
    ties_here = here[digit];
  }
  lowest.ties = missing;
  const std::vector<std::int64_t> ties = gather_values(world, ties_here);
  for (int rank = 0; rank < world.rank(); ++rank) lowest.ties_before += ties[static_cast<std::size_t>(rank)];
  return lowest;
}

}  // namespace lockstep
