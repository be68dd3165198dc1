/* Run a command on a pseudo-terminal of 120x40 and read what it shows: `drain FILE COMMAND [ARG]...`.

   The least any recorder can do, and so what recorders are compared with. FILE gets the bytes; a FILE of
   `-` throws them away. */

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char buffer[1 << 16];

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int out = -1;
    if (strcmp(argv[1], "-") != 0 && (out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600)) < 0)
        return 2;
    struct winsize size = {.ws_row = 40, .ws_col = 120};
    int terminal;
    pid_t pid = forkpty(&terminal, NULL, NULL, &size);
    if (pid < 0)
        return 2;
    if (pid == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    for (;;) {
        ssize_t got = read(terminal, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break; /* EIO: nobody has the terminal open any more */
        for (ssize_t done = 0; out >= 0 && done < got;) {
            ssize_t written = write(out, buffer + done, got - done);
            if (written < 0)
                return 2;
            done += written;
        }
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
