package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"writ"
	"writ/internal/procstat"
	"writ/internal/reach"
)

// postgres is a PostgreSQL server with databases of a benchmark. It uses the programs psql, createdb and dropdb.
type postgres struct {
	url     *url.URL
	version string
	pid     int // of the server; 0 if it does not run on this machine
	made    []string
}

// newPostgres connects to the server at a URL.
func newPostgres(ctx context.Context, address string) (*postgres, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/postgres"
	}
	p := &postgres{url: u}
	if p.version, err = p.query(ctx, "show server_version"); err != nil {
		return nil, err
	}
	return p, p.find(ctx)
}

// find sets pid if the server runs on this machine. It finds the server as the parent of its checkpointer, which runs
// as long as the server.
func (p *postgres) find(ctx context.Context) error {
	if host := p.url.Hostname(); host != "" && !reach.Loopback(host) {
		return nil
	}
	text, err := p.query(ctx, "select pid from pg_stat_activity where backend_type = 'checkpointer'")
	if err != nil {
		return err
	}
	child, err := strconv.Atoi(text)
	if err != nil {
		return nil // the user may not see it
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
	if err != nil || !strings.Contains(string(name), "checkpointer") {
		return nil // the process has another id here, for example because the server runs in a container
	}
	fields, err := procstat.Fields(child)
	if err == nil && len(fields) > statParent {
		p.pid, err = strconv.Atoi(fields[statParent])
	}
	return err
}

// query returns the only value of a query.
func (p *postgres) query(ctx context.Context, sql string) (string, error) {
	out, err := p.run(ctx, "psql", "--no-psqlrc", "--no-align", "--tuples-only", "--command", sql, "--dbname")
	return strings.TrimSpace(out), err
}

// run runs a program of PostgreSQL and appends the server's address to args. The environment passes the password.
func (p *postgres) run(ctx context.Context, program string, args ...string) (string, error) {
	u, env := *p.url, os.Environ()
	settings := u.Query()
	password, is := u.User.Password()
	if is {
		u.User = url.User(u.User.Username())
	} else if is = settings.Has("password"); is {
		password = settings.Get("password")
		settings.Del("password")
		u.RawQuery = settings.Encode()
	}
	if is {
		env = append(env, "PGPASSWORD="+password)
	}
	cmd := exec.CommandContext(ctx, program, append(args, u.String())...)
	cmd.Env = env
	out, err := cmd.Output()
	if err == nil {
		return string(out), nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", writ.Errorf(writ.CodeUsage, "%w", err).WithHint("apt-get install -y postgresql-client")
	}
	why := err.Error()
	if exit, is := errors.AsType[*exec.ExitError](err); is && len(exit.Stderr) > 0 {
		why = strings.TrimSpace(string(exit.Stderr))
	}
	return "", writ.Errorf(writ.CodeUsage, "cannot use PostgreSQL with %s: %s", program, why).
		WithHint("check the address in --postgres; its user needs the right to create databases")
}

// database creates an empty database and returns its URL.
func (p *postgres) database(ctx context.Context) (string, error) {
	name := fmt.Sprintf("writ_bench_%d_%d", os.Getpid(), len(p.made)+1)
	_, err := p.run(ctx, "createdb", "--template=template0", "--encoding=UTF8", "--locale=C.UTF-8", name,
		"--maintenance-db")
	if err != nil {
		return "", err
	}
	p.made = append(p.made, name)
	u := *p.url
	u.Path = "/" + name
	return u.String(), nil
}

// drop deletes the databases, also after an interrupt.
func (p *postgres) drop() (err error) {
	for _, name := range p.made {
		_, failed := p.run(context.Background(), "dropdb", "--force", name, "--maintenance-db")
		err = errors.Join(err, failed)
	}
	p.made = nil
	return err
}
