// Package config stores the client's settings: contexts and rosters. A context names a cluster, its coordinators, its
// trust anchor and the key to sign with. The package handles files and environment variables, and verifies the rosters
// it stores. It must not know how to query a coordinator.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/adrg/xdg"
	"github.com/oasdiff/yaml"

	"writ"
	"writ/cmd/writ/internal/redact"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/internal/lazyregexp"
	"writ/internal/meant"
	"writ/internal/yamltext"
)

// DefaultServer is the default address of a coordinator.
const DefaultServer = "http://127.0.0.1:7440"

// File is a configuration file: config.yaml, or the client.yaml that `writ init` and `writ dev` create.
type File struct {
	Path     string    `json:"-"`
	Current  string    `json:"current-context,omitempty"`
	Contexts []Context `json:"contexts"`
}

// Context holds the settings of one user for one cluster.
type Context struct {
	Name    string         `json:"name"`
	Servers []string       `json:"servers"` // coordinators, tried in this order
	Cluster writ.ClusterID `json:"cluster"` // root of trust of its rosters
	// Roster version and digest that the chain must contain; see identity.Anchor.
	Anchor  string `json:"anchor,omitempty"`
	Project string `json:"project,omitempty"` // default project of commands
	Key     string `json:"key,omitempty"`     // see client.Key; "" searches for a key

	// Alone is set if the servers were given for this command. The client then ignores other servers in the roster.
	Alone bool `json:"-"`
}

// DefaultPath returns the default path of the configuration.
func DefaultPath() string { return filepath.Join(xdg.ConfigHome, "writ", "config.yaml") }

// DefaultData returns the default data directory of daemons.
func DefaultData() string { return filepath.Join(xdg.StateHome, "writ") }

// Load reads the configuration at path. A missing file yields an empty configuration.
func Load(path string) (*File, error) {
	f := &File{Path: path}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "cannot read the configuration: %v", err)
	}
	if err := yamltext.Decode(text, f); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the configuration %s cannot be read: %v", path, err).
			WithHint("%s", correctIt)
	}
	for _, c := range f.Contexts {
		if err := c.checkKept(); err != nil {
			return nil, writ.Errorf(writ.CodeUsage, "the configuration %s: context %q: %v", path, c.Name, err).
				WithHint("%s", cmp.Or(writ.AsError(err).Hint, correctIt))
		}
	}
	return f, nil
}

// correctIt is the hint for an invalid configuration file.
const correctIt = "correct the file, or export the context again on a machine that has it: `writ context export`"

// copyIt is the hint for invalid context values from a user.
const copyIt = "copy it from `writ context export` on a machine that has the context"

var clusterPattern = lazyregexp.New(`^[0-9a-f]{64}$`)

// check validates the context. Empty fields are valid, because flags may set them later.
func (c *Context) check() error {
	if c.Cluster != "" && !clusterPattern.MatchString(string(c.Cluster)) {
		return fmt.Errorf("the cluster's id has 64 hex digits, not %q", c.Cluster)
	}
	for _, s := range c.Servers {
		if !strings.HasPrefix(s, "http://") && !strings.HasPrefix(s, "https://") {
			return fmt.Errorf("the server %q must be a URL like %s", s, DefaultServer)
		}
	}
	_, err := identity.ParseAnchor(c.Cluster, c.Anchor)
	return err
}

// checkKept validates a context before it is stored. In addition to check, it rejects secrets, because commands print
// contexts in full.
func (c *Context) checkKept() error {
	if slices.ContainsFunc(append([]string{c.Name, string(c.Cluster), c.Project, c.Key}, c.Servers...), redact.HoldsKey) {
		return writ.Errorf(writ.CodeUsage, "it contains a private key or a token instead of a name").
			WithHint("give the name of the file with the key, or \"agent\"; if other people could read the key here, use another key from now on")
	}
	return c.check()
}

// Save writes the configuration atomically, readable by the owner only.
func (f *File) Save() error {
	text, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := WriteFile(f.Path, text); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// Context returns the context called name, or nil.
func (f *File) Context(name string) *Context {
	i := slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Contexts[i]
}

// Add adds a context or replaces the context of the same name, and saves the file. A first context becomes the current
// one.
func (f *File) Add(c Context) error {
	if err := c.checkKept(); err != nil {
		return writ.Errorf(writ.CodeUsage, "context %q: %v", c.Name, err).
			WithHint("%s", cmp.Or(writ.AsError(err).Hint, copyIt))
	}
	if have := f.Context(c.Name); have != nil {
		*have = c
	} else {
		f.Contexts = append(f.Contexts, c)
	}
	f.Current = cmp.Or(f.Current, c.Name)
	return f.Save()
}

// Meant returns the hint for an unknown context name.
func (f *File) Meant(name string) string {
	return meant.Among(name, f.Contexts, func(c Context) string { return c.Name }, "`writ context list` lists the contexts")
}

// Choose returns the context for a command: the context called name, else the current one, else the only one. Fields
// set in over take precedence. Without any server, Choose uses DefaultServer.
func (f *File) Choose(name string, over Context) (Context, error) {
	var c Context
	switch {
	case name != "":
		found := f.Context(name)
		if found == nil {
			return c, writ.Errorf(writ.CodeNotFound, "unknown context %q in %s", name, f.Path).WithHint("%s", f.Meant(name))
		}
		c = *found
	case f.Current != "" && f.Context(f.Current) != nil:
		c = *f.Context(f.Current)
	case len(f.Contexts) == 1:
		c = f.Contexts[0]
	}
	if len(over.Servers) > 0 {
		c.Servers, c.Alone = over.Servers, true
	}
	for at, value := range map[*string]string{
		(*string)(&c.Cluster): string(over.Cluster), &c.Project: over.Project, &c.Key: over.Key,
	} {
		if value != "" {
			*at = value
		}
	}
	if len(c.Servers) == 0 {
		c.Servers = []string{DefaultServer}
	}
	if err := c.check(); err != nil {
		return c, writ.Errorf(writ.CodeUsage, "%v", err).WithHint("%s", copyIt)
	}
	return c, nil
}

// ReplaceFile writes a file atomically with these permissions, whatever the umask is.
//
//failpoint:none it writes files that a command or the next start makes again
func ReplaceFile(path string, perm fs.FileMode, text []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails after the rename, when the file is gone
	_, err = temp.Write(text)
	if err := errors.Join(err, temp.Chmod(perm), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// WriteFile writes a file atomically, readable by the owner only. It returns once the file is on disk. A file with the
// same text is not replaced.
func WriteFile(path string, text []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = failpoint.OfFile(path).Write(temp, text)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, text) {
		if err := os.Rename(temp.Name(), path); err != nil {
			return err
		}
	}
	// The directory is synced even if the text is unchanged, because the previous writer may have been killed before its
	// own sync.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = errors.Join(dir.Sync(), dir.Close())
	failpoint.OfFile(path).End(err)
	return err
}
