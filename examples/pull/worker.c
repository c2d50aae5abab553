/* Takes tasks and says how they ended: a worker in C without any library.
 *
 * HQ_PULL_SOCKET names the socket (`eval "$(hq pull env)"`), the bag is the first argument. What a task is to do is here the
 * length of its payload. Texts are taken out of the JSON as they are: this does for names and payloads without quotes,
 * backslashes and control characters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char line[1 << 20];

static void text(const char *name, char *out, size_t size) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *begin = strstr(line, key);
    out[0] = 0;
    if (begin) {
        begin += strlen(key);
        size_t length = strcspn(begin, "\"");
        snprintf(out, size, "%.*s", (int)(length < size ? length : size - 1), begin);
    }
}

static void hear(FILE *in) {
    if (!fgets(line, sizeof line, in) || strstr(line, "\"error\"")) {
        fprintf(stderr, "the relay says: %s\n", line);
        exit(1);
    }
}

int main(int argc, char **argv) {
    const char *path = getenv("HQ_PULL_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (argc != 2 || !path || strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "usage: HQ_PULL_SOCKET=PATH worker BAG\n");
        return 2;
    }
    strcpy(address.sun_path, path);
    int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address) != 0) {
        perror(path);
        return 1;
    }
    FILE *in = fdopen(connection, "r"), *out = fdopen(dup(connection), "w");
    fprintf(out, "{\"hello\":{\"label\":\"c-%d\",\"lease\":60}}\n", (int)getpid());
    fflush(out);
    hear(in);
    char done[8192] = "";
    for (;;) {
        fprintf(out, "{\"next\":{\"done\":[%s],\"take\":1,\"wait\":60,\"bags\":[\"%s\"]}}\n", done, argv[1]);
        fflush(out);
        hear(in);
        done[0] = 0;
        if (strstr(line, "\"state\":\"over\"")) {
            fprintf(out, "{\"sync\":{}}\n");
            fflush(out);
            hear(in);
            return 0;
        }
        if (strstr(line, "\"state\":\"some\"")) {
            char id[64], attempt[64], payload[4096];
            text("id", id, sizeof id);
            text("attempt", attempt, sizeof attempt);
            text("payload", payload, sizeof payload);
            snprintf(done, sizeof done, "{\"id\":\"%s\",\"attempt\":\"%s\",\"result\":\"%zu\"}", id, attempt, strlen(payload));
        }
    }
}
