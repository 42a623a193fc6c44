/* The reference point: a relay that does nothing. Starts a command and copies bytes both ways, epoll, read, write.
 * usage: epoll_relay COMMAND [ARG...] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static char buffer[65536];

static void copy(int from, int to, int loop) {
  ssize_t size = read(from, buffer, sizeof buffer);
  if (size <= 0) {
    epoll_ctl(loop, EPOLL_CTL_DEL, from, NULL);
    close(to);
    if (to == 1) exit(0);
    return;
  }
  for (ssize_t done = 0; done < size;) {
    ssize_t written = write(to, buffer + done, (size_t)(size - done));
    if (written <= 0) exit(1);
    done += written;
  }
}

int main(int count, char** words) {
  int in[2], out[2];
  if (count < 2 || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) return 64;
  if (fork() == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    execvp(words[1], words + 1);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  int loop = epoll_create1(0);
  struct epoll_event client = {.events = EPOLLIN, .data.fd = 0}, agent = {.events = EPOLLIN, .data.fd = out[0]};
  epoll_ctl(loop, EPOLL_CTL_ADD, 0, &client);
  epoll_ctl(loop, EPOLL_CTL_ADD, out[0], &agent);
  for (;;) {
    struct epoll_event ready[2];
    int events = epoll_wait(loop, ready, 2, -1);
    for (int i = 0; i < events; ++i) ready[i].data.fd == 0 ? copy(0, in[1], loop) : copy(out[0], 1, loop);
  }
}
