package client

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
)

// newKey creates a key. If path is not "", it also writes the files of ssh-keygen, encrypted if passphrase is not "".
func newKey(t *testing.T, path, passphrase string) (ed25519.PrivateKey, ssh.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := sshsig.SSHKey(public)
	if path == "" {
		return private, key
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "test")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "test", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{path: pem.EncodeToMemory(block), path + ".pub": ssh.MarshalAuthorizedKey(key)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, key
}

// startAgent starts an ssh-agent with these keys and returns its socket.
func startAgent(t *testing.T, keys ...ed25519.PrivateKey) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: k}); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "writ") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		os.RemoveAll(dir)
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, c) }() // ends with the connection
		}
	}()
	return l.Addr().String()
}

func TestKeyIsFound(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, usual := newKey(t, filepath.Join(home, ".ssh", "id_ed25519"), "")
	lockedKey, locked := newKey(t, filepath.Join(home, "locked"), "secret")
	agentFirst, _ := newKey(t, "", "")
	agentOther, other := newKey(t, "", "")
	socket := startAgent(t, agentFirst, agentOther, lockedKey)
	knowsOther := func(k ssh.PublicKey) bool { return same(k, other) }
	none := func(ssh.PublicKey) bool { return false }

	for _, tt := range []struct {
		what  string
		keys  Keys
		known func(ssh.PublicKey) bool
		want  ssh.PublicKey // nil for KEY_UNUSABLE
	}{
		{"no key given", Keys{}, nil, usual},
		{"no key given, with an agent that has a key of the roster", Keys{AgentSocket: socket}, knowsOther, other},
		{"no key given, with an agent with other keys", Keys{AgentSocket: socket}, none, usual},
		{"a file in the home directory", Keys{Spec: "~/.ssh/id_ed25519"}, knowsOther, usual},
		{"a locked file without a terminal", Keys{Spec: "~/locked"}, nil, nil},
		{"a locked file that the agent has opened", Keys{Spec: "~/locked", AgentSocket: socket}, nil, locked},
		{"the agent", Keys{Spec: "agent", AgentSocket: socket}, knowsOther, other},
		{"the agent, without a usable key", Keys{Spec: "agent", AgentSocket: socket}, none, nil},
		{"a key of the agent", Keys{Spec: "agent:" + ssh.FingerprintSHA256(other), AgentSocket: socket}, none, other},
		{"no such key in the agent", Keys{Spec: "agent:" + ssh.FingerprintSHA256(usual), AgentSocket: socket}, nil, nil},
		{"no agent", Keys{Spec: "agent"}, nil, nil},
		{"an agent that is gone", Keys{Spec: "agent", AgentSocket: filepath.Join(home, "gone")}, nil, nil},
		{"no such file", Keys{Spec: "~/nothing"}, nil, nil},
	} {
		t.Run(tt.what, func(t *testing.T) {
			tt.keys.Home = home
			k, err := tt.keys.Open(t.Context(), tt.known)
			if tt.want == nil {
				if writ.CodeOf(err) != writ.CodeKeyUnusable {
					t.Fatalf("%v, want KEY_UNUSABLE", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			if !same(k.PublicKey(), tt.want) {
				t.Fatalf("found %s (%s)", ssh.FingerprintSHA256(k.PublicKey()), k.Spec)
			}
			armored, err := k.Sign(sshsig.ScriptNamespace, []byte("text"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sshsig.Verify(sshsig.ScriptNamespace, []byte("text"), armored); err != nil {
				t.Error(err)
			}
			again := Keys{Spec: k.Spec, AgentSocket: tt.keys.AgentSocket, Home: home}
			if same, err := again.Open(t.Context(), none); err != nil {
				t.Errorf("%q does not name it: %v", k.Spec, err)
			} else {
				same.Close()
			}
		})
	}
}

// TestKeyInsteadOfItsNameIsNotShown passes a key's text as the file name, as a CI variable easily does.
func TestKeyInsteadOfItsNameIsNotShown(t *testing.T) {
	home := t.TempDir()
	newKey(t, filepath.Join(home, "key"), "")
	text, err := os.ReadFile(filepath.Join(home, "key"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for name, spec := range map[string]string{
		"whole": string(text), "in one line": strings.Join(lines, " "), "without its frame": lines[1], "after a space": " " + lines[1], "as a file in home": "~/" + string(text),
	} {
		_, err := Keys{Spec: spec, Home: home}.Open(t.Context(), nil)
		_, asOwner := Keys{Spec: spec, Home: home}.Owner(t.Context(), new(identity.Roster))
		for _, err := range []error{err, asOwner} {
			if e := writ.AsError(err); err == nil || e.Code != writ.CodeKeyUnusable || strings.Contains(e.Message+e.Hint, lines[1][:20]) || !strings.Contains(e.Hint, "file") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestPassphraseIsAskedOnlyForALockedFile(t *testing.T) {
	home := t.TempDir()
	_, locked := newKey(t, filepath.Join(home, "locked"), "secret")
	newKey(t, filepath.Join(home, "open"), "")
	asked := ""
	keys := Keys{Home: home, Passphrase: func(path string) ([]byte, error) {
		asked = filepath.Base(path)
		return []byte("secret"), nil
	}}
	keys.Spec = "~/open"
	if _, err := keys.Open(t.Context(), nil); err != nil || asked != "" {
		t.Errorf("an open file: %v, asked for %q", err, asked)
	}
	keys.Spec = "~/locked"
	k, err := keys.Open(t.Context(), nil)
	if err != nil || asked != "locked" || !same(k.PublicKey(), locked) {
		t.Errorf("a locked file: %v, asked for %q", err, asked)
	}
}

func TestFounderMayDoEverything(t *testing.T) {
	private, public := newKey(t, "", "")
	now := time.Now()
	roster, signed, err := Found(sshsig.NewSigner(private), "alice", now)
	if err != nil {
		t.Fatal(err)
	}
	verified, err := identity.VerifyRosters(identity.ClusterOf(public), [][]byte{signed}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range []identity.Action{
		identity.ActionRead, identity.ActionSubmit, identity.ActionDestroy, identity.ActionControlRuns, identity.ActionScheduleNodes,
		identity.ActionAdmitNodes, identity.ActionCreateTokens, identity.ActionGovern,
	} {
		if err := verified.Allows("alice", action, "", now); err != nil {
			t.Errorf("%s: %v", action, err)
		}
	}
	if got := PrincipalOf(roster, public); got != "alice" {
		t.Errorf("the key belongs to %q", got)
	}
	if len(verified.Projects.Named(DefaultProject)) != 1 {
		t.Errorf("projects: %v", verified.Projects)
	}
}

// TestCertificateNextToAKeyIsUsed checks that keys are chosen as by ssh: a certificate next to a key file if the
// roster accepts it, and certificates of an agent.
func TestCertificateNextToAKeyIsUsed(t *testing.T) {
	home := t.TempDir()
	private, public := newKey(t, filepath.Join(home, "job"), "")
	ca, authority := newKey(t, "", "")
	signer, err := ssh.NewSignerFromSigner(ca)
	if err != nil {
		t.Fatal(err)
	}
	cert := &ssh.Certificate{
		Key: public, CertType: ssh.UserCert, KeyId: "ci-1", ValidPrincipals: []string{"deploy"}, ValidBefore: uint64(time.Now().Add(time.Minute).Unix()),
	}
	if err := cert.SignCert(rand.Reader, signer); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "job-cert.pub"), ssh.MarshalAuthorizedKey(cert), 0o600); err != nil {
		t.Fatal(err)
	}
	roster := &identity.Roster{
		Principals:  []identity.Principal{{Name: "deploy", Kind: identity.CI, State: identity.Active}},
		Authorities: []identity.Authority{{Name: "forge", State: identity.Active, Key: authority, Principals: []string{"deploy"}}},
	}
	known := func(k ssh.PublicKey) bool { return PrincipalOf(roster, k) != "" }
	for name, tt := range map[string]struct {
		spec  string
		known func(ssh.PublicKey) bool
		want  ssh.PublicKey
	}{
		"beside the key":                    {"~/job", known, cert},
		"by its own name":                   {"~/job-cert.pub", nil, cert},
		"of no authority that is known":     {"~/job", func(k ssh.PublicKey) bool { return same(k, public) }, public},
		"where no roster is known yet":      {"~/job", nil, public},
		"in the agent":                      {"agent", known, cert},
		"in the agent, and named by a file": {"~/job", known, cert},
	} {
		keys := Keys{Spec: tt.spec, Home: home}
		if strings.Contains(name, "agent") {
			keys.AgentSocket = startAgent(t, private)
			addToAgent(t, keys.AgentSocket, agent.AddedKey{PrivateKey: private, Certificate: cert})
		}
		k, err := keys.Open(t.Context(), tt.known)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !same(k.PublicKey(), tt.want) {
			t.Errorf("%s: found %s (%s)", name, k.PublicKey().Type(), k.Spec)
		}
		if _, err := k.Sign(sshsig.ScriptNamespace, []byte("text")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		k.Close()
	}
	by, err := Keys{Spec: "~/job", Home: home}.Owner(t.Context(), roster)
	if c := by.Certificate(roster); err != nil || by.Name != "deploy" || c == nil || c.Authority != "forge" {
		t.Errorf("it is %+v, by %v: %v", by, c, err)
	}
	_, err = signatory(roster, &Key{Signer: mustCertify(t, private, cert), Spec: "job"}, time.Now().Add(time.Hour))
	if writ.CodeOf(err) != writ.CodeExpired {
		t.Errorf("a certificate that has ended: %v", err)
	}
}

func mustCertify(t *testing.T, key ed25519.PrivateKey, cert *ssh.Certificate) sshsig.Signer {
	t.Helper()
	s, err := sshsig.NewCertifiedSigner(key, cert)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func addToAgent(t *testing.T, socket string, key agent.AddedKey) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := agent.NewClient(struct{ io.ReadWriter }{conn}).Add(key); err != nil {
		t.Fatal(err)
	}
}

func TestAuthorityHasItsOwnMachinesAndKey(t *testing.T) {
	private, public := newKey(t, "", "")
	roster, _, err := Found(sshsig.NewSigner(private), "alice", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, ca := newKey(t, "", "")
	_, other := newKey(t, "", "")
	roster.Principals = append(roster.Principals, identity.Principal{Name: "deploy", Kind: identity.CI, State: identity.Active})
	deploy := []string{"deploy"}
	for _, tt := range []struct {
		what, name string
		key        ssh.PublicKey
		grant      AuthorityGrant
		want       writ.Code
	}{
		{"no key", "forge", nil, AuthorityGrant{Principals: deploy}, writ.CodeUsage},
		{"no machine", "forge", ca, AuthorityGrant{}, writ.CodeUsage},
		{"an unknown machine", "forge", ca, AuthorityGrant{Principals: []string{"build"}}, writ.CodeNotFound},
		{"a person", "forge", ca, AuthorityGrant{Principals: []string{"alice"}}, writ.CodeUsage},
		{"a person's key", "forge", public, AuthorityGrant{Principals: deploy}, writ.CodeConflict},
		{"a star for all", "forge", ca, AuthorityGrant{Principals: deploy, KeyIDs: []string{"*"}}, writ.CodeUsage},
		{"a new one", "forge", ca, AuthorityGrant{Principals: deploy, KeyIDs: []string{"ci-*"}, Life: time.Hour}, ""},
		{"another key", "forge", other, AuthorityGrant{Principals: deploy}, writ.CodeConflict},
		{"another name", "mint", ca, AuthorityGrant{Principals: deploy}, writ.CodeConflict},
		{"key ids without principals", "forge", nil, AuthorityGrant{KeyIDs: []string{"ci-1"}}, writ.CodeUsage},
		{"a longer time", "forge", nil, AuthorityGrant{Expires: time.Now().Add(time.Hour)}, ""},
		{"all key ids", "forge", nil, AuthorityGrant{Principals: deploy, AnyKeyID: true}, ""},
	} {
		next := *roster
		next.Authorities = append([]identity.Authority(nil), roster.Authorities...)
		err := AddAuthority(&next, tt.name, tt.key, tt.grant)
		if got := writ.CodeOf(err); got != tt.want {
			t.Errorf("%s: %v, want %q", tt.what, err, tt.want)
		}
		if err == nil {
			if _, err := next.Text(); err != nil {
				t.Errorf("%s: %v", tt.what, err)
			}
			roster = &next
		}
	}
	if a := roster.Authorities.Named("forge"); len(a.KeyIDs) != 0 || a.Life != time.Hour || a.Expires.IsZero() {
		t.Errorf("%+v", a)
	}
	if err := AddPrincipal(roster, "bob", identity.Person, ca, Grant{}); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("a person with the key of the authority: %v", err)
	}
	if err := RemoveAuthority(roster, "forge", identity.Revoked); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAuthority(roster, "forge", identity.Removed); err != nil || roster.Authorities.Named("forge").State != identity.Revoked {
		t.Errorf("it was revoked, and is %s, %v", roster.Authorities.Named("forge").State, err)
	}
	if err := AddAuthority(roster, "forge", nil, AuthorityGrant{Principals: deploy}); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("a revoked one is added again: %v", err)
	}
}
