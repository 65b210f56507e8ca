// Package serve contains the shared parts of daemons: a command that serves until it receives a signal, and the flags
// for drivers and connections.
package serve

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/identity"
	"writ/runner/queue/redisqueue"
)

// DaemonCommand completes a command that serves until it receives a signal.
func DaemonCommand(
	env *cli.Env, c *cobra.Command, serve func(ctx context.Context, log *slog.Logger) error,
) *cobra.Command {
	var l cli.LogFlags
	l.Add(c, "info")
	cli.SettingsFile(c)
	c.Args = cli.Exactly()
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := cli.NewLog(env, l)
		if err != nil {
			return err
		}
		WarnOfData(log, cmd)
		daemon.Ease()
		ctx, stop := context.WithCancel(cmd.Context())
		var reports sync.WaitGroup
		reports.Go(func() { daemon.ReportOnSignal(ctx, log) })
		defer reports.Wait()
		defer stop()
		if err := serve(ctx, log); !cli.IsInterrupt(cmd.Context(), err) {
			return err
		}
		log.Info("stopped")
		return nil
	}
	return c
}

// MetricsFlag adds the flag for the metrics listener. beyond describes the protection of a listener that other machines
// can reach.
func MetricsFlag(c *cobra.Command, address *string, beyond string) {
	c.Flags().StringVar(address, "metrics-listen", "",
		"address of a listener for metrics and health alone, without login. "+beyond)
	cli.FromEnvironment(c.Flags(), "metrics-listen")
}

// ListenForMetrics opens the listener for metrics. Without an address it returns nil.
func ListenForMetrics(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	return daemon.Listen(address)
}

// CapacityFlags adds the flags for the capacity that a node offers. otherwise describes the value 0.
func CapacityFlags(c *cobra.Command, capacity *writ.Capacity, otherwise string) {
	f := c.Flags()
	f.Int64Var(&capacity.CPUs, "cpus", 0, "number of CPUs to offer; "+otherwise)
	cli.InRange(f, "cpus", &capacity.CPUs, 0, cli.Most)
	f.Int64Var(&capacity.MemoryMiB, "memory-mib", 0, "memory to offer, in MiB; "+otherwise)
	cli.InRange(f, "memory-mib", &capacity.MemoryMiB, 0, cli.Most)
	f.Int64Var(&capacity.DiskGiB, "disk-gib", 0, "disk to offer, in GiB; "+otherwise)
	cli.InRange(f, "disk-gib", &capacity.DiskGiB, 0, cli.Most)
}

// HostName returns a valid node name for this host, or "".
func HostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	if !writ.ValidName(name) {
		return ""
	}
	return name
}

// RedisFlags adds the flags for the connection to Redis.
func RedisFlags(c *cobra.Command, s *redisqueue.Server) {
	f := c.Flags()
	f.StringVar(&s.URL, "redis", "",
		"address of the datacenter's Redis; rediss:// for TLS. @FILE reads it from a file, which keeps a password secret")
	f.StringVar(&s.CA, "redis-ca", "", "file with the CA of Redis; by default the CAs of the system")
	f.StringVar(&s.Certificate, "redis-cert", "", "file with the certificate to show to Redis")
	f.StringVar(&s.Key, "redis-key", "", "file with the key of the certificate in --redis-cert")
	cli.FromEnvironment(f, "redis", "redis-ca", "redis-cert", "redis-key")
}

// FindRedis reads the address of Redis from the file that --redis names with an @. A missing address is an error.
func FindRedis(s *redisqueue.Server) error {
	url, _, err := daemon.ValueOf(s.URL)
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "cannot read the address of Redis: %v", err)
	}
	s.URL = url
	if s.URL == "" {
		return writ.Errorf(writ.CodeUsage, "--redis is missing").
			WithHint("give the Redis of the datacenter, such as redis://127.0.0.1:6379/0; `writ dev` includes one")
	}
	return nil
}

// TrustedCluster parses the id of the cluster to trust. An empty id is valid.
func TrustedCluster(id string) (writ.ClusterID, error) {
	if _, err := writ.ParseDigest(id); id != "" && err != nil {
		return "", writ.Errorf(writ.CodeUsage, "%q is not the id of a cluster: it has 64 hex digits", id).
			WithHint("`writ context list -o wide` shows the id on a machine that uses the cluster")
	}
	return writ.ClusterID(id), nil
}

// JoinToken parses a join token, or reads it from a file given as @FILE, which keeps it out of process lists. It
// returns nil without a token. If joined is true, it returns nil without reading the file: the token is spent, and a
// start must succeed without it.
func JoinToken(join string, joined bool) (*identity.Token, error) {
	if join == "" || joined {
		return nil, nil
	}
	text, _, err := daemon.ValueOf(join)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot read the token: %v", err).
			WithHint("a daemon that has joined needs no token: check that --data is its directory")
	}
	token, err := identity.ParseToken(text)
	if err != nil {
		return nil, err
	}
	return &token, nil
}

// WarnOfData logs DATA_UNSAFE if the data directory of a daemon is in memory or on the network. The daemon starts
// anyway, because a test or a node without a disk may have such a directory on purpose.
func WarnOfData(log *slog.Logger, cmd *cobra.Command) {
	data := cmd.Flag("data")
	if data == nil {
		return
	}
	if e := writ.AsError(config.UnsafeData(data.Value.String())); e != nil {
		log.Warn(e.Message, "code", e.Code, "hint", e.Hint)
	}
}
