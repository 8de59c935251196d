#include "options/former_options.hpp"

#include <array>

namespace lockstep {

namespace {

constexpr std::array former{
    FormerOption{.name = "checkpoint.every_epochs",
                 .now = "checkpoint.every",
                 .says = "checkpoint.every: N epochs",
                 .value = [](const std::string& text) { return text + " epochs"; }},
};

}  // namespace

std::span<const FormerOption> former_options() { return former; }

}  // namespace lockstep
