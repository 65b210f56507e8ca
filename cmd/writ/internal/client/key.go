package client

import (
	"bytes"
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
)

// agentKey is how an ssh-agent is named as a key: "agent" for its first useful key, "agent:SHA256:…" for the one with this
// fingerprint.
const agentKey = "agent"

// defaultKey is where ssh-keygen puts a key if nobody says otherwise.
const defaultKey = "~/.ssh/id_ed25519"

// Keys says where to look for the key to sign with.
type Keys struct {
	// Spec names the key: a private key file of OpenSSH, a certificate that ends in "-cert.pub", "agent", or "agent:SHA256:…". If it
	// is "", a key that the roster knows is looked for in the agent, and then ~/.ssh/id_ed25519 is tried. The certificate beside a key file
	// takes the place of the key, as with ssh, if it means something.
	Spec string
	// Passphrase asks for the passphrase of a file; nil if nobody can be asked.
	Passphrase func(path string) ([]byte, error)
	// AgentSocket is the address of the ssh-agent, "" for none.
	AgentSocket string
	// Waiting reports a request to the agent that takes long; it may be nil.
	Waiting func(what string)
	// Home is the person's home directory.
	Home string

	mute error // why the agent is not asked again
}

// Key is an opened key. Close it when nothing more is to be signed.
type Key struct {
	identity.Signer
	Spec  string // names this key and no other
	agent *agentSession
}

// Close ends the connection to the agent, if there is one.
func (k *Key) Close() error {
	if k.agent == nil {
		return nil
	}
	return k.agent.conn.Close()
}

// Open finds the key. known selects among several keys; nil permits all. Requests to an agent end with ctx, including
// later signatures by the returned key. Errors have the code KEY_UNUSABLE and contain no part of a key, except the error
// of ctx.
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

// search tries the agent's keys that are known, then the default file, then any key of the agent.
func (k Keys) search(ctx context.Context, known func(ssh.PublicKey) bool) (*Key, error) {
	if known != nil {
		key, err := k.fromAgent(ctx, known)
		if err == nil {
			return key, nil
		}
		k = k.without(err)
	}
	path := k.expand(defaultKey)
	if _, err := os.Stat(path); err == nil {
		return k.fromFile(ctx, path, known)
	}
	key, err := k.fromAgent(ctx, nil)
	switch {
	case err == nil:
		return key, nil
	case ctx.Err() != nil || errors.Is(err, errAgentMute):
		return nil, err
	}
	return nil, writ.Errorf(writ.CodeKeyUnusable, "there is no SSH key: neither %s nor one in an ssh-agent", path).
		WithHint("make one with `ssh-keygen -t ed25519`, or name one with --key")
}

func keyInsteadOfName() *writ.Error {
	return writ.Errorf(writ.CodeKeyUnusable, "--key or WRIT_KEY holds a private key, and should name one").
		WithHint("write the key to a file that only you can read, and give the name of that file; or load it with ssh-add and give \"agent\"")
}

// AbsoluteSpec returns a spec that names the same key in every working directory, for a context that is stored.
func AbsoluteSpec(spec string) (string, error) {
	kind, _, _ := strings.Cut(spec, ":")
	if spec == "" || kind == agentKey || strings.HasPrefix(spec, "~") || redact.HoldsKey(spec) {
		return spec, nil
	}
	return filepath.Abs(spec)
}

// without returns k without its agent if err shows that the agent does not answer: the next request would wait as long again.
func (k Keys) without(err error) Keys {
	if errors.Is(err, errAgentMute) {
		k.mute = err
	}
	return k
}

// fromFile opens a key file. An encrypted file is used through the agent if that holds its key, which saves the person the passphrase.
func (k Keys) fromFile(ctx context.Context, path string, known func(ssh.PublicKey) bool) (*Key, error) {
	path = certified(path, known)
	signer, err := identity.LoadKey(path, nil)
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
		signer, err = identity.LoadKey(path, func() ([]byte, error) { return k.Passphrase(path) })
	case errors.Is(agentErr, errAgentMute):
		err = writ.Errorf(writ.CodeKeyUnusable, "%v; %v", err, agentErr).WithHint("%s", writ.AsError(agentErr).Hint)
	}
	if err != nil {
		return nil, err
	}
	return &Key{Signer: signer, Spec: path}, nil
}

// certified returns the certificate beside a key file if that is known, and otherwise the file.
func certified(path string, known func(ssh.PublicKey) bool) string {
	if strings.HasSuffix(path, ".pub") || known == nil {
		return path
	}
	beside := path + "-cert.pub"
	if public := publicHalf(beside); public == nil || !known(public) {
		return path
	}
	return beside
}

// Signatory is in whose name something is signed, and by what: a key of the roster, or a certificate of an authority.
type Signatory struct {
	Name string
	Key  ssh.PublicKey
}

// Owner returns who signs with the key. Unlike Open it does not need the private key if the public one lies beside it.
func (k Keys) Owner(ctx context.Context, r *identity.Roster) (Signatory, error) {
	if redact.HoldsKey(k.Spec) {
		return Signatory{}, keyInsteadOfName()
	}
	path := k.Spec
	if path == "" {
		path = defaultKey
	}
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

// signatory returns who signs with a key. A certificate that has ended signs nothing that would be accepted.
func signatory(r *identity.Roster, key *Key, now time.Time) (Signatory, error) {
	s := Signatory{PrincipalOf(r, key.PublicKey()), key.PublicKey()}
	if s.Name == "" {
		return s, unknownKey(key)
	}
	return s, s.Counts(r, now)
}

// Counts returns why nothing that is signed now would be accepted, nil if it would as far as a certificate is concerned.
func (s Signatory) Counts(r *identity.Roster, now time.Time) error {
	cert, ok := s.Key.(*ssh.Certificate)
	if !ok {
		return nil
	}
	if c := s.Certificate(r); c != nil && !now.Before(c.Until) {
		return writ.Errorf(writ.CodeExpired, "the %s expired on %s", c, c.Until.Format(time.RFC3339)).WithHint("get a new one: what an expired certificate signs is refused")
	}
	return identity.CheckCertificate(r, cert, now)
}

// Certificate returns the certificate that signs, nil for a plain key.
func (s Signatory) Certificate(r *identity.Roster) *identity.Certificate {
	cert, ok := s.Key.(*ssh.Certificate)
	if !ok {
		return nil
	}
	_, c := identity.CertificateOwner(r, cert)
	return c
}

// publicHalf reads the public key beside a private one, nil if there is none. It decides nothing but where the key is looked for.
func publicHalf(path string) ssh.PublicKey {
	if !strings.HasSuffix(path, ".pub") {
		path += ".pub"
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	key, err := identity.ParsePublicKey(text)
	if err != nil {
		return nil
	}
	return key
}

// fromAgent opens the first key of the agent that is wanted; nil wants all.
func (k Keys) fromAgent(ctx context.Context, wanted func(ssh.PublicKey) bool) (*Key, error) {
	if k.mute != nil {
		return nil, k.mute
	}
	if k.AgentSocket == "" {
		return nil, writ.Errorf(writ.CodeKeyUnusable, "there is no ssh-agent: SSH_AUTH_SOCK is not set").
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
	i := slices.IndexFunc(keys, func(k identity.AgentKey) bool { return wanted == nil || wanted(k.Key) })
	if i < 0 {
		return nil, writ.Errorf(writ.CodeKeyUnusable, "the ssh-agent holds none of the keys that could sign here").
			WithHint("`ssh-add -l` lists what it holds; add a key with ssh-add, or name a key file with --key")
	}
	signer, err := session.signer(keys[i].Key)
	if err != nil {
		return nil, err
	}
	return &Key{Signer: signer, Spec: agentKey + ":" + ssh.FingerprintSHA256(keys[i].Key), agent: session}, nil
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

// PrincipalOf returns the name under which a key or certificate may sign, "" if the roster does not know it.
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

// AuthorizedKey writes a key as in an authorized_keys file, in one line and without a comment.
func AuthorizedKey(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }
