package testenv

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Pooler starts a PgBouncer in front of the server and returns the address of a database behind it. It adds settings,
// one per line, to the configuration. PgBouncer ends with the test. Pooler skips the test like Need.
func (p *PostgresServer) Pooler(t testing.TB, settings ...string) string {
	t.Helper()
	path := Need(t, "pgbouncer")
	port := FreePort(t)
	dir := p.Folder("pooler" + strconv.Itoa(port))
	host, serverPort, err := net.SplitHostPort(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	lines := append([]string{
		"[databases]", fmt.Sprintf("postgres = host=%s port=%s user=writ", host, serverPort),
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", port), "unix_socket_dir =",
		"auth_type = any",
	}, settings...)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.own(file)
	startPooler(t, path, file, p.runAs)
	u := url.URL{
		Scheme: "postgres", User: url.User("writ"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path: "/postgres",
	}
	return u.String()
}

// startPooler returns when PgBouncer is ready. Like PostgreSQL, PgBouncer does not run as root.
func startPooler(t testing.TB, path, file string, runAs *syscall.Credential) {
	t.Helper()
	log, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(path, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: runAs}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the error reports the kill
	})
	_ = log.SetReadDeadline(time.Now().Add(postgresGuard))
	var output strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), "process up") {
			return
		}
		output.WriteString(lines.Text() + "\n")
	}
	t.Fatalf("pgbouncer did not start:\n%s", output.String())
}
