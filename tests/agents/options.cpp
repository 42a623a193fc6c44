#include "tests/agents/options.h"

#include <charconv>
#include <functional>
#include <map>

namespace acp::test_agent {
namespace {

using Setter = std::function<bool(const std::string&)>;

template <typename Number>
Setter number(Number& target) {
  return [&target](const std::string& text) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target);
    return error == std::errc{} && end == text.data() + text.size() && !text.empty();
  };
}

Setter duration(Milliseconds& target) {
  return [&target](const std::string& text) {
    std::uint32_t count = 0;
    if (!number(count)(text)) return false;
    target = Milliseconds(count);
    return true;
  };
}

Setter words(std::string& target) {
  return [&target](const std::string& value) {
    target = value;
    return !value.empty();
  };
}

template <typename Value>
Setter choice(Value& target, std::map<std::string, Value> values) {
  return [&target, values = std::move(values)](const std::string& text) {
    const auto found = values.find(text);
    if (found == values.end()) return false;
    target = found->second;
    return true;
  };
}

Setter rule(std::vector<MethodRule>& target, bool with_code) {
  return [&target, with_code](const std::string& text) {
    const auto parsed = parse_method_rule(text, with_code);
    if (parsed) target.push_back(*parsed);
    return parsed.has_value();
  };
}

Setter flaw(KeyFlaws& flaws) {
  return [&flaws](const std::string& text) {
    const std::map<std::string, bool*> known = {
        {"memory", &flaws.memory}, {"global", &flaws.global},   {"lenient", &flaws.lenient},
        {"bytes", &flaws.bytes},   {"no-join", &flaws.no_join}, {"no-compare", &flaws.no_compare},
        {"sticky", &flaws.sticky}, {"leak", &flaws.leak},       {"fork", &flaws.fork},
    };
    const auto found = known.find(text);
    if (found == known.end()) return false;
    *found->second = true;
    return true;
  };
}

// Options that take a value, by name.
std::map<std::string, Setter> valued(Options& options) {
  Personality& person = options.personality;
  return {
      {"--history", words(options.history)},
      {"--wire", words(options.wire)},
      {"--name", words(person.name)},
      {"--protocol",
       [&person](const std::string& text) {
         person.speaks_v1 = text == "1" || text == "both";
         person.speaks_v2 = text == "2" || text == "both";
         return person.speaks_v1 || person.speaks_v2;
       }},
      {"--keys", choice<Keys>(person.keys, {{"honour", Keys::honour}, {"ignore", Keys::ignore}})},
      {"--keys-flaw", flaw(person.flaws)},
      {"--echo",
       choice<Echo>(
           person.echo,
           {{"before", Echo::before}, {"after", Echo::after}, {"late", Echo::late}, {"none", Echo::none}})},
      {"--fixed-session", words(person.fixed_session)},
      {"--chunks", number(person.chunks)},
      {"--slow-start", duration(person.slow_start)},
      {"--insert-delay", duration(person.insert_delay)},
      {"--turn", duration(person.turn)},
      {"--linger", duration(person.linger)},
      {"--stderr-noise", number(person.stderr_noise_bytes)},
      {"--offspring-seconds", number(person.offspring_seconds)},
      {"--refuse", rule(person.refused, true)},
      {"--leave-open", rule(person.left_open, false)},
      {"--fault", [&options](const std::string& text) { return options.faults.add(text); }},
      {"--fault-times", number(options.fault_times)},
  };
}

// Options without a value, by name.
std::map<std::string, std::function<void()>> flags(Options& options) {
  Personality& person = options.personality;
  const auto set = [](bool& target, bool value = true) { return [&target, value] { target = value; }; };
  return {
      {"--help", set(options.help)},
      {"--no-sync", set(options.sync, false)},
      {"--wire-clock", set(options.wire_clock)},
      {"--fault-once", [&options] { options.fault_times = 1; }},
      {"--echo-late", [&person] { person.echo = Echo::late; }},
      {"--chunked-echo", set(person.chunked_echo)},
      {"--no-replay", set(person.can_replay, false)},
      {"--replay-complete", set(person.replay_complete)},
      {"--forget-unsaved", set(person.forget_unsaved)},
      {"--forget-settings", set(person.forget_settings)},
      {"--rewrite-content", set(person.rewrite_content)},
      {"--v1-message-ids", set(person.v1_message_ids)},
      {"--no-resume", set(person.can_resume, false)},
      {"--no-load", set(person.can_load, false)},
      {"--login", set(person.needs_login)},
      {"--null-results", set(person.null_results)},
      {"--refuse-during-work", set(person.refuse_during_work)},
      {"--string-ids", set(person.string_ids)},
      {"--ignore-cancel", set(person.ignore_cancel)},
      {"--ignore-eof", set(person.ignore_eof)},
      {"--ignore-term", set(person.ignore_term)},
  };
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments, std::string& error) {
  Options options;
  const auto with_value = valued(options);
  const auto without_value = flags(options);
  for (std::size_t i = 0; i < arguments.size() && error.empty(); ++i) {
    std::string name = arguments[i];
    std::optional<std::string> value;
    if (const std::size_t equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (const auto flag = without_value.find(name); flag != without_value.end()) {
      if (value) error = name + " takes no value";
      flag->second();
      continue;
    }
    const auto setter = with_value.find(name);
    if (setter == with_value.end()) {
      error = "unknown option " + arguments[i];
    } else if (!value && i + 1 == arguments.size()) {
      error = name + " needs a value";
    } else {
      if (!value) value = arguments[++i];
      if (!setter->second(*value)) error = name + " cannot be '" + *value + "'";
    }
  }
  if (options.fault_times > 0 && options.history.empty() && error.empty()) {
    error = "--fault-once and --fault-times need --history";
  }
  return options;
}

const char* help_text() {
  return R"(keyhop-test-agent: an ACP agent (v1 and v2, stdio) with a durable history and faults on order

HISTORY
  --history DIR          session-ID.jsonl, acted.jsonl (every effect), pids, epochs.jsonl; without: memory
  --no-sync              no fsync: survives kill -9, not a power cut
  --wire FILE            every line as it came ('<') and as it was completely sent ('>')
  --wire-clock           behind each '<' and '>' the monotonic clock in nanoseconds and a blank

PROTOCOL
  --protocol 1|2|both    both                     --name NAME         the name in initialize
  --no-resume --no-load  v1: not offered          --login             asks for a login first (-32000)
  --null-results         v1: null for load/resume --string-ids        own request ids are strings, not 0, 1, 2
  --fixed-session ID     session/new returns ID   --v1-message-ids    v1 message updates carry messageId

KEYS AND HISTORY
  --keys honour|ignore   ignore                   --no-replay         refuses replayFrom (-32602)
  --keys-flaw NAME       honours keys, but: memory global lenient bytes no-join no-compare sticky leak fork
  --echo WHEN            before|after|late|none: when the user message is echoed, seen from the answer
  --echo-late            --echo late              --chunked-echo      the echo comes as user_message_chunk
  --replay-complete      marks a replay's end     --rewrite-content   stores (and echoes) another text
  --forget-unsaved       keeps the last prompt in memory until its turn ends
  --forget-settings      modes and options are lost at a restart

PACE
  --insert-delay MS      between reading a prompt and inserting it
  --turn MS, --chunks N  how long a turn takes, in how many message chunks
  --slow-start MS        before initialize is answered (other requests get -32600 meanwhile)
  --linger MS            stays that long after stdin's end
  --refuse-during-work   -32600 for a prompt during a turn, instead of holding it

DIFFICULT CHARACTER
  --stderr-noise BYTES   written to stderr before initialize is answered, no line feed
  --ignore-eof --ignore-term --ignore-cancel
  --offspring-seconds S  120: what was spawned ends itself after that time
  --refuse METHOD=CODE[@TIMES][/EPOCH]            answers that error, does nothing
  --leave-open METHOD[@TIMES][/EPOCH]             acts, answers only a cancel (-32800)

FAULTS    --fault POINT[:METHOD]@COUNT[/EPOCH]=ACTION, repeatable; /EPOCH: from that start of the agent on
  POINT     start, input (COUNT bytes read), read (a frame, not acted on), acted, insert (before), inserted,
            answer (before its first byte), answered, write (any frame, before), written, output (COUNT bytes)
  ACTION    exit CODE, kill [KILL|TERM|SEGV|ABRT|NUMBER], stall, close_stdout, close_stdin, shoot RECORD (kills the
            process that RECORD names in its last line "= PID", and goes on)
  --fault-once, --fault-times N    each fault strikes that often over all processes with this history

ORDERS    in the text of a prompt, as [order words]; run in order, after the insertion unless said otherwise.
  [early ORDER]          before the insertion.  Marked 1: once per session, text and history; [die! …] always
  [die POINT [ACTION]]   1, kill KILL. POINT: before_insert after_insert before_answer after_answer now
  [die mid_answer N [ACTION]]                    1, after N bytes of the answer
  [exit CODE] [stall]    1. stall: the process neither reads nor writes any more
  [hang] [no_answer]     1. until cancelled: hang is before the insertion, no_answer inserts and works
  [error CODE]           1, before the insertion: answers that error
  [insert_after MS]      before the insertion    [wait MS]            between two orders
  [hold] [release]       the work stays open until a later prompt (at its arrival) or _test/order releases it
  [permission]           session/request_permission; runs a tool if it is allowed
  [elicit]               elicitation/create scoped to this request; before the insertion in v2
  [ext METHOD]           a request to the client [notify METHOD]      a notification
  [say TEXT] [tool NAME] a message chunk; a tool run (an effect)
  [mode ID] [config ID VALUE]                    the agent changes its own settings and says so
  [updates N SIZE]       N updates of SIZE bytes [flood BYTES [SIZE]] as fast as possible, in 64 KiB writes
  [garbage KIND [N]]     log json control prefix two broken(1) unknown_id second batch utf8 oversize
                         oversize_answer(1) blank crlf bom null_error lone deep nul
  [stderr TEXT|BYTES]    [close_stdout] [close_stdin]  1
  [grandchild MODE]      plain group session orphan daemon stubborn; its pid goes to DIR/pids as "PID MODE"
  [stdout_to_child]      a child inherits stdout and holds it
  A prompt that begins with / is a command: it runs and is not stored.

EXTENSIONS
  _test/echo   answers its params, byte for byte      _test/act     an effect, nothing else
  _test/emit   {"line"|"base64"}: writes it raw       _test/state   pid, epoch, sessions
  _test/order  {"sessionId"?, "text"}: answers, then runs the orders in the text
)";
}

}  // namespace acp::test_agent
