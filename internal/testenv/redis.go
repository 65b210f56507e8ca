package testenv

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// redisGuard ends the wait for a redis-server that neither starts nor dies; a start takes some 10 ms.
const redisGuard = 30 * time.Second

// childGuard ends the wait for children of a redis-server that was killed: they are dead by then, and whoever has to bury them may not.
const childGuard = time.Second

// RedisServer is a real redis-server of one test, with an append-only file in a directory of its own, as writ asks for in earnest.
type RedisServer struct {
	URL  string // "redis://127.0.0.1:port/0", or with rediss or a login; the same after Kill and Start
	Addr string // "127.0.0.1:port"
	Dir  string // its files; change them only between Kill and Start

	t    testing.TB
	path string
	port int
	args []string  // besides those of every server
	cmd  *exec.Cmd // nil while it does not run
}

// RedisTLS are the files (PEM) of a redis-server that speaks TLS only, and wants a certificate of its clients.
type RedisTLS struct{ CA, Certificate, Key string }

// Redis starts a redis-server on a free port of loopback and stops it when the test ends. It skips the test as Need does.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	return startRedis(t, func(r *RedisServer) { r.URL = "redis://" + r.Addr + "/0" })
}

// RedisWithPassword starts one that nobody uses without a login. Its URL has that of a user who may do everything.
func RedisWithPassword(t testing.TB) *RedisServer {
	t.Helper()
	return startRedis(t, func(r *RedisServer) {
		r.URL = "redis://:password@" + r.Addr + "/0"
		r.args = []string{"--requirepass", "password"}
	})
}

// RedisIn starts one with a password that keeps its files in dir.
func RedisIn(t testing.TB, dir string) *RedisServer {
	t.Helper()
	return startRedis(t, func(r *RedisServer) {
		r.Dir = dir
		r.URL = "redis://:password@" + r.Addr + "/0"
		r.args = []string{"--requirepass", "password"}
	})
}

// RedisWithTLS starts one that speaks TLS only, with more arguments.
func RedisWithTLS(t testing.TB, files RedisTLS, more ...string) *RedisServer {
	t.Helper()
	return startRedis(t, func(r *RedisServer) {
		r.URL = "rediss://" + r.Addr + "/0"
		r.args = []string{"--port", "0", "--tls-port", strconv.Itoa(r.port), "--tls-auth-clients", "yes",
			"--tls-ca-cert-file", files.CA, "--tls-cert-file", files.Certificate, "--tls-key-file", files.Key}
		r.args = append(r.args, more...)
	})
}

// startRedis starts a server on a free port. configure says how it is reached and adds arguments; it is called again if the port was taken.
func startRedis(t testing.TB, configure func(r *RedisServer)) *RedisServer {
	t.Helper()
	r := &RedisServer{t: t, path: Need(t, "redis-server"), Dir: Home(t, "redis")}
	t.Cleanup(r.Kill)
	var err error
	for range 5 { // somebody else may take the port between FreePort and redis-server
		r.port = FreePort(t)
		r.Addr = "127.0.0.1:" + strconv.Itoa(r.port)
		configure(r)
		if err = r.start(); err == nil {
			return r
		}
	}
	t.Fatal(err)
	return nil
}

// Kill ends the server and its children with SIGKILL and returns when it is gone. It does nothing to one that does not run.
func (r *RedisServer) Kill() {
	if r.cmd == nil {
		return
	}
	group := -r.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGKILL) // a child that writes the file anew would go on
	_ = r.cmd.Wait()                         // the error says that it was killed
	r.cmd = nil
	for end := time.Now().Add(childGuard); syscall.Kill(group, 0) == nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// Start starts a killed server again, on the same port and with the files that are there, and returns when it answers.
func (r *RedisServer) Start() {
	r.t.Helper()
	if r.cmd != nil {
		r.t.Fatal("redis-server runs already")
	}
	if err := r.start(); err != nil {
		r.t.Fatal(err)
	}
}

// start reads the server's log until it says that it is ready. After that the log is closed: redis-server ignores that it cannot
// write it, and no goroutine has to drain it, which a leak check would find.
func (r *RedisServer) start() error {
	log, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	defer log.Close()
	args := append([]string{"--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--dir", r.Dir,
		"--set-proc-title", "no", // a title is written over the environment, by which the process is known as ours
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction"}, r.args...)
	cmd := exec.Command(r.path, args...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	r.cmd = cmd
	_ = log.SetReadDeadline(time.Now().Add(redisGuard))
	var said strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			return nil
		}
		said.WriteString(lines.Text() + "\n")
	}
	r.Kill()
	return fmt.Errorf("redis-server did not start on port %d; it said:\n%s", r.port, said.String())
}
