package testenv

import (
	"bufio"
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

// postgresGuard ends the wait for a server that neither starts nor dies; both take some 100 ms.
const postgresGuard = 60 * time.Second

// postgresDirs is where Debian keeps the programs of PostgreSQL, which are not on PATH.
const postgresDirs = "/usr/lib/postgresql/*/bin"

// PostgresServer is a real PostgreSQL server of one test, on loopback. It is killed as if its machine had lost its power, except that
// what it has written is not lost: it is told not to fsync, because killing processes does not need it.
type PostgresServer struct {
	Addr string // "127.0.0.1:port"; the same after Kill and Start

	t        testing.TB
	programs string // directory
	dir      string
	remove   func() error // the directory
	port     int
	runAs    *syscall.Credential // nil for who runs the test: only root must be somebody else
	cmd      *exec.Cmd           // nil while it does not run
	stores   int
	settings []string // besides those of every server
}

// Postgres starts a server on a free port of loopback and stops it when the test ends. It skips the test as Need does.
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
	path, err := filepath.EvalSymlinks(Need(t, "postgres")) // its other programs are where it is
	if err != nil {
		t.Fatal(err)
	}
	p := &PostgresServer{t: t, programs: filepath.Dir(path)}
	p.prepare()
	for range 5 { // somebody else may take the port between FreePort and postgres
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

// prepare makes the directory of a server. It is not that of the test, which may be closed to the server's user.
func (p *PostgresServer) prepare() {
	p.t.Helper()
	var err error
	if p.dir, p.remove, err = makeHome(memoryRoot(), "postgres"); err != nil {
		p.t.Fatal(err)
	}
	if os.Getuid() == 0 { // PostgreSQL refuses to be root
		owner, err := user.Lookup("postgres")
		if err != nil {
			p.t.Fatal(err)
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		p.runAs = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	p.make(p.dir)
	initdb := p.command("initdb", "--pgdata", p.dir+"/data", "--username=writ", "--auth=trust", "--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C")
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

// start reads the server's log until it says that it is ready. After that the log is closed, as that of redis-server.
func (p *PostgresServer) start() error {
	log, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	defer log.Close()
	args := []string{"-D", p.dir + "/data", "-p", strconv.Itoa(p.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=16MB", "-c", "dynamic_shared_memory_type=mmap",
		"-c", "logging_collector=off", "-c", "lc_messages=C"}
	cmd := p.command("postgres", append(args, p.settings...)...)
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	p.cmd = cmd
	_ = log.SetReadDeadline(time.Now().Add(postgresGuard))
	var said strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), "database system is ready to accept connections") {
			return nil
		}
		said.WriteString(lines.Text() + "\n")
	}
	p.Kill()
	return fmt.Errorf("postgres did not start on port %d; it said:\n%s", p.port, said.String())
}

// Kill ends the server and all its processes with SIGKILL and returns when they are gone. It does nothing to one that does not run.
func (p *PostgresServer) Kill() {
	p.t.Helper()
	if p.cmd == nil {
		return
	}
	first := p.cmd.Process.Pid
	_ = syscall.Kill(first, syscall.SIGSTOP) // it makes no more children, and does not mend what is killed
	all := childrenOf(first)
	for _, pid := range append(all, first) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = p.cmd.Wait() // the error says that it was killed
	p.cmd = nil
	for end := time.Now().Add(postgresGuard); slices.ContainsFunc(all, alive); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatal("processes of postgres do not end")
		}
	}
}

// Start starts a killed server again, on the same port and with what it has, and returns when it answers.
func (p *PostgresServer) Start() {
	p.t.Helper()
	if p.cmd != nil {
		p.t.Fatal("postgres runs already")
	}
	if err := p.start(); err != nil {
		p.t.Fatal(err)
	}
}

// UseTLS lets the server speak TLS too, with a certificate and its key (PEM), and with more settings ("name=value"). It is killed and started again.
func (p *PostgresServer) UseTLS(certificate, key []byte, more ...string) {
	p.t.Helper()
	p.Kill()
	p.settings = []string{"-c", "ssl=on", "-c", "ssl_cert_file=" + p.file("server.pem", certificate), "-c", "ssl_key_file=" + p.file("server.key", key)}
	for _, setting := range more {
		p.settings = append(p.settings, "-c", setting)
	}
	p.Start()
}

// file leaves a file that only the server can read, and returns its path.
func (p *PostgresServer) file(name string, text []byte) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.own(path)
	return path
}

// Store makes an empty place for a store and returns its address: a schema, which is a hundred times as quick as a database.
func (p *PostgresServer) Store() string {
	p.t.Helper()
	p.stores++
	name := "test" + strconv.Itoa(p.stores)
	p.SQL("CREATE SCHEMA " + name)
	return p.URL("postgres") + "&search_path=" + name
}

// SQL carries out statements as the superuser, and returns what they give.
func (p *PostgresServer) SQL(text string) string {
	p.t.Helper()
	said, err := p.command("psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command="+text, p.URL("postgres")).CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", text, err, said)
	}
	return strings.TrimSpace(string(said))
}

// Folder makes a folder that the server can write to, and returns its path.
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

// own gives a file or folder to the server's user.
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
	u := url.URL{Scheme: "postgres", User: url.User("writ"), Host: p.Addr, Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// SharedPostgres is a server that the tests of a package share, each with stores of its own; starting one costs a second. The zero value
// is ready. TestMain calls Stop when all tests have run.
type SharedPostgres struct{ server *PostgresServer }

// Store returns the address of an empty store, and starts the server if this is the first one. It skips the test as Need does.
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

// childrenOf returns the processes that a process has started.
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

// alive reports whether a process still does something: one that nobody has waited for yet does not.
func alive(pid int) bool {
	_, _, state, err := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && state != "Z"
}

// stat reads what the kernel says of a process.
func stat(path string) (pid, parent int, state string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, "", err
	}
	before, _, _ := strings.Cut(string(text), " ")
	i := strings.LastIndexByte(string(text), ')') // the name in front of it may hold anything
	if i < 0 {
		return 0, 0, "", errors.New("no process")
	}
	if _, err := fmt.Sscan(string(text[i+1:]), &state, &parent); err != nil {
		return 0, 0, "", err
	}
	pid, err = strconv.Atoi(before)
	return pid, parent, state, err
}
