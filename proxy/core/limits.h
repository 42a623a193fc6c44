// Every maximum of the program in one place, and how they depend on each other.
//
// A full queue pauses reading from whoever fills it; a full table answers the request that did not fit with
// an error. Nothing grows without one of these.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace acp::limits {

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;

// Frames.
inline constexpr std::size_t frame_bytes_default = 64 * mib;
inline constexpr std::size_t frame_bytes_min = 1 * kib;
inline constexpr std::size_t frame_bytes_max = 1024 * mib;  // offsets in a frame are 32 bits
inline constexpr std::size_t nesting_max = 1024;
inline constexpr std::size_t id_bytes_max = 64 * kib;  // one request id as written
inline constexpr std::size_t frame_beginning_bytes =
    64 * kib;  // what is kept of a frame over the limit, to tell what it was
inline constexpr std::size_t salvage_attempts_max =
    32;  // objects tried in one line of an agent that is not JSON

// Reading and writing.
inline constexpr std::size_t read_bytes = 64 * kib;  // one read, one step of the core, one write
inline constexpr std::size_t padding_bytes =
    64;  // readable bytes that follow every buffer handed to the core (simdjson)
inline constexpr std::size_t backlog_bytes_high =
    1 * mib;  // unwritten bytes to a peer at which the other side is no longer read
inline constexpr std::size_t backlog_bytes_low = 256 * kib;  // at which it is read again
inline constexpr std::size_t backlog_bytes_hard =
    8 * mib;  // at which the peer itself is not read: its requests make our answers
inline constexpr std::size_t stderr_backlog_bytes_max = 1 * mib;  // then lines are dropped and counted

inline constexpr std::size_t restarts_max = 1000;  // --restart-limit
inline constexpr std::size_t proxies_max = 100;    // --proxy: components are numbered in 8 bits

// What is kept for another try.
inline constexpr std::size_t stored_bytes_max =
    256 * mib;  // frames of open requests; beyond that a lost one fails
inline constexpr std::size_t held_bytes_max =
    8 * mib;  // frames that wait for a restore; then the client is not read

// The ledger.
inline constexpr std::chrono::milliseconds commit_patience{
    100};  // how long frames of other sessions wait behind a commit
inline constexpr std::chrono::seconds initialize_patience{1};  // how long requests wait for the agent's name
inline constexpr std::chrono::milliseconds owner_pause{
    50};                                                   // between two looks whether another run has ended
inline constexpr std::chrono::seconds owner_patience{10};  // how long its end is waited for

// The file of --config.
inline constexpr std::size_t config_bytes_max = 1 * mib;
inline constexpr std::size_t config_dots_max =
    100;  // in one line: dotted keys nest, and what nests is taken down recursively
inline constexpr std::size_t config_nesting_max = 16;  // arrays and inline tables in each other

// Tables.
inline constexpr std::size_t pending_max = 1 << 17;      // open requests in one direction, waiters included
inline constexpr std::size_t key_rows_max = 1 << 20;     // keyed prompts remembered in memory
inline constexpr std::size_t sessions_max = 1 << 16;     // sessions whose state is tracked
inline constexpr std::size_t key_code_points_max = 255;  // RFD: a string of 1 to 255 characters
inline constexpr std::size_t session_id_bytes_max = 4 * kib;  // longer ones are relayed, not tracked
inline constexpr std::size_t session_values_max = 256;        // modes and config options of one session
inline constexpr std::size_t seen_messages_max = 1024;        // user messages of one session that are known
inline constexpr std::size_t lost_prompts_max = 64;  // of one session, without a key, not settled yet
inline constexpr std::size_t removals_max = 4096;    // of one session, not on the disk yet
inline constexpr std::size_t replayed_messages_max = 1 << 16;  // of one replay: older ones are let go

inline constexpr std::size_t fingerprint_members_max =
    1 << 18;  // object members compared without regard to order, at once

// A dead agent's last words.
inline constexpr std::size_t stderr_tail_lines_max = 100;
inline constexpr std::size_t stderr_tail_line_bytes_max = 1 * kib;
inline constexpr std::size_t noise_line_bytes_max =
    4 * kib;  // how much of a line that is not JSON-RPC goes to stderr

static_assert(backlog_bytes_low < backlog_bytes_high);
static_assert(backlog_bytes_high + read_bytes < backlog_bytes_hard);
static_assert(frame_beginning_bytes <= frame_bytes_default);
static_assert(frame_bytes_max <= UINT32_MAX);

}  // namespace acp::limits
