// Package config is the client's memory: which clusters a person works with, under what name, where their coordinators are, what to
// believe in and which key to sign with, and the rosters that were seen. It knows files and environment variables, and verifies what
// it keeps; it must not know how a coordinator is asked.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/adrg/xdg"
	"github.com/oasdiff/yaml"

	"writ"
	"writ/cmd/writ/internal/redact"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/internal/meant"
	"writ/internal/yamltext"
)

// DefaultServer is where a coordinator listens that was not told otherwise.
const DefaultServer = "http://127.0.0.1:7440"

// File is a configuration file: config.yaml, or the client.yaml that `writ init` and `writ dev` make.
type File struct {
	Path     string    `json:"-"`
	Current  string    `json:"current-context,omitempty"`
	Contexts []Context `json:"contexts"`
}

// Context is one cluster as one person uses it.
type Context struct {
	Name    string         `json:"name"`
	Servers []string       `json:"servers"`           // coordinators, tried in this order
	Cluster writ.ClusterID `json:"cluster"`           // what its rosters must descend from
	Anchor  string         `json:"anchor,omitempty"`  // a version of the roster and its digest, through which their chain must lead; see identity.Anchor
	Project string         `json:"project,omitempty"` // used unless a command says another
	Key     string         `json:"key,omitempty"`     // see client.Key; "" looks for one

	// Alone says that somebody named the servers for this command: no others of the roster are asked.
	Alone bool `json:"-"`
}

// DefaultPath is where the configuration lies if nobody says otherwise.
func DefaultPath() string { return filepath.Join(xdg.ConfigHome, "writ", "config.yaml") }

// DefaultData is where the state of daemons lies if nobody says otherwise.
func DefaultData() string { return filepath.Join(xdg.StateHome, "writ") }

// Load reads a configuration. A missing file is an empty one.
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
		return nil, writ.Errorf(writ.CodeUsage, "the configuration %s cannot be read: %v", path, err).WithHint("%s", correctIt)
	}
	for _, c := range f.Contexts {
		if err := c.checkKept(); err != nil {
			return nil, writ.Errorf(writ.CodeUsage, "the configuration %s: context %q: %v", path, c.Name, err).
				WithHint("%s", cmp.Or(writ.AsError(err).Hint, correctIt))
		}
	}
	return f, nil
}

// correctIt is what to do about a configuration that makes no sense.
const correctIt = "correct the file; `writ context export` on a machine that has the context writes it anew"

// copyIt is the hint for values of a context that a person typed.
const copyIt = "copy it from `writ context export` on a machine that has the context"

var clusterPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check returns what is wrong with a context. What is empty may still come from flags.
func (c *Context) check() error {
	if c.Cluster != "" && !clusterPattern.MatchString(string(c.Cluster)) {
		return fmt.Errorf("the cluster's id has 64 hex digits, not %q", c.Cluster)
	}
	for _, s := range c.Servers {
		if !strings.HasPrefix(s, "http://") && !strings.HasPrefix(s, "https://") {
			return fmt.Errorf("the server %q is no URL like %s", s, DefaultServer)
		}
	}
	_, err := identity.ParseAnchor(c.Cluster, c.Anchor)
	return err
}

// checkKept returns what is wrong with a context that is kept in a file: check, and that it holds nothing that only its owner may see. Whatever
// prints contexts shows all of them.
func (c *Context) checkKept() error {
	if slices.ContainsFunc(append([]string{c.Name, string(c.Cluster), c.Project, c.Key}, c.Servers...), redact.HoldsKey) {
		return writ.Errorf(writ.CodeUsage, "it holds a private key or a token, where only the name of one belongs").
			WithHint("give the name of the file with the key, or \"agent\"; if others could read the key here, use another one from now on")
	}
	return c.check()
}

// Save writes the configuration: completely or not at all, for the owner only.
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

// Context finds a context by its name, nil if there is none.
func (f *File) Context(name string) *Context {
	i := slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Contexts[i]
}

// Put adds a context, or replaces the one of its name.
func (f *File) Put(c Context) error {
	if err := c.checkKept(); err != nil {
		return writ.Errorf(writ.CodeUsage, "context %q: %v", c.Name, err).WithHint("%s", cmp.Or(writ.AsError(err).Hint, copyIt))
	}
	if have := f.Context(c.Name); have != nil {
		*have = c
		return nil
	}
	f.Contexts = append(f.Contexts, c)
	return nil
}

// Meant returns the hint for a name that no context has.
func (f *File) Meant(name string) string {
	return meant.Among(name, f.Contexts, func(c Context) string { return c.Name }, "`writ context list` shows them")
}

// Choose returns the context to work in: the one that is named, the current one, or the only one, with what is set in over put over
// it. Without any there is still a server to try.
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
	for at, value := range map[*string]string{(*string)(&c.Cluster): string(over.Cluster), &c.Project: over.Project, &c.Key: over.Key} {
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

// WriteFile writes a file of the owner, completely or not at all, and returns when it is on disk.
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
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, text) {
		return nil
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = errors.Join(dir.Sync(), dir.Close())
	failpoint.OfFile(path).End(err)
	return err
}
