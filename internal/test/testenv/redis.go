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

// redisGuard limits the wait for the start or end of redis-server. A start takes about 10 ms.
const redisGuard = 30 * time.Second

// childGuard limits the wait for the children of a killed redis-server. They are dead, but may not be reaped yet.
const childGuard = time.Second

// RedisServer is a real redis-server of one test with an append-only file in its own directory, as writ requires in
// production.
type RedisServer struct {
	URL  string // "redis://127.0.0.1:port/0", or with rediss or a login; unchanged by Kill and Start
	Addr string // "127.0.0.1:port"
	Dir  string // its files; change them only between Kill and Start

	t    testing.TB
	path string
	port int
	args []string  // in addition to the common arguments
	cmd  *exec.Cmd // nil while it does not run
}

// RedisTLS names the files (PEM) of a redis-server that accepts only TLS and requires a client certificate.
type RedisTLS struct{ CA, Certificate, Key string }

// Redis starts a redis-server on a free loopback port and stops it when the test ends. It skips the test like Need.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	return RedisWith(t)
}

// RedisWithPassword starts a server that requires a login. Its URL contains the login of a user with all rights.
func RedisWithPassword(t testing.TB) *RedisServer {
	t.Helper()
	return startRedis(t, (*RedisServer).requirePassword)
}

// RedisWith starts a server with further arguments.
func RedisWith(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return startRedis(t, func(r *RedisServer) { r.args = args })
}

// RedisIn starts a server with a password and its files in dir.
func RedisIn(t testing.TB, dir string) *RedisServer {
	t.Helper()
	return startRedis(t, func(r *RedisServer) {
		r.Dir = dir
		r.requirePassword()
	})
}

func (r *RedisServer) requirePassword() {
	r.URL = "redis://:password@" + r.Addr + "/0"
	r.args = []string{"--requirepass", "password"}
}

// RedisWithTLS starts a server that accepts only TLS, with further arguments.
func RedisWithTLS(t testing.TB, files RedisTLS, more ...string) *RedisServer {
	t.Helper()
	return startRedis(t, func(r *RedisServer) {
		r.URL = "rediss://" + r.Addr + "/0"
		r.args = []string{"--port", "0", "--tls-port", strconv.Itoa(r.port), "--tls-auth-clients", "yes",
			"--tls-ca-cert-file", files.CA, "--tls-cert-file", files.Certificate, "--tls-key-file", files.Key}
		r.args = append(r.args, more...)
	})
}

// startRedis starts a server on a free port. configure may change the URL and add arguments. It is called again if the
// port was taken.
func startRedis(t testing.TB, configure func(r *RedisServer)) *RedisServer {
	t.Helper()
	r := &RedisServer{t: t, path: Need(t, "redis-server"), Dir: Home(t, "redis")}
	t.Cleanup(r.Kill)
	var err error
	for range 5 { // another process may take the port between FreePort and the start
		r.port = FreePort(t)
		r.Addr = "127.0.0.1:" + strconv.Itoa(r.port)
		r.URL = "redis://" + r.Addr + "/0"
		configure(r)
		if err = r.start(); err == nil {
			return r
		}
	}
	t.Fatal(err)
	return nil
}

// Kill ends the server and its children with SIGKILL and waits for the end of the server. It does nothing if the server
// does not run.
func (r *RedisServer) Kill() {
	if r.cmd == nil {
		return
	}
	group := -r.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGKILL) // a child that rewrites the file would continue
	_ = r.cmd.Wait()                         // the error reports the kill
	r.cmd = nil
	for end := time.Now().Add(childGuard); syscall.Kill(group, 0) == nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// Start restarts a killed server on the same port with its files, and returns when the server is ready.
func (r *RedisServer) Start() {
	r.t.Helper()
	if r.cmd != nil {
		r.t.Fatal("redis-server runs already")
	}
	if err := r.start(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *RedisServer) start() error {
	args := append([]string{"--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--dir", r.Dir,
		"--set-proc-title", "no", // a title would overwrite the environment, which identifies the process as ours
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction"}, r.args...)
	cmd := exec.Command(r.path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := startServer(cmd, "Ready to accept connections", redisGuard)
	if cmd.Process != nil {
		r.cmd = cmd
	}
	if err != nil {
		r.Kill()
		return fmt.Errorf("start redis-server on port %d: %w", r.port, err)
	}
	return nil
}

// startServer starts a server and reads its log until it is ready. Then it closes the log: the servers ignore write
// errors of their logs, so no goroutine has to drain them, which a leak check would find.
func startServer(cmd *exec.Cmd, ready string, within time.Duration) error {
	log, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	_ = log.SetReadDeadline(time.Now().Add(within))
	var said strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), ready) {
			return nil
		}
		said.WriteString(lines.Text() + "\n")
	}
	return fmt.Errorf("it is not ready; output:\n%s", said.String())
}
