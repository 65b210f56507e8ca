package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// postgresPrograms returns the directory of PostgreSQL's programs, which is not on PATH in Debian.
func postgresPrograms() (dir string, err error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	there, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(there) == 0 {
		return "", errors.New("postgres is not on PATH (apt-get install -y postgresql)")
	}
	return filepath.Dir(slices.MaxFunc(there, compareReleases)), nil
}

// compareReleases compares paths such as /usr/lib/postgresql/17/bin/postgres by their release of PostgreSQL: 9.6 is
// before 17.
func compareReleases(a, b string) int { return cmp.Compare(releaseOf(a), releaseOf(b)) }

func releaseOf(program string) float64 {
	release, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(filepath.Dir(program))), 64) // 0 for another name
	return release
}

// startPostgres starts a PostgreSQL server on files in dir and returns its URL. Its default settings sync every commit.
func startPostgres(ctx context.Context, dir string) (url string, s *server, err error) {
	programs, err := postgresPrograms()
	if err != nil {
		return "", nil, err
	}
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		if as, err = asPostgres(dir); err != nil {
			return "", nil, err
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(programs, name), args...)
		cmd.Dir = dir
		if as != nil {
			own := *as
			cmd.SysProcAttr = &own
		}
		return cmd
	}
	data := filepath.Join(dir, "data")
	initdb := command("initdb", "--pgdata", data, "--username=bench", "--auth=trust", "--no-instructions", "--encoding=UTF8", "--locale=C")
	if said, err := initdb.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("initdb: %w: %s", err, said)
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	url = fmt.Sprintf("postgres://bench@127.0.0.1:%d/postgres?sslmode=disable", port)
	cmd := command("postgres", "-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "max_connections=200", "-c", "shared_buffers=512MB", "-c", "dynamic_shared_memory_type=mmap")
	s, err = startServer(ctx, cmd, syscall.SIGINT, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	return url, s, err
}

// asPostgres changes the owner of dir to the user postgres and returns the attributes to start a process as that user.
func asPostgres(dir string) (*syscall.SysProcAttr, error) {
	owner, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
