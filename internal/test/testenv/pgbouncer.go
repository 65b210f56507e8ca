package testenv

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Pooler starts a PgBouncer in front of the server and returns the address of a database behind it. It adds settings,
// one per line, to the configuration. PgBouncer ends with the test. Pooler skips the test like Need.
func (p *PostgresServer) Pooler(t testing.TB, settings ...string) string {
	t.Helper()
	path := Need(t, "pgbouncer")
	port := FreePort(t)
	name := fmt.Sprintf("pooler%d", port)
	p.Folder(name)
	lines := append([]string{
		"[databases]", fmt.Sprintf("postgres = host=127.0.0.1 port=%d user=writ", p.port),
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", port), "unix_socket_dir =",
		"auth_type = any",
	}, settings...)
	file := p.file(name+"/pgbouncer.ini", []byte(strings.Join(lines, "\n")+"\n"))
	startPooler(t, exec.Command(path, file), "process up", p.runAs)
	return poolerAddress(port)
}

// Pgpool starts a Pgpool-II in front of the server and returns the address of a database behind it. Pgpool-II ends with
// the test. Pgpool skips the test like Need.
func (p *PostgresServer) Pgpool(t testing.TB) string {
	t.Helper()
	path := Need(t, "pgpool")
	port := FreePort(t)
	name := fmt.Sprintf("pgpool%d", port)
	dir := p.Folder(name)
	var text strings.Builder
	for setting, value := range map[string]any{
		"backend_clustering_mode": "'raw'", "listen_addresses": "'127.0.0.1'", "port": port, "pcp_port": FreePort(t),
		"backend_hostname0": "'127.0.0.1'", "backend_port0": p.port, "num_init_children": 4,
		"unix_socket_directories": "'" + dir + "'", "pcp_socket_dir": "'" + dir + "'",
		"pid_file_name": "'" + dir + "/pid'", "logdir": "'" + dir + "'", "work_dir": "'" + dir + "'",
	} {
		fmt.Fprintf(&text, "%s = %v\n", setting, value)
	}
	config := p.file(name+"/pgpool.conf", []byte(text.String()))
	empty := p.file(name+"/empty", nil)
	startPooler(t, exec.Command(path, "-n", "-f", config, "-F", empty, "-a", empty, "-k", empty),
		"successfully started", p.runAs)
	return poolerAddress(port)
}

func poolerAddress(port int) string {
	return fmt.Sprintf("postgres://writ@127.0.0.1:%d/postgres", port)
}

// startPooler returns when the output of a pooler contains the text `ready`. Like PostgreSQL, poolers do not run as
// root.
func startPooler(t testing.TB, cmd *exec.Cmd, ready string, runAs *syscall.Credential) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: runAs}
	err := startServer(cmd, ready, postgresGuard)
	if cmd.Process != nil {
		t.Cleanup(func() {
			_ = syscall.Kill(cmd.Process.Pid, syscall.SIGSTOP) // the pooler would replace each child that ends
			for _, pid := range append(childrenOf(cmd.Process.Pid), cmd.Process.Pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			_ = cmd.Wait() // the error reports the kill
		})
	}
	if err != nil {
		t.Fatalf("start the pooler: %v", err)
	}
}
