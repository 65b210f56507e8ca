// Package cli has the parts that all commands share: their environment, their flags and arguments, shell completion,
// lists, and the signing of statements. The commands themselves are in packages below this directory, which package cli
// does not import.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/help"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
)

// Env is the environment of a command: the terminal, and the cluster that flags and contexts select.
type Env struct {
	*terminal.Terminal
	Flags   ClientFlags
	Version string // of this program
	// Run runs another command line in this process.
	Run func(args []string, in, out, err *os.File, environ []string) int

	warned sync.Map // texts that WarnOnce has shown
}

// ClientFlags hold the flags of commands that talk to a cluster.
type ClientFlags struct {
	Config  string
	Context string
	servers []string
	cluster string
	Project string
	Key     string
}

// ClientCommands adds the flags that select the cluster and the signer to commands that talk to a cluster. The commands
// reject --project unless the caller has applied InProject or OnlyClientFlags to them.
func (e *Env) ClientCommands(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		f := c.PersistentFlags()
		f.StringVar(&e.Flags.Config, "config", config.DefaultPath(), "file with contexts")
		f.StringVar(&e.Flags.Context, "context", "", "context to use, instead of the current one")
		f.StringSliceVar(&e.Flags.servers, "server", nil, "addresses of coordinators, tried in this order")
		f.StringVar(&e.Flags.cluster, "cluster", "", "id of the cluster to trust")
		f.StringVar(&e.Flags.Project, "project", "", "name or id of the project to work in")
		FromEnvironment(f, "config", "context", "server", "cluster", "project")
		e.KeyFlag(f)
		help.Mark(f, help.Client, clientFlags...)
		if !help.DeclaresUnused(c) {
			help.Unused(c, "project")
		}
		e.CompleteFlag(c, "project", suggestProjects)
	}
	return commands
}

// KeyFlag adds the flag that selects the signing key.
func (e *Env) KeyFlag(f *pflag.FlagSet) {
	f.StringVar(&e.Flags.Key, "key", "", "key to sign with: a file of ssh-keygen, \"agent\" or \"agent:SHA256:…\"")
	FromEnvironment(f, "key")
}

// Configuration reads the file with contexts, for commands that do not create it. A file that was named explicitly must
// exist. A missing default file counts as empty.
func (e *Env) Configuration() (*config.File, error) {
	path := e.Flags.Config
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && path != config.DefaultPath() {
		return nil, writ.Errorf(writ.CodeUsage, "the file %s of --config or WRIT_CONFIG does not exist", path).
			WithHint("correct the path; `writ context add` and `writ context import` make a file")
	}
	return config.Load(path)
}

// Overrides returns the context fields that flags and environment variables set.
func (f *ClientFlags) Overrides() config.Context {
	return config.Context{
		Servers: f.servers, Cluster: writ.ClusterID(f.cluster), Project: f.Project, Key: f.Key,
	}
}

// NamesNothing reports whether no cluster is selected: the file has no context, `name` (the context of --context) is
// empty, and no flag in `over` selects one. A project alone does not select a cluster.
func NamesNothing(file *config.File, name string, over config.Context) bool {
	return len(file.Contexts) == 0 && name == "" && len(over.Servers) == 0 && over.Cluster == "" && over.Key == ""
}

// Keys returns where this command line looks for the signing key.
func (e *Env) Keys() client.Keys {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	k := client.Keys{
		Spec: e.Flags.Key, AgentSocket: os.Getenv("SSH_AUTH_SOCK"), Home: home,
		Waiting: func(what string) { e.Note("… waiting for %s", what) },
	}
	if e.Interactive() {
		k.Passphrase = func(path string) ([]byte, error) { return e.Passphrase(path) }
	}
	return k
}

// Client returns the client of the selected context. Before it signs, the client warns about roles of the signer that
// end soon.
func (e *Env) Client() (*client.Client, error) {
	file, err := e.Configuration()
	if err != nil {
		return nil, err
	}
	chosen, err := file.Choose(e.Flags.Context, e.Flags.Overrides())
	if err != nil {
		return nil, err
	}
	keys := e.Keys()
	keys.Spec = chosen.Key
	c, err := client.New(chosen, filepath.Dir(e.Flags.Config), keys)
	if err != nil {
		return nil, err
	}
	c.Signs = e.WarnOfRoles
	c.HintIfAway(hintIfAway(file, NamesNothing(file, e.Flags.Context, e.Flags.Overrides()), chosen.Name))
	return c, nil
}

// hintIfAway returns the hint for a coordinator that does not answer, if the wrong context may be selected or the
// default address was used. Otherwise it returns "".
func hintIfAway(file *config.File, unconfigured bool, context string) string {
	switch {
	case unconfigured:
		return "no cluster is configured, so the usual address was tried: set WRIT_CONFIG to the client.yaml that `writ init` or `writ dev` made, or use `writ context add`"
	case len(file.Contexts) > 1 && context != "":
		return fmt.Sprintf("the context %s names it: check the address and that it runs (`writ doctor`), or choose another context with --context; "+
			"`writ context list` lists the contexts", context)
	}
	return ""
}

// Cluster returns the client of the selected context, and the newest roster of its cluster.
func (e *Env) Cluster(ctx context.Context) (*client.Client, *identity.Roster, error) {
	c, err := e.Client()
	if err != nil {
		return nil, nil, err
	}
	roster, err := e.Roster(ctx, c)
	return c, roster, err
}
