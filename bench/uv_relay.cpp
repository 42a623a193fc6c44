// The second reference point: a relay on libuv's own streams that parses nothing. Starts a command and copies
// bytes both ways. usage: keyhop-uv-relay COMMAND [ARG...]
#include <cstdlib>
#include <initializer_list>
#include <uv.h>

namespace {

uv_pipe_t client_in, client_out, agent_in, agent_out;
char buffer[65536];

void take_buffer(uv_handle_t*, size_t, uv_buf_t* out) { *out = uv_buf_init(buffer, sizeof buffer); }

void relay(uv_stream_t* from, ssize_t size, const uv_buf_t* bytes) {
  uv_stream_t* to = reinterpret_cast<uv_stream_t*>(
      from == reinterpret_cast<uv_stream_t*>(&client_in) ? &agent_in : &client_out);
  if (size < 0) {
    if (from == reinterpret_cast<uv_stream_t*>(&agent_out)) std::exit(0);
    uv_read_stop(from);
    uv_close(reinterpret_cast<uv_handle_t*>(to), nullptr);
    return;
  }
  for (ssize_t done = 0; done < size;) {
    const uv_buf_t rest = uv_buf_init(bytes->base + done, static_cast<unsigned>(size - done));
    const int written = uv_try_write(to, &rest, 1);
    if (written < 0 && written != UV_EAGAIN) std::exit(1);
    if (written > 0) done += written;
  }
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return 64;
  uv_loop_t* loop = uv_default_loop();
  for (uv_pipe_t* pipe : {&client_in, &client_out, &agent_in, &agent_out}) uv_pipe_init(loop, pipe, 0);
  uv_pipe_open(&client_in, 0);
  uv_pipe_open(&client_out, 1);
  uv_process_t process;
  uv_process_options_t options{};
  uv_stdio_container_t stdio[3];
  stdio[0].flags = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_READABLE_PIPE);
  stdio[0].data.stream = reinterpret_cast<uv_stream_t*>(&agent_in);
  stdio[1].flags = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_WRITABLE_PIPE);
  stdio[1].data.stream = reinterpret_cast<uv_stream_t*>(&agent_out);
  stdio[2].flags = UV_INHERIT_FD;
  stdio[2].data.fd = 2;
  options.file = words[1];
  options.args = words + 1;
  options.stdio = stdio;
  options.stdio_count = 3;
  if (uv_spawn(loop, &process, &options) != 0) return 69;
  uv_read_start(reinterpret_cast<uv_stream_t*>(&client_in), take_buffer, relay);
  uv_read_start(reinterpret_cast<uv_stream_t*>(&agent_out), take_buffer, relay);
  return uv_run(loop, UV_RUN_DEFAULT);
}
