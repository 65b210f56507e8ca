package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/redact"
	"writ/identity"
	"writ/identity/sshsig"
)

// agentKey is the key spec for an ssh-agent: "agent" for its first usable key, "agent:SHA256:…" for the key with this
// fingerprint.
const agentKey = "agent"

// defaultKey is the default path of ssh-keygen.
const defaultKey = "~/.ssh/id_ed25519"

// Keys holds the sources of the signing key.
type Keys struct {
	// Spec names the key: an OpenSSH private key file, a certificate that ends in "-cert.pub", "agent", or
	// "agent:SHA256:…". If it is "", Open searches the agent for a key known to the roster and then tries
	// ~/.ssh/id_ed25519. As with ssh, a certificate next to a key file replaces the key if the roster accepts it.
	Spec string
	// Passphrase asks for the passphrase of a file; nil if the user cannot be asked.
	Passphrase func(path string) ([]byte, error)
	// AgentSocket is the address of the ssh-agent, or "".
	AgentSocket string
	// Waiting reports a slow request to the agent; may be nil.
	Waiting func(what string)
	// Home is the user's home directory.
	Home string

	mute error // error of an agent that is not queried again
}

// Key is an opened key. Close it after the last signature.
type Key struct {
	sshsig.Signer
	Spec  string // identifies exactly this key
	agent *agentSession
}

// Close closes the connection to the agent, if any.
func (k *Key) Close() error {
	if k.agent == nil {
		return nil
	}
	return k.agent.conn.Close()
}

// Open opens the key. known selects among several keys; nil permits all. Requests to an agent end with ctx, including
// later signatures by the returned key. Errors have the code KEY_UNUSABLE and contain no part of a key, except the
// error of ctx.
func (k Keys) Open(ctx context.Context, known func(ssh.PublicKey) bool) (*Key, error) {
	if redact.HoldsKey(k.Spec) {
		return nil, keyInsteadOfName()
	}
	switch spec, fingerprint, _ := strings.Cut(k.Spec, ":"); {
	case spec == agentKey && fingerprint != "":
		return k.fromAgent(ctx, func(key ssh.PublicKey) bool { return ssh.FingerprintSHA256(key) == fingerprint })
	case spec == agentKey:
		return k.fromAgent(ctx, known)
	case k.Spec != "":
		return k.fromFile(ctx, k.expand(k.Spec), known)
	}
	return k.search(ctx, known)
}

// search tries the known keys of the agent, then the default file, then any key of the agent.
func (k Keys) search(ctx context.Context, known func(ssh.PublicKey) bool) (*Key, error) {
	var agentErr error
	if known != nil {
		key, err := k.fromAgent(ctx, known)
		if err == nil {
			return key, nil
		}
		agentErr = err
		k = k.without(err)
	}
	path := k.expand(defaultKey)
	if _, err := os.Stat(path); err == nil {
		key, err := k.fromFile(ctx, path, known)
		if err == nil && known != nil && !known(key.PublicKey()) && isAgentAway(agentErr) {
			return nil, errors.Join(unknownBesideAgent(key, agentErr), key.Close())
		}
		return key, err
	}
	key, err := k.fromAgent(ctx, nil)
	switch {
	case err == nil:
		return key, nil
	case ctx.Err() != nil || isAgentAway(err):
		return nil, err
	}
	return nil, writ.Errorf(writ.CodeKeyUnusable, "missing SSH key: neither %s nor an ssh-agent has one", path).
		WithHint("create a key with `ssh-keygen -t ed25519`, or name one with --key")
}

func keyInsteadOfName() *writ.Error {
	return writ.Errorf(writ.CodeKeyUnusable, "--key or WRIT_KEY contains a private key instead of the name of its file").
		WithHint("write the key to a file that only you can read, and give the name of that file; or load it with ssh-add and give \"agent\"")
}

// AbsoluteSpec returns a spec that names the same key in every working directory. Stored contexts need this form.
func AbsoluteSpec(spec string) (string, error) {
	kind, _, _ := strings.Cut(spec, ":")
	if spec == "" || kind == agentKey || strings.HasPrefix(spec, "~") || redact.HoldsKey(spec) {
		return spec, nil
	}
	return filepath.Abs(spec)
}

// without returns k without its agent if err shows that the agent does not answer. The next request would wait for the
// same time again.
func (k Keys) without(err error) Keys {
	if errors.Is(err, errAgentMute) {
		k.mute = err
	}
	return k
}

// fromFile opens a key file. If the file is encrypted and the agent holds its key, the agent is used, so the user need
// not type the passphrase.
func (k Keys) fromFile(ctx context.Context, path string, known func(ssh.PublicKey) bool) (*Key, error) {
	path = certified(path, known)
	signer, err := sshsig.LoadKey(path, nil)
	if err == nil {
		return &Key{Signer: signer, Spec: path}, nil
	}
	var agentErr error
	if public := publicHalf(path); public != nil {
		var key *Key
		if key, agentErr = k.fromAgent(ctx, func(key ssh.PublicKey) bool { return same(key, public) }); agentErr == nil {
			key.Spec = path
			return key, nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case k.Passphrase != nil:
		signer, err = sshsig.LoadKey(path, func() ([]byte, error) { return k.Passphrase(path) })
	case errors.Is(agentErr, errAgentMute):
		err = writ.Errorf(writ.CodeKeyUnusable, "%v; %v", err, agentErr).WithHint("%s", writ.AsError(agentErr).Hint)
	}
	if err != nil {
		return nil, err
	}
	return &Key{Signer: signer, Spec: path}, nil
}

// certified returns the certificate next to a key file if `known` accepts it, otherwise path. A certificate that has
// expired does not replace a key that `known` accepts.
func certified(path string, known func(ssh.PublicKey) bool) string {
	if strings.HasSuffix(path, ".pub") || known == nil {
		return path
	}
	beside := path + "-cert.pub"
	public := publicHalf(beside)
	if public == nil || !known(public) {
		return path
	}
	if plain := publicHalf(path); isOutdated(public, time.Now()) && plain != nil && known(plain) {
		return path
	}
	return beside
}

// Signatory is the name and key of a signer. The key is a key in the roster or a certificate by an authority.
type Signatory struct {
	Name string
	Key  ssh.PublicKey
}

// Owner returns the signer for the key. Unlike Open, it does not need the private key if a public key file exists next
// to it.
func (k Keys) Owner(ctx context.Context, r *identity.Roster) (Signatory, error) {
	if redact.HoldsKey(k.Spec) {
		return Signatory{}, keyInsteadOfName()
	}
	path := cmp.Or(k.Spec, defaultKey)
	known := func(key ssh.PublicKey) bool { return PrincipalOf(r, key) != "" }
	if public := publicHalf(certified(k.expand(path), known)); public != nil && known(public) {
		return Signatory{PrincipalOf(r, public), public}, nil
	}
	key, err := k.Open(ctx, known)
	if err != nil {
		return Signatory{}, err
	}
	defer key.Close()
	return signatory(r, key, time.Now())
}

// signatory returns the signer for a key. An expired certificate is an error, because its signatures would be rejected.
func signatory(r *identity.Roster, key *Key, now time.Time) (Signatory, error) {
	s := Signatory{PrincipalOf(r, key.PublicKey()), key.PublicKey()}
	if s.Name == "" {
		return s, unknownKey(r, key)
	}
	return s, s.Counts(r, now)
}

// Counts returns an error if a signature made now would be rejected because of the signer's certificate.
func (s Signatory) Counts(r *identity.Roster, now time.Time) error {
	cert, ok := s.Key.(*ssh.Certificate)
	if !ok {
		return nil
	}
	if c := s.Certificate(r); c != nil && !now.Before(c.Until) {
		return writ.Errorf(writ.CodeExpired, "the %s expired on %s", c, c.Until.Format(time.RFC3339)).
			WithHint("get a new one: signatures by an expired certificate are rejected")
	}
	return identity.CheckCertificate(r, cert, now)
}

// Certificate returns the signing certificate, or nil for a plain key.
func (s Signatory) Certificate(r *identity.Roster) *identity.Certificate {
	cert, ok := s.Key.(*ssh.Certificate)
	if !ok {
		return nil
	}
	_, c := identity.CertificateOwner(r, cert)
	return c
}

// publicHalf reads the public key next to a private key file, or returns nil. It is used only to locate the key.
func publicHalf(path string) ssh.PublicKey {
	if !strings.HasSuffix(path, ".pub") {
		path += ".pub"
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	key, err := sshsig.ParsePublicKey(text)
	if err != nil {
		return nil
	}
	return key
}

// fromAgent opens the first key of the agent that `wanted` accepts; a nil `wanted` accepts all.
func (k Keys) fromAgent(ctx context.Context, wanted func(ssh.PublicKey) bool) (*Key, error) {
	if k.mute != nil {
		return nil, k.mute
	}
	if k.AgentSocket == "" {
		return nil, writ.Errorf(writ.CodeKeyUnusable, "missing ssh-agent: SSH_AUTH_SOCK is not set").
			WithHint("eval $(ssh-agent) && ssh-add, or name a key file with --key")
	}
	session, err := dialAgent(ctx, k.AgentSocket, k.Waiting)
	if err != nil {
		return nil, err
	}
	key, err := chooseFromAgent(session, wanted)
	if err != nil {
		session.conn.Close()
		return nil, err
	}
	return key, nil
}

func chooseFromAgent(session *agentSession, wanted func(ssh.PublicKey) bool) (*Key, error) {
	keys, err := session.keys()
	if err != nil {
		return nil, err
	}
	key := firstUsable(keys, wanted, time.Now())
	if key == nil {
		return nil, noUsableKey(session.socket, len(keys))
	}
	signer, err := session.signer(key)
	if err != nil {
		return nil, err
	}
	return &Key{Signer: signer, Spec: agentKey + ":" + ssh.FingerprintSHA256(key), agent: session}, nil
}

func (k Keys) expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(k.Home, rest)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// PrincipalOf returns the name under which a key or certificate may sign, or "" if the roster does not know it.
func PrincipalOf(r *identity.Roster, key ssh.PublicKey) string {
	if cert, ok := key.(*ssh.Certificate); ok {
		name, _ := identity.CertificateOwner(r, cert)
		return name
	}
	for _, p := range r.Principals {
		if slices.ContainsFunc(p.Keys, func(k identity.PrincipalKey) bool { return same(k.Key, key) }) {
			return p.Name
		}
	}
	return ""
}

// AuthorizedKey formats a key as one line of an authorized_keys file, without a comment.
func AuthorizedKey(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }
