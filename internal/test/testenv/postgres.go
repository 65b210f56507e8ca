package testenv

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// postgresGuard limits the wait for the start or end of a server. Both take about 100 ms.
const postgresGuard = 60 * time.Second

// postgresDirs is where Debian installs the programs of PostgreSQL, which are not on PATH.
const postgresDirs = "/usr/lib/postgresql/*/bin"

// PostgresServer is a real PostgreSQL server of one test, on loopback. Kill ends it as abruptly as a power failure, but
// loses no written data, because the kernel still has it. The server therefore runs without fsync.
type PostgresServer struct {
	Addr string // "127.0.0.1:port"; unchanged by Kill and Start

	t        testing.TB
	programs string // directory
	dir      string
	remove   func() error // removes the directory
	port     int
	runAs    *syscall.Credential // nil for the user of the test; root needs another user
	cmd      *exec.Cmd           // nil while it does not run
	stores   int
	settings []string // in addition to the common settings
}

// Postgres starts a server on a free loopback port and stops it when the test ends. It skips the test like Need.
func Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	p := newPostgres(t)
	t.Cleanup(func() {
		p.Kill()
		if err := p.remove(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func newPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	path, err := filepath.EvalSymlinks(Need(t, "postgres")) // the other programs are in the same directory
	if err != nil {
		t.Fatal(err)
	}
	p := &PostgresServer{t: t, programs: filepath.Dir(path)}
	p.prepare()
	for range 5 { // another process may take the port between FreePort and the start
		p.port = FreePort(t)
		p.Addr = "127.0.0.1:" + strconv.Itoa(p.port)
		if err = p.start(); err == nil {
			return p
		}
	}
	_ = p.remove()
	t.Fatal(err)
	return nil
}

// prepare creates the directory of a server. The server's user may have no access to the directory of the test.
func (p *PostgresServer) prepare() {
	p.t.Helper()
	var err error
	if p.dir, p.remove, err = makeHome(memoryRoot(), "postgres"); err != nil {
		p.t.Fatal(err)
	}
	if os.Getuid() == 0 { // PostgreSQL does not run as root
		owner, err := user.Lookup("postgres")
		if err != nil {
			p.t.Fatal(err)
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		p.runAs = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	p.make(p.dir)
	initdb := p.command("initdb", "--pgdata", p.dir+"/data", "--username=writ", "--auth=trust", "--no-sync",
		"--no-instructions", "--encoding=UTF8", "--locale=C")
	if said, err := initdb.CombinedOutput(); err != nil {
		p.t.Fatalf("initdb: %v\n%s", err, said)
	}
}

func (p *PostgresServer) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.programs, name), args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.runAs}
	return cmd
}

func (p *PostgresServer) start() error {
	args := []string{"-D", p.dir + "/data", "-p", strconv.Itoa(p.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=16MB", "-c",
		"dynamic_shared_memory_type=mmap", "-c", "logging_collector=off", "-c", "lc_messages=C"}
	cmd := p.command("postgres", append(args, p.settings...)...)
	err := startServer(cmd, "database system is ready to accept connections", postgresGuard)
	if cmd.Process != nil {
		p.cmd = cmd
	}
	if err != nil {
		p.Kill()
		return fmt.Errorf("start postgres on port %d: %w", p.port, err)
	}
	return nil
}

// Kill ends the server and all its processes with SIGKILL and waits for their end. It does nothing if the server does
// not run.
func (p *PostgresServer) Kill() {
	p.t.Helper()
	if p.cmd == nil {
		return
	}
	first := p.cmd.Process.Pid
	_ = syscall.Kill(first, syscall.SIGSTOP) // prevents new children and restarts
	all := childrenOf(first)
	for _, pid := range append(all, first) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = p.cmd.Wait() // the error reports the kill
	p.cmd = nil
	for end := time.Now().Add(postgresGuard); slices.ContainsFunc(all, alive); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatal("processes of postgres do not end")
		}
	}
}

// Start restarts a killed server on the same port with its data, and returns when the server is ready.
func (p *PostgresServer) Start() {
	p.t.Helper()
	if p.cmd != nil {
		p.t.Fatal("postgres runs already")
	}
	if err := p.start(); err != nil {
		p.t.Fatal(err)
	}
}

// UseTLS restarts the server with TLS. It takes a certificate and its key (PEM) and further settings ("name=value").
func (p *PostgresServer) UseTLS(certificate, key []byte, more ...string) {
	p.t.Helper()
	p.Kill()
	p.settings = []string{
		"-c", "ssl=on", "-c", "ssl_cert_file=" + p.file("server.pem", certificate), "-c",
		"ssl_key_file=" + p.file("server.key", key),
	}
	for _, setting := range more {
		p.settings = append(p.settings, "-c", setting)
	}
	p.Start()
}

// file writes a file that only the server can read, and returns its path.
func (p *PostgresServer) file(name string, text []byte) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.own(path)
	return path
}

// Store creates an empty schema and returns its address. A schema is created a hundred times as fast as a database.
func (p *PostgresServer) Store() string {
	p.t.Helper()
	p.stores++
	name := "test" + strconv.Itoa(p.stores)
	p.SQL("CREATE SCHEMA " + name)
	return p.URL("postgres") + "&search_path=" + name
}

// SQL runs statements as the superuser and returns their output.
func (p *PostgresServer) SQL(text string) string {
	p.t.Helper()
	said, err := p.command("psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command="+text,
		p.URL("postgres")).CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", text, err, said)
	}
	return strings.TrimSpace(string(said))
}

// Folder creates a directory that the server can write to, and returns its path.
func (p *PostgresServer) Folder(name string) string {
	p.t.Helper()
	dir := filepath.Join(p.dir, name)
	p.make(dir)
	return dir
}

func (p *PostgresServer) make(dir string) {
	p.t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	p.own(dir)
}

// own gives a file or directory to the server's user.
func (p *PostgresServer) own(path string) {
	p.t.Helper()
	if p.runAs == nil {
		return
	}
	if err := os.Chown(path, int(p.runAs.Uid), int(p.runAs.Gid)); err != nil {
		p.t.Fatal(err)
	}
}

// URL returns the address of a database.
func (p *PostgresServer) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User("writ"), Host: p.Addr, Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// SharedPostgres is a server that the tests of a package share, with separate stores. A start takes a second. The zero
// value is ready to use. TestMain calls Stop after all tests.
type SharedPostgres struct{ server *PostgresServer }

// Store returns the address of an empty store. The first call starts the server. It skips the test like Need.
func (s *SharedPostgres) Store(t testing.TB) string {
	t.Helper()
	if s.server == nil {
		s.server = newPostgres(t)
	}
	s.server.t = t
	return s.server.Store()
}

// Stop ends the server if it was started.
func (s *SharedPostgres) Stop() {
	if s.server == nil {
		return
	}
	s.server.Kill()
	_ = s.server.remove()
}

// childrenOf returns the child processes of a process.
func childrenOf(parent int) (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid, ppid, _, err := stat(path)
		if err == nil && ppid == parent {
			all = append(all, pid)
		}
	}
	return all
}

// alive reports whether a process is running. A zombie is not.
func alive(pid int) bool {
	_, _, state, err := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && state != "Z"
}

// stat parses a stat file in /proc.
func stat(path string) (pid, parent int, state string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, "", err
	}
	before, _, _ := strings.Cut(string(text), " ")
	i := strings.LastIndexByte(string(text), ')') // the preceding name may contain any character
	if i < 0 {
		return 0, 0, "", errors.New("no process")
	}
	if _, err := fmt.Sscan(string(text[i+1:]), &state, &parent); err != nil {
		return 0, 0, "", err
	}
	pid, err = strconv.Atoi(before)
	return pid, parent, state, err
}
