package roster

import (
	"context"
	"net/url"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/coordinatord"
	"writ/cmd/writ/internal/terminal"
	"writ/cmd/writ/internal/transport"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/reach"
)

// Files that the command line creates in a data directory.
const (
	clientFile = "client.yaml"
	newKeyFile = "root.key"
)

// founding is the output of `writ init`.
type founding struct {
	Cluster     writ.ClusterID `json:"cluster"`
	Name        string         `json:"name"`
	Key         string         `json:"key"`
	Fingerprint string         `json:"fingerprint"`
	Roster      string         `json:"roster"`
	Client      string         `json:"client"`
	Expires     time.Time      `json:"expires"`
}

func initCommand(env *cli.Env) *cobra.Command {
	var data, name, server string
	var newKey bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Create a cluster: the first version of its roster, signed by you",
		Long: `Creates a cluster. Your SSH key becomes the root key of the roster. The hash of the key is the id of the
cluster, which every joining machine trusts. You become the first root operator and have all rights in the cluster.

It writes the signed roster, and client.yaml for the commands that connect to the cluster.`,
		Example: `  writ init --data ./cluster
  writ init --data ./cluster --key ~/.ssh/id_work --name alice
  writ init --data ./cluster --new-key`,
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			coordinator, err := transport.Address("coordinator", server)
			if err == nil {
				err = checkPublished(coordinator)
			}
			if err != nil {
				return err
			}
			f, err := found(cmd.Context(), env, data, name, coordinator, newKey)
			if err != nil {
				return err
			}
			return showFounding(env, data, coordinator, f)
		},
	}
	f := c.Flags()
	cli.DataFlag(c, &data)
	env.KeyFlag(f)
	f.StringVar(&name, "name", userName(), "your name in the roster")
	f.Lookup("name").DefValue = "your login name"
	f.StringVar(&server, "coordinator", config.DefaultServer, "future address of the coordinator")
	f.BoolVar(&newKey, "new-key", false, "create a key in the data directory instead of using your key")
	return c
}

// userName returns a valid principal name for the current user.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return "operator"
	}
	name := strings.ToLower(u.Username[strings.LastIndexByte(u.Username, '\\')+1:]) // Windows returns DOMAIN\name
	if !identity.ValidPrincipal(name) {
		return "operator"
	}
	return name
}

func found(ctx context.Context, env *cli.Env, data, name string, coordinator *url.URL, newKey bool) (founding, error) {
	if !identity.ValidPrincipal(name) {
		return founding{}, writ.Errorf(writ.CodeUsage, "%q cannot be a name in the roster", name).
			WithHint("--name takes lower-case letters, digits and ._:/@-")
	}
	if newKey && env.Flags.Key != "" {
		return founding{}, writ.Errorf(writ.CodeUsage, "--key and --new-key exclude each other")
	}
	data, err := filepath.Abs(data)
	if err != nil {
		return founding{}, err
	}
	if _, err := config.FindRosters(data); writ.CodeOf(err) != writ.CodeNotFound {
		if err == nil {
			err = writ.Errorf(writ.CodeConflict, "%s already contains a cluster", data).WithHint("use another --data for a new cluster")
		}
		return founding{}, err
	}
	keys := env.Keys()
	if newKey {
		if err := config.MakeData(data); err != nil {
			return founding{}, err
		}
		keys.Spec = filepath.Join(data, newKeyFile)
		if _, err := sshsig.LoadOrCreateKey(keys.Spec); err != nil {
			return founding{}, err
		}
	}
	key, err := keys.Open(ctx, nil)
	if err != nil {
		return founding{}, err
	}
	defer key.Close()
	return writeFounding(data, name, coordinator, key)
}

// writeFounding signs the roster and writes the files.
func writeFounding(data, name string, coordinator *url.URL, key *client.Key) (founding, error) {
	if err := config.MakeData(data); err != nil {
		return founding{}, err
	}
	coordinators, err := firstCoordinator(data, coordinator)
	if err != nil {
		return founding{}, err
	}
	roster, signed, err := client.Found(key, name, time.Now(), coordinators...)
	if err != nil {
		return founding{}, err
	}
	rosters := config.RostersIn(data, roster.Cluster)
	if _, err := rosters.Add(signed); err != nil {
		return founding{}, err
	}
	anchor, err := identity.AnchorOf(roster)
	if err != nil {
		return founding{}, err
	}
	file := &config.File{Path: filepath.Join(data, clientFile)}
	err = file.Add(config.Context{
		Name: client.DefaultProject, Servers: []string{identity.CoordinatorURL(coordinator.String())},
		Cluster: roster.Cluster, Anchor: anchor.String(), Project: client.DefaultProject, Key: key.Spec,
	})
	if err != nil {
		return founding{}, err
	}
	return founding{
		Cluster: roster.Cluster, Name: name, Key: key.Spec, Fingerprint: ssh.FingerprintSHA256(key.PublicKey()),
		Roster: rosters.Path(roster.Version), Client: file.Path, Expires: roster.Expires,
	}, nil
}

// firstCoordinator creates the key of a coordinator in the data directory, and returns its roster entry.
func firstCoordinator(data string, u *url.URL) ([]identity.Coordinator, error) {
	key, err := coordinatord.Key(data)
	if err != nil {
		return nil, err
	}
	return []identity.Coordinator{
		{ID: writ.NewUUID(), Name: "coord1", Key: daemon.PublicKey(key), URLs: []string{identity.CoordinatorURL(u.String())}},
	}, nil
}

func showFounding(env *cli.Env, data string, coordinator *url.URL, f founding) error {
	err := env.Print(terminal.Record(f, string(f.Cluster),
		terminal.Field{Title: "cluster", Value: string(f.Cluster)},
		terminal.Field{Title: "root operator", Value: f.Name},
		terminal.Field{Title: "key", Value: f.Key + " " + f.Fingerprint},
		terminal.Field{Title: "roster", Value: f.Roster + ", version 1, until " + f.Expires.Format(time.DateOnly)},
		terminal.Field{Title: "client", Value: f.Client},
	))
	if reach.Loopback(coordinator.Hostname()) {
		env.Note("\nNext:\n  %s", coordinatorStart(data, coordinator))
	} else {
		env.Note("\nNext, copy coordinator.key and rosters from %s to the host of the coordinator, and run there:\n  %s\nThen here:", data, coordinatorStart(data, coordinator))
	}
	env.Note("  export WRIT_CONFIG=%s\n  writ dc add dc1 --region here", f.Client)
	return err
}
