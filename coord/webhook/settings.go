package webhook

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"writ"
	"writ/internal/reach"
	"writ/internal/yamltext"
	"writ/ledger"
)

// Endpoint is an address for messages, with its filters.
type Endpoint struct {
	Name        string         `json:"name"` // chosen by the operator; the key of its position in the ledger
	URL         string         `json:"url"`
	SecretFile  string         `json:"secret_file"`           // path, relative to the settings file; one secret per line
	Types       []Type         `json:"types,omitempty"`       // empty means all
	Datacenters []string       `json:"datacenters,omitempty"` // names, for nodes and runs; empty means all
	Projects    []string       `json:"projects,omitempty"`    // names or ids, for runs; empty means all
	States      []ledger.State `json:"states,omitempty"`      // for runs; empty means all final states

	// Each message is signed with all secrets, so that a receiver can verify messages while its secret is replaced.
	secrets []*standardwebhooks.Webhook
}

// settings is the format of the file.
type settings struct {
	Webhooks []Endpoint `json:"webhooks"`
}

// secretPrefix is the prefix of a secret in Standard Webhooks. The rest is base64.
const secretPrefix = "whsec_"

// ended lists the final states of a run.
var ended = []ledger.State{
	ledger.State(writ.RunSucceeded), ledger.State(writ.RunFailed), ledger.State(writ.RunCancelled),
	ledger.State(writ.RunExpired), ledger.StateRefused,
}

// Read reads the endpoints and their secrets from a settings file of the operator (YAML). Unknown fields are errors.
func Read(path string) ([]Endpoint, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the settings of webhooks cannot be read: %v", err).
			WithHint("docs/manual/webhooks.md shows such a file")
	}
	var s settings
	if err := yamltext.Decode(text, &s); err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "%s cannot be read: %v", path, err).
			WithHint("docs/manual/webhooks.md has all fields")
	}
	if len(s.Webhooks) == 0 {
		return nil, writ.Errorf(writ.CodeUsage, "%s contains no webhook", path).
			WithHint("docs/manual/webhooks.md shows such a file")
	}
	for i := range s.Webhooks {
		e := &s.Webhooks[i]
		if slices.ContainsFunc(s.Webhooks[:i], func(o Endpoint) bool { return o.Name == e.Name }) {
			return nil, writ.Errorf(writ.CodeUsage, "%s names the webhook %q twice", path, e.Name).
				WithHint("give each webhook a unique name")
		}
		if err := e.check(); err != nil {
			return nil, err
		}
		if err := e.readSecrets(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	return s.Webhooks, nil
}

// check returns an error if a setting is invalid.
func (e *Endpoint) check() error {
	if !writ.ValidName(e.Name) {
		return writ.Errorf(writ.CodeUsage, "%q is not the name of a webhook", e.Name).
			WithHint("use small letters, digits and hyphens, as in chat-ops")
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		return writ.Errorf(writ.CodeUsage, "the webhook %s has no address that can be used", e.Name).
			WithHint("it looks like https://hooks.example.org/writ")
	case u.Scheme == "http" && !reach.Loopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return writ.Errorf(writ.CodeUsage, "the webhook %s has an address without https", e.Name).
			WithHint("http:// is allowed on loopback only: other people could read the messages")
	}
	for _, t := range e.Types {
		if !slices.Contains(Types, t) || t == Test {
			return writ.Errorf(writ.CodeUsage, "the webhook %s has the unknown message type %q", e.Name, t).
				WithHint("there are %s", typesText())
		}
	}
	for _, state := range e.States {
		if !slices.Contains(ended, state) {
			return writ.Errorf(writ.CodeUsage, "the webhook %s has the unknown run state %q", e.Name, state).
				WithHint("runs end as %v", ended)
		}
	}
	return nil
}

// readSecrets reads the file with the secrets.
func (e *Endpoint) readSecrets(dir string) error {
	if e.SecretFile == "" {
		return writ.Errorf(writ.CodeUsage, "the webhook %s has no secret_file", e.Name).
			WithHint(`create a file that only its owner can read: (umask 077; echo "whsec_$(openssl rand -base64 32)" > %s.secret)`,
				e.Name)
	}
	path := e.SecretFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "the secret of the webhook %s cannot be read: %v", e.Name, err)
	}
	if info.Mode().Perm()&0o077 != 0 && info.Mode().IsRegular() && os.PathSeparator == '/' {
		return writ.Errorf(writ.CodeUsage, "other users can read the secret of the webhook %s in %s", e.Name, path).
			WithHint("chmod 600 %s", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "the secret of the webhook %s cannot be read: %v", e.Name, err)
	}
	for secret := range strings.FieldsSeq(string(text)) {
		signer, err := standardwebhooks.NewWebhook(secret)
		// Standard Webhooks requires at least 24 bytes, which are 32 characters of base64.
		if err != nil || !strings.HasPrefix(secret, secretPrefix) || len(secret) < len(secretPrefix)+32 {
			return writ.Errorf(writ.CodeUsage, "%s has a secret of another form", path).
				WithHint("it is %s and the base64 of 24 to 64 random bytes: echo \"%s$(openssl rand -base64 32)\"", secretPrefix,
					secretPrefix)
		}
		e.secrets = append(e.secrets, signer)
	}
	if len(e.secrets) == 0 {
		return writ.Errorf(writ.CodeUsage, "%s has no secret", path).
			WithHint("write a line for each: echo \"%s$(openssl rand -base64 32)\"", secretPrefix)
	}
	return nil
}

// sign returns the value of the signature header of a message.
func (e *Endpoint) sign(id string, at time.Time, body []byte) (string, error) {
	var all []string
	for _, secret := range e.secrets {
		signature, err := secret.Sign(id, at, body)
		if err != nil {
			return "", err
		}
		all = append(all, signature)
	}
	return strings.Join(all, " "), nil
}

// wants reports whether the endpoint wants a message.
func (e *Endpoint) wants(m *Message) bool {
	listed := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	if len(e.Types) > 0 && !slices.Contains(e.Types, m.Type) {
		return false
	}
	switch data := m.Data.(type) {
	case *Run:
		return (listed(e.Projects, data.Project) || listed(e.Projects, string(data.ProjectID))) &&
			listed(e.Datacenters, data.Datacenter) && (len(e.States) == 0 || slices.Contains(e.States, data.State))
	case *Node:
		return listed(e.Datacenters, data.Datacenter)
	default:
		return true
	}
}

// host returns the host and port of the endpoint for the log: its path may be a secret.
func (e *Endpoint) host() string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	if u.Port() == "" {
		return u.Hostname()
	}
	return net.JoinHostPort(u.Hostname(), u.Port())
}
