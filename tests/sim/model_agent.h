// The agent of the exhaustive model: processes over one disk, and the disk.
//
// It ignores keys, shows its history where a resume asks for it, and loses at its death what it had inserted
// and not saved. It draws nothing by chance: each thing that it may do or leave is a choice of the model's
// (model_world.h). Invariant: plain values that can be copied and told as bytes. Lifetime: a disk for a whole
// world, a process for one epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/core/types.h"

namespace acp::sim {

// A prompt of the model: its session and its key by number, which are its text's as well.
struct ModelWork {
  std::uint8_t session = 0;
  std::uint8_t key = 0;
  bool operator==(const ModelWork&) const = default;
};

struct ModelMessage {
  ModelWork work;
  bool gone = false;  // its process died and had not saved it
};

struct ModelDisk {
  std::size_t sessions = 0;            // "s0" to this
  std::vector<ModelMessage> messages;  // message m is named "mN" by its place N here

  // Whether the agent's history has that work.
  bool has(ModelWork work) const noexcept;
  // The message with that name, or null.
  const ModelMessage* find(std::string_view id) const noexcept;
  void tell(std::string& out) const;
};

struct ModelPrompt {
  static constexpr std::size_t not_inserted = SIZE_MAX;
  std::string id;  // raw token
  ModelWork work;
  std::size_t message = not_inserted;
};

// One process. What it says lies in `words` until keyhop reads it.
class ModelProcess {
 public:
  // `same_text`: all prompts of a session say the same.
  ModelProcess(Epoch of, LinkId at, bool same_text) : epoch(of), link(at), same_text_(same_text) {}

  // Keyhop has sent a line. What needs no choice of when it is taken is taken at once: see model_world.h.
  void send(std::string_view line, ModelDisk& disk);
  // Takes the oldest line of the pipe.
  void take(ModelDisk& disk);
  // The next prompt of that session that is not inserted, or not answered though inserted; null: none.
  const ModelPrompt* next_to_insert(std::size_t session) const noexcept;
  const ModelPrompt* next_to_answer(std::size_t session) const noexcept;
  void insert(const ModelPrompt& prompt, ModelDisk& disk);
  void answer(const ModelPrompt& prompt);
  // Nobody hears it any more: what is inserted needs no answer.
  void leave_client();
  // `saved`: so many of its messages it had saved, the oldest ones. True: something is lost.
  bool die(ModelDisk& disk, std::size_t saved) noexcept;
  bool is_idle() const noexcept { return pipe.empty() && prompts.empty() && inserted.empty(); }
  void tell(std::string& out) const;

  Epoch epoch;
  LinkId link;
  bool started = false;
  bool alive = true;
  bool doomed = false;  // keyhop has ordered its end
  std::deque<std::string> pipe;
  std::vector<ModelPrompt> prompts;   // taken and not answered, in order
  std::vector<std::size_t> inserted;  // its messages
  std::string words;

 private:
  void take_rest_at_once(ModelDisk& disk);
  void resume(std::string_view line, std::string_view id, const ModelDisk& disk);
  void cancel(std::string_view line);
  void say(std::string_view line) { words.append(line) += '\n'; }
  bool same_text_;
  std::vector<std::uint8_t> active_;
};

std::string text_of(ModelWork work, bool same_text);
// "s1", "k0".
std::string session_name(std::size_t session);
std::string key_name(std::size_t key);

}  // namespace acp::sim
