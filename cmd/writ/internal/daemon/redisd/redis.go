// Package redisd runs a Redis for a datacenter without one: a redis-server as a child of this process, or a stand-in
// inside this process, which release builds lack.
package redisd

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
	"writ/internal/sleep"
)

// redisStart limits the start of a redis-server. It usually takes 10 ms, and more with a long append-only file.
const redisStart = 30 * time.Second

// Config holds the settings of a Redis.
type Config struct {
	Dir    string // directory of the server's files
	Socket bool   // listen only at a socket in Dir; requires redis-server
	Log    *slog.Logger
	Ready  func(Started) // called when Redis accepts connections
}

// Redis runs a Redis for a datacenter without its own: a redis-server as a child of this process, if it is installed.
// Otherwise it is a stand-in inside this process, which release builds lack.
type Redis struct{ Config }

// New returns a Redis with these settings. It starts nothing.
func New(c Config) *Redis { return &Redis{c} }

// Started describes a serving Redis.
type Started struct {
	URL   string // with an unrestricted login
	About string // description for people
	PID   int    // of the server; 0 for the stand-in in this process
	Stand bool   // the stand-in, which has no accounts
}

// Run serves until ctx ends, and then returns nil.
func (r *Redis) Run(ctx context.Context) error {
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
			r.Ready(Started{URL: server.URL(), About: about, PID: pid})
		})
	}
	return standIn(ctx, r.Ready)
}

// redisServer is a child process. It listens on loopback with a password that only this process knows, and stores its
// append-only file in a directory of the datacenter.
type redisServer struct {
	path     string // of the program
	dir      string
	log      *slog.Logger
	port     int // 0 if it listens only at its socket
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

// socket returns the path of a server's socket.
func (r *redisServer) socket() string { return filepath.Join(r.dir, "redis.sock") }

// URL returns the address of the running server. It contains the password.
func (r *redisServer) URL() string {
	if r.port == 0 {
		u := url.URL{Scheme: "unix", User: url.UserPassword("", r.password), Path: r.socket()}
		return u.String()
	}
	u := url.URL{
		Scheme: "redis", User: url.UserPassword("", r.password), Host: "127.0.0.1:" + strconv.Itoa(r.port), Path: "/0",
	}
	return u.String()
}

// Run keeps the server running until ctx ends. It calls `ready` once, with the process id, when the server first
// answers. A server that dies is restarted, because it loses no data. A failed first start is an error, unless another
// program took the port in the meantime.
func (r *redisServer) Run(ctx context.Context, ready func(pid int)) error {
	started := false
	for ports := 1; ; {
		err := r.serve(ctx, func(pid int) {
			if !started {
				started = true
				ready(pid)
			}
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case !started && errors.Is(err, errNotReady):
			if ports++; ports > maxPorts || !r.replacePort() {
				return err
			}
			continue
		}
		r.log.WarnContext(ctx, "redis-server ended; starting it again", "err", err)
		if sleep.For(ctx, time.Second) != nil {
			return nil
		}
	}
}

// maxPorts limits the ports that a first start tries.
const maxPorts = 5

// replacePort takes another port if the present one is in use, and reports whether it did. A connection of any program
// can get a free port before the server listens there.
func (r *redisServer) replacePort() bool {
	if r.port == 0 {
		return false
	}
	if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(r.port)); err == nil {
		l.Close()
		return false
	}
	port, err := freePort()
	if err != nil {
		return false
	}
	r.port = port
	return true
}

var errNotReady = errors.New("redis-server did not start")

// serve runs the server once, and stops it with SIGTERM when ctx ends.
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
	// The settings go to standard input, because a list of processes must not show the password.
	cmd := exec.CommandContext(ctx, r.path, "-")
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
		"maxmemory 1gb", // 64 MiB for each node (docs/manual/redis.md), enough for a development cluster
		"daemonize no",
	}
	if r.port == 0 {
		// Relative to dir, because the path of a unix socket is limited to about 100 bytes.
		lines = append(lines, "unixsocket "+filepath.Base(r.socket()), "unixsocketperm 700")
	}
	if r.major() >= boundsClients {
		lines = append(lines, "maxmemory-clients 128mb", "proto-max-bulk-len 16mb", "acllog-max-len 8",
			"slowlog-max-len 8")
	}
	return strings.Join(lines, "\n") + "\n"
}

// boundsClients is the first version of Redis that limits the memory of clients. Earlier versions reject the setting.
const boundsClients = 7

// major returns the first number of the program's version, 0 if unknown.
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

// readyWriter writes the output of redis-server to a file, and detects when it is ready.
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
