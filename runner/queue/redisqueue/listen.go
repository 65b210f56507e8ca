package redisqueue

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"writ"
)

// Listening configures the TLS port of Redis for the nodes of its datacenter.
type Listening struct {
	Address     string // such as "10.0.0.2:6379", an address of Redis's host
	Certificate string // PEM files that Redis can read: its certificate with the authority's certificate, and the key
	Key         string
}

// Listens reports whether Redis has this configuration. Redis does not keep the configuration over a restart.
func (q *Queue) Listens(ctx context.Context, l Listening) (bool, error) {
	have, err := q.settings(ctx, "tls-*", "bind")
	if err != nil {
		return false, err
	}
	want, err := l.settings(have)
	if err != nil {
		return false, err
	}
	for i := 0; i < len(want); i += 2 {
		if have[want[i]] != want[i+1] {
			return false, nil
		}
	}
	return true, nil
}

// Listen sets this configuration in Redis, which then reads the files again. If Redis forbids this process to change
// settings, the error has the remedy.
func (q *Queue) Listen(ctx context.Context, l Listening) error {
	have, err := q.settings(ctx, "tls-*", "bind", "port")
	if err != nil {
		return err
	}
	if have["port"] != "0" { // the setting bind applies to both ports
		return writ.Errorf(writ.CodeUsage, "Redis listens on port %s without TLS, and would also do so on %s", have["port"],
			l.Address).
			WithHint("write `port 0` into redis.conf, and give the supervisor a socket: --redis unix:///run/redis/redis.sock")
	}
	want, err := l.settings(have)
	if err != nil {
		return err
	}
	args := []any{"CONFIG", "SET"}
	for _, word := range want {
		args = append(args, word)
	}
	if err := q.client.Do(ctx, args...).Err(); err != nil {
		return refusedSetting(ctx, "make Redis listen on "+l.Address, err)
	}
	return nil
}

// settings returns names and values in an order that CONFIG SET accepts.
func (l Listening) settings(have map[string]string) ([]string, error) {
	host, port, err := net.SplitHostPort(l.Address)
	if err != nil || host == "" {
		return nil, writ.Errorf(writ.CodeUsage, "%q is not a listen address for Redis", l.Address).
			WithHint("it looks like 10.0.0.2:6379")
	}
	bind := slices.DeleteFunc(strings.Fields(have["bind"]), everywhere) // drops the default of Redis: all addresses
	if !slices.ContainsFunc(bind, func(b string) bool { return strings.TrimPrefix(b, "-") == host }) {
		bind = append(bind, host)
	}
	return []string{
		"tls-protocols", "TLSv1.3", "tls-auth-clients", "no", // clients log in: see Accounts
		"tls-cert-file", l.Certificate, "tls-key-file", l.Key,
		"bind", strings.Join(bind, " "), "tls-port", port,
	}, nil
}

// everywhere reports whether Redis listens on all addresses of its host for a bind value.
func everywhere(bind string) bool {
	return slices.Contains([]string{"*", "::*", "0.0.0.0", "::"}, strings.TrimPrefix(bind, "-"))
}

func (q *Queue) settings(ctx context.Context, patterns ...string) (map[string]string, error) {
	args := []any{"CONFIG", "GET"}
	for _, p := range patterns {
		args = append(args, p)
	}
	answer, err := q.client.Do(ctx, args...).Result()
	if err != nil {
		return nil, refusedSetting(ctx, "read the settings of Redis", err)
	}
	have := make(map[string]string)
	switch answer := answer.(type) {
	case map[any]any:
		for name, value := range answer {
			have[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	case []any:
		for i := 0; i+1 < len(answer); i += 2 {
			have[fmt.Sprint(answer[i])] = fmt.Sprint(answer[i+1])
		}
	}
	return have, nil
}

func refusedSetting(ctx context.Context, what string, err error) error {
	switch {
	case redis.IsPermissionError(err):
		return writ.Errorf(writ.CodeUsage, "the supervisor may not %s: %v", what, err).
			WithHint("permit this to the supervisor's Redis user: ACL SETUSER name +config|get +config|set")
	case has[redis.Error](err): // Redis answered, and rejects the setting
		return writ.Errorf(writ.CodeQueueUnavailable, "cannot %s: %v", what, err).
			WithHint("Redis must be built with TLS, and its user must be able to read the files of --redis-tls-dir")
	}
	return away(ctx, err)
}
