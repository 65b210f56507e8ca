package redisconf

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ/internal/test/testenv"
)

// everyByte returns a name with each byte that a file name may contain.
func everyByte() string {
	var name []byte
	for c := 1; c < 256; c++ {
		if c != '/' {
			name = append(name, byte(c))
		}
	}
	return string(name)
}

func TestRedisReadsEveryByte(t *testing.T) {
	server := testenv.Need(t, "redis-server")
	for _, name := range []string{
		everyByte()[:200], everyByte()[100:], "a\u00a0no-break\u200bspace", `# no "comment' \x41 \u0041`, " ends in blanks \n", "\v\f\a\b", "ä ☃",
	} {
		home := t.TempDir()
		dir := filepath.Join(home, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(home, "s")
		password := "pass " + name
		cmd := exec.CommandContext(t.Context(), server, "-")
		cmd.Stdin = strings.NewReader("port 0\nsave \"\"\nunixsocket " + Quote(socket) + "\ndir " + Quote(dir) + "\nrequirepass " + Quote(password) + "\n")
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = cmd.Wait() }()
		answers := ask(t, socket, ended, []string{"AUTH", password}, []string{"CONFIG", "GET", "dir"}, []string{"QUIT"})
		_ = cmd.Process.Kill()
		<-ended
		if !strings.HasPrefix(answers, "+OK") || !strings.Contains(answers, dir) {
			t.Errorf("dir %q: %q; log:\n%s", dir, answers, log.String())
		}
	}
}

// ask sends commands once the server listens, and returns all answers.
func ask(t *testing.T, socket string, ended <-chan struct{}, commands ...[]string) string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("unix", socket); err == nil {
			defer c.Close()
			for _, words := range commands {
				if _, err := io.WriteString(c, request(words)); err != nil {
					t.Fatal(err)
				}
			}
			answers, _ := io.ReadAll(c)
			return string(answers)
		}
		select {
		case <-ended:
			return "no answer"
		case <-tick.C:
		}
	}
}

// request encodes a command in the Redis protocol.
func request(words []string) string {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	return text
}
