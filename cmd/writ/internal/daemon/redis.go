package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"writ/internal/redisconf"
	"writ/runner/queue/redisqueue"
)

// redisStart is how long a redis-server may take to answer; a start takes some 10 ms, more with a long append-only file.
const redisStart = 30 * time.Second

// Redis is for those who have none of their own: a redis-server, as a child of this process, if the machine has one. Else it is a stand-in
// inside this process, which programs of a release do not have.
type Redis struct {
	Dir    string // of a server's files
	Socket bool   // it listens at a socket in Dir only; a machine without redis-server has none
	Log    *slog.Logger
}

// Started is a Redis that serves.
type Started struct {
	URL   string // with a login that may do everything
	About string // in words, what it is
	PID   int    // of the server, 0 for the stand-in, which is in this process
	Stand bool   // it is the stand-in, which has no accounts
}

// Run serves until ctx ends, and returns nil then.
func (r *Redis) Run(ctx context.Context, ready func(Started)) error {
	if path, err := exec.LookPath("redis-server"); err == nil {
		server, err := newRedisServer(path, r.Dir, r.Log)
		if err != nil {
			return err
		}
		if r.Socket {
			server.port = 0
		}
		return server.Run(ctx, func(pid int) {
			about := fmt.Sprintf("redis-server (%s), a child of this process on port %d", path, server.port)
			if r.Socket {
				about = fmt.Sprintf("redis-server (%s), a child of this process at %s", path, server.socket())
			}
			ready(Started{URL: server.URL(), About: about, PID: pid})
		})
	}
	return standIn(ctx, ready)
}

// redisServer is a child process for those who have no Redis of their own. It listens on loopback, behind a password that only this
// process knows, and keeps its append-only file in a directory of the datacenter.
type redisServer struct {
	path     string // of the program
	dir      string
	log      *slog.Logger
	port     int // 0 if it listens at its socket only
	password string
}

// newRedisServer prepares a server on a free port.
func newRedisServer(path, dir string, log *slog.Logger) (*redisServer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of Redis: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("find a port for Redis: %w", err)
	}
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	return &redisServer{path: path, dir: dir, log: log, port: port, password: hex.EncodeToString(secret[:])}, nil
}

// socket is where a server without a port is.
func (r *redisServer) socket() string { return filepath.Join(r.dir, "redis.sock") }

// URL is where the server is while it runs. It holds the password.
func (r *redisServer) URL() string {
	if r.port == 0 {
		u := url.URL{Scheme: "unix", User: url.UserPassword("", r.password), Path: r.socket()}
		return u.String()
	}
	u := url.URL{Scheme: "redis", User: url.UserPassword("", r.password), Host: "127.0.0.1:" + strconv.Itoa(r.port), Path: "/0"}
	return u.String()
}

// Run keeps the server running until ctx ends, and calls ready once, with its process, when it answers for the first time. A server that
// dies is started again: nothing is lost with it. It is an error if it does not start at all.
func (r *redisServer) Run(ctx context.Context, ready func(pid int)) error {
	for first := true; ; first = false {
		err := r.serve(ctx, func(pid int) {
			if first {
				ready(pid)
			}
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case first && errors.Is(err, errNotReady):
			return err
		}
		r.log.WarnContext(ctx, "redis-server ended; starting it again", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

var errNotReady = errors.New("redis-server did not start")

// serve runs the server once. It is stopped politely when ctx ends.
//
//failpoint:none it writes the log of redis-server
func (r *redisServer) serve(ctx context.Context, ready func(pid int)) error {
	logFile, err := os.OpenFile(filepath.Join(r.dir, "redis.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotReady, err)
	}
	defer logFile.Close()
	output := &readyWriter{file: logFile, ready: make(chan struct{})}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, r.path, "-") // settings on standard input: the password must not stand in a list of processes
	cmd.Stdin = strings.NewReader(r.settings())
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	ended := make(chan error, 1)
	go func() { ended <- runBound(cmd) }()

	timer := time.NewTimer(redisStart)
	defer timer.Stop()
	select {
	case <-output.ready:
		ready(cmd.Process.Pid)
		return <-ended
	case err = <-ended:
	case <-timer.C:
		err = errors.New("it does not answer")
		stop()
		<-ended
	}
	return fmt.Errorf("%w (%s): %w", errNotReady, logFile.Name(), err)
}

func (r *redisServer) settings() string {
	lines := []string{
		"port " + strconv.Itoa(r.port),
		"bind 127.0.0.1",
		"requirepass " + r.password,
		"dir " + redisconf.Quote(r.dir),
		"appendonly yes",
		"appendfsync everysec",
		`save ""`,
		"maxmemory-policy noeviction",
		"maxmemory 1gb", // 64 MiB for each node, as docs/manual/redis.md has it, and room for more nodes than anybody tries out on one host
		"daemonize no",
	}
	if r.port == 0 {
		lines = append(lines, "unixsocket "+filepath.Base(r.socket()), "unixsocketperm 700") // below dir: an address holds no long path
	}
	if r.major() >= boundsClients {
		lines = append(lines, "maxmemory-clients 128mb", "proto-max-bulk-len 16mb", "acllog-max-len 8", "slowlog-max-len 8")
	}
	return strings.Join(lines, "\n") + "\n"
}

// boundsClients is the version of Redis from which on it bounds what its clients take of its memory. An older one does not start with that setting.
const boundsClients = 7

// major is the first number of the program's version, 0 if it does not say one.
func (r *redisServer) major() int {
	text, err := exec.Command(r.path, "--version").Output() // "Redis server v=7.0.15 sha=…"
	if err != nil {
		return 0
	}
	_, version, _ := strings.Cut(string(text), " v=")
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

// readyWriter keeps what redis-server says and notices when it is ready.
type readyWriter struct {
	file  *os.File
	ready chan struct{}

	mu   sync.Mutex
	once sync.Once
	line bytes.Buffer
}

func (w *readyWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line.Write(p)
	if bytes.Contains(w.line.Bytes(), []byte("eady to accept connections")) {
		w.once.Do(func() { close(w.ready) })
	}
	if i := bytes.LastIndexByte(w.line.Bytes(), '\n'); i >= 0 {
		w.line.Next(i + 1)
	}
	return w.file.Write(p)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// examineRedis warns of settings of Redis that do not fit, once, as soon as it answers.
func examineRedis(ctx context.Context, redis *redisqueue.Queue, log *slog.Logger) error {
	for {
		version, found, err := redis.Examine(ctx)
		if err == nil {
			for _, f := range found {
				log.WarnContext(ctx, "Redis should be set up otherwise: "+f.What, "version", version, "fix", f.Fix)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
